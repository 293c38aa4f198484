"""Ids as text: characters across ids, special ids, the generation-time offset map."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.terminal.trajectory.assemble import RowLabel
from t1cli.terminal.trajectory.row import TrainingRow, Turn
from t1cli.terminal.trajectory.text_space import ByteText, atom, boundary_after, normal_form, reply_pieces
from tests.unit.terminal.trajectory.assembled import assemble

END = 1000
TEXT = ByteText(lambda token: bytes([token]), {END})
LABEL = RowLabel(trial_id="trial", group_id=3, task="task", family="family", reward=0.25)


@given(st.lists(st.one_of(st.integers(0, 255), st.just(END)), max_size=40))
@settings(max_examples=300, deadline=None)
def test_pieces_concatenate_to_what_all_ids_say(ids: list[int]) -> None:
    pieces = TEXT.pieces(ids)
    whole, run = "", bytearray()
    for token in [*ids, END]:
        if token == END:
            whole += run.decode("utf-8", "replace") + atom(END)
            run.clear()
        else:
            run.append(token)
    assert "".join(pieces) + atom(END) == whole and len(pieces) == len(ids)


def test_a_character_belongs_to_its_last_id_and_a_special_id_is_no_text() -> None:
    assert TEXT.pieces("✓".encode()) == ["", "", "✓"]
    assert TEXT.pieces([0xE2, END, 0x61]) == ["", "\ufffd" + atom(END), "a"]
    assert atom(END) not in "<|end|>1000"


def test_boundaries_and_normal_forms() -> None:
    assert boundary_after(["", "a", "", "bc"], 1) == 2
    assert boundary_after(["", "a", "", "bc"], 2) is None
    assert boundary_after(["a"], 0) == 0
    assert normal_form(" e\u0301\n x") == "éx" and normal_form("a b") != normal_form("a c")


@pytest.mark.parametrize("offsets", [(1,), (2, 1), (1, 9)])
def test_offsets_that_are_no_map_are_refused(offsets: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="offset"):
        reply_pieces("ab", offsets, ["", ""])


def turn(prompt: bytes, sampled: bytes, *, text: str = "", offsets: tuple[int, ...] | None = None) -> Turn:
    rows = np.zeros((len(prompt) + len(sampled), 1, 1), dtype=np.uint8)
    return Turn(tuple(prompt), (*sampled, END), (-1.0,) * (len(sampled) + 1), rows, text, "stop", 0, offsets)


def retold(first: Turn, copy: bytes) -> tuple[TrainingRow, ...]:
    """The rows when the next prompt has `copy` in the reply's place."""
    prompt = (*first.prompt_ids, *copy, END, *b" rest")
    rows = np.zeros((len(prompt) + 1, 1, 1), dtype=np.uint8)
    second = Turn(prompt, (ord("k"), END), (-1.0, -1.0), rows, "", "stop", 0)
    return assemble([first, second], label=LABEL, routing="required", text=TEXT)


def test_the_offset_map_says_what_the_harness_was_given() -> None:
    """An engine that tidies text up (` .` becomes `.`) leaves ids that its text does not spell; the map still knows."""
    reply = b"list of everything ."
    tidy = "list of everything."
    ends = (*range(1, 19), 18, 19, 19)
    without = retold(turn(b"q ", reply), b"list of everything!!")
    assert [record.relation for row in without for record in row.audit.records] == ["strict", "split"]
    (row,) = retold(turn(b"q ", reply, text=tidy, offsets=ends), tidy.encode())
    second = row.audit.records[1]
    assert second.relation == "normalized" and second.cell == (3, 2) and second.retokenized == 1
    exclaimed = turn(b"q ", reply, text="list of everything!", offsets=ends)
    (row,) = retold(exclaimed, b"list of everything!")
    assert [record.relation for record in row.audit.records] == ["strict", "normalized"]
    assert bytes(row.tokens[2:22].tolist()) == reply, "what was sampled stays, whatever its text was made to say"
