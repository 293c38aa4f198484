"""Adversarial trials: small vocabularies that merge across every boundary, templates and harnesses that rewrite
history, a model that samples any ids at all. And an oracle that knows how each reply and row came to be, and nothing
of how the assembler works.

Every log-prob and every routing row is unique, so a row tells where each of its entries comes from.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from t1cli.terminal.trajectory.assemble import RoutingUse, RowLabel
from t1cli.terminal.trajectory.audit import TokenLedger
from t1cli.terminal.trajectory.routing import RoutingCapture, RoutingShape, encode_routing
from t1cli.terminal.trajectory.row import TrainingRow, Turn
from t1cli.terminal.trajectory.text_space import ByteText
from tests.unit.terminal.trajectory.assembled import assemble

START, END, THINK = 1000, 1001, 1002
SPECIALS = {START: "<|s|>", END: "<|e|>", THINK: "<t>"}
SHAPE = RoutingShape(layers=1, top_k=2, experts=60_000)
LABEL = RowLabel(trial_id="trial", group_id=3, task="task", family="family", reward=0.25)
ALPHABET = ("a", "b", " ", "\n", "e\u0301", "é", "✓", "{", '"', ":", "<|e|>", "<t>", "  ")


class Vocabulary:
    """256 bytes and some merges of any neighbours, parts of characters included; encodes greedily, longest first."""

    def __init__(self, random: Random, *, parses_specials: bool) -> None:
        self.parses_specials = parses_specials
        merges = set()
        for _ in range(random.randint(0, 24)):
            whole = "".join(random.choice(ALPHABET) for _ in range(random.randint(1, 3))).encode()
            begin = random.randint(0, max(0, len(whole) - 2))
            merges.add(whole[begin : begin + random.randint(2, 5)])
        self.merges = sorted(piece for piece in merges if len(piece) > 1)
        self.bytes_of = {value: bytes([value]) for value in range(256)} | {
            256 + index: piece for index, piece in enumerate(self.merges)
        }
        self.id_of = {piece: token for token, piece in self.bytes_of.items()}
        self.text = ByteText(self.bytes_of.__getitem__, SPECIALS)

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        if self.parses_specials:
            for token, name in SPECIALS.items():
                before, found, after = text.partition(name)
                if found:
                    return [*self.encode(before), token, *self.encode(after)]
        data, ids, at = text.encode("utf-8", "replace"), [], 0
        while at < len(data):
            size = next(size for size in range(min(5, len(data) - at), 0, -1) if data[at : at + size] in self.id_of)
            ids.append(self.id_of[data[at : at + size]])
            at += size
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special ones left out: what a harness is given."""
        return b"".join(self.bytes_of.get(token, b"") for token in ids).decode("utf-8", "replace")


Message = tuple[str, "str | tuple[int, ...]"]
"""Role and text, or role and exact ids."""


@dataclass(frozen=True)
class Harness:
    """How a harness keeps replies and its template renders them."""

    keeps: Callable[[str], str] | None
    """What it makes of a reply's text; None: it keeps the sampled ids."""
    special: bool
    """Whether the template marks messages with special ids, or with text that merges with what stands beside it."""
    closes: bool
    """Whether the template closes a message that did not end by itself."""

    def render(self, messages: Sequence[Message], words: Vocabulary) -> list[int]:
        """The prompt for the next reply."""
        parts: list[str | tuple[int, ...]] = []
        for role, content in messages:
            parts += [(START,) if self.special else "#", f"{role}\n", content]
            ends_itself = isinstance(content, tuple) and content[-1:] == (END,)
            if not ends_itself and (self.closes or role != "a"):
                parts.append((END,) if self.special else "\n")
        parts += [(START,) if self.special else "#", "a\n"]
        return _joined(parts, words)


def _joined(parts: Sequence[str | tuple[int, ...]], words: Vocabulary) -> list[int]:
    ids: list[int] = []
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
        else:
            ids += [*words.encode(text), *part]
            text = ""
    return [*ids, *words.encode(text)]


def _without_thought(text: str) -> str:
    return text.rpartition("<t>")[2]


KEEPS: tuple[Callable[[str], str] | None, ...] = (
    None,
    None,
    str,
    str,
    str,
    str,
    str.strip,
    str.rstrip,
    _without_thought,
    lambda text: unicodedata.normalize("NFC", text),
    lambda text: text.replace(":", ": "),
    lambda text: text.replace("{", "{{"),
    lambda text: text[:-1],
)


@dataclass
class Scenario:
    """One trial: its turns, and the vocabulary that they are in."""

    words: Vocabulary
    turns: list[Turn] = field(default_factory=list)

    @property
    def sampled(self) -> int:
        """Tokens that the engine sampled."""
        return sum(len(turn.sampled_ids) for turn in self.turns)


class Simulator:
    """Plays one trial."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.words = Vocabulary(random, parses_specials=random.random() < 0.3)
        self.harness = Harness(random.choice(KEEPS), special=random.random() < 0.7, closes=random.random() < 0.8)
        self.scenario = Scenario(self.words)
        self.log_prob = 0.0
        self.states: list[list[Message]] = [[("u", self._said())]]
        self.routing = random.choice(["encoded", "array", "array", "mixed"])

    def play(self) -> Scenario:
        """A trial of 1 to 7 turns."""
        state = self.states[0]
        for _ in range(self.random.randint(1, 7)):
            prompt = self.harness.render(state, self.words)
            reply = self._reply()
            self.scenario.turns.append(self._turn(prompt, reply))
            if self.random.random() < 0.08:
                self.scenario.turns.append(self._turn(prompt, reply if self.random.random() < 0.5 else self._reply()))
            answered = [*state, ("a", self._kept(reply)), ("o", self._said())]
            self.states.append(answered)
            state = self._next(answered)
        return self.scenario

    def _next(self, state: list[Message]) -> list[Message]:
        """What the harness asks next: on, from an earlier state, in a conversation of its own, or shortened."""
        chance = self.random.random()
        if chance < 0.75:
            return state
        if chance < 0.85:
            return self.random.choice(self.states)
        if chance < 0.92:
            return [("u", self._said()), ("o", self._said())]
        return [state[0], ("o", self._said())]

    def _said(self) -> str:
        return "".join(self.random.choice(ALPHABET) for _ in range(self.random.randint(0, 5)))

    def _kept(self, reply: list[int]) -> str | tuple[int, ...]:
        return tuple(reply) if self.harness.keeps is None else self.harness.keeps(self.words.decode(reply))

    def _reply(self) -> list[int]:
        """Any ids: as a text is encoded, byte by byte, or beyond all text; closed, cut, or empty."""
        if self.random.random() < 0.1:
            return []
        ids: list[int] = []
        for _ in range(self.random.randint(20, 60) if self.random.random() < 0.25 else self.random.randint(0, 6)):
            chance = self.random.random()
            if chance < 0.4:
                ids += self.words.encode(self.random.choice(ALPHABET))
            elif chance < 0.7:
                ids += self.random.choice(ALPHABET).encode()
            elif chance < 0.9 and self.words.merges:
                ids.append(256 + self.random.randrange(len(self.words.merges)))
            else:
                ids.append(self.random.choice([0xE2, 0x9C, 0x93, 0xC3, 0xFF]))
        if self.random.random() < 0.1:
            ids.insert(self.random.randint(0, len(ids)), THINK)
        return ids if self.random.random() < 0.15 and ids else [*ids, END]

    def _turn(self, prompt: list[int], reply: list[int]) -> Turn:
        number = len(self.scenario.turns)
        log_probs = []
        for _ in reply:
            self.log_prob -= 1.0
            log_probs.append(self.log_prob)
        pieces = ["".join(c for c in piece if not 0xD800 <= ord(c) < 0xE000) for piece in self._pieces(reply)]
        offsets = [sum(map(len, pieces[: index + 1])) for index in range(len(pieces))]
        return Turn(
            prompt_ids=tuple(prompt),
            sampled_ids=tuple(reply),
            log_probs=tuple(log_probs),
            routed_experts=self._captured(number, len(prompt) + len(reply) - 1),
            text="".join(pieces),
            finish_reason="stop" if reply[-1:] == [END] else "length",
            weight_version=number,
            offsets=tuple(offsets) if self.random.random() < 0.5 else None,
        )

    def _pieces(self, reply: list[int]) -> list[str]:
        names = {token: f"\ud800{token}\udc00" for token in SPECIALS}
        return [
            piece.replace(names.get(i, "\0"), "") for i, piece in zip(reply, self.words.text.pieces(reply), strict=True)
        ]

    def _captured(self, number: int, rows: int) -> np.ndarray | RoutingCapture:
        positions = np.arange(rows)
        routed = np.stack([np.full_like(positions, number), positions], axis=-1)[:, None, :].astype(np.uint16)
        encoded = self.routing == "encoded" or (self.routing == "mixed" and number % 2)
        return RoutingCapture(encode_routing(routed), rows=rows, shape=SHAPE) if encoded else routed


def simulate(random: Random) -> Scenario:
    """One adversarial trial."""
    return Simulator(random).play()


@dataclass
class Tally:
    """What the oracle saw, to show that every case occurred."""

    rows: int = 0
    tokens: int = 0
    relations: dict[str, int] = field(default_factory=dict)
    ties: int = 0
    placeholders: int = 0
    drifted: int = 0
    mismatched_lengths: int = 0
    unaccounted: int = 0


def check(
    scenario: Scenario, *, routing: RoutingUse, tally: Tally | None = None, by_grid: bool = False
) -> tuple[TrainingRow, ...]:
    """Assemble a trial and hold every row to what the turns say; raises AssertionError.

    `by_grid`: also find by brute force, over all cells, which relation every turn should have had (slow).
    """
    rows = assemble(scenario.turns, label=LABEL, routing=routing, text=scenario.words.text)
    tally = tally or Tally()
    _check_lengths(rows)
    _check_samples(scenario, rows)
    _check_contexts(scenario, rows)
    _check_choices(scenario, rows, required=routing == "required", by_grid=by_grid)
    for row in rows:
        _check_routing(scenario, row, required=routing == "required")
    ledger = TokenLedger(sampled=scenario.sampled)
    for row in rows:
        ledger.book("trained", int(row.loss_mask.sum()))
        assert row.audit.trained_tokens == row.audit.sampled_tokens == int(row.loss_mask.sum())
        assert row.audit.drifted_in_loss == 0 and row.audit.masked == {}
    assert ledger.unaccounted == 0
    _count(tally, rows, ledger)
    return rows


def _count(tally: Tally, rows: Sequence[TrainingRow], ledger: TokenLedger) -> None:
    tally.rows += len(rows)
    tally.unaccounted += abs(ledger.unaccounted)
    for row in rows:
        tally.tokens += len(row.tokens)
        tally.drifted += row.audit.drifted_in_loss
        tally.mismatched_lengths += len(row.tokens) != len(row.loss_mask)
        tally.ties += row.audit.ties
        tally.placeholders += row.audit.placeholder_rows
        for record in row.audit.records:
            tally.relations[record.relation] = tally.relations.get(record.relation, 0) + 1


def _check_lengths(rows: Sequence[TrainingRow]) -> None:
    for row in rows:
        assert len(row.tokens) == len(row.loss_mask) == len(row.log_probs)
        assert row.routed_experts is None or len(row.routed_experts) == len(row.tokens) - 1
        assert row.group_id == 3 and row.reward == 0.25
        assert len(row.weight_versions) == len(row.audit.records) == row.audit.turns


def _check_samples(scenario: Scenario, rows: Sequence[TrainingRow]) -> None:
    """Each sampled id is in the loss exactly once, with its own log-prob, and nothing else is."""
    wanted = {
        float(log_prob): int(token)
        for turn in scenario.turns
        for token, log_prob in zip(turn.sampled_ids, turn.log_probs, strict=True)
    }
    found: dict[float, int] = {}
    for row in rows:
        for token, mask, log_prob in zip(
            row.tokens.tolist(), row.loss_mask.tolist(), row.log_probs.tolist(), strict=True
        ):
            assert mask in (0, 1)
            if mask:
                assert log_prob not in found
                found[log_prob] = token
            else:
                assert log_prob == 0
    assert found == wanted


def _check_contexts(scenario: Scenario, rows: Sequence[TrainingRow]) -> None:
    """Before each reply a row holds what the engine was given: the very ids, or other ids that say the same."""
    for row in rows:
        exact, verbatim = True, True
        first = scenario.turns[row.audit.records[0].turn]
        assert row.response_start == len(first.prompt_ids)
        for record in row.audit.records:
            turn = scenario.turns[record.turn]
            verbatim = verbatim and record.relation in ("strict", "split")
            exact = exact and record.relation != "normalized"
            context = row.tokens[: record.start].tolist()
            assert tuple(row.tokens[record.start : record.start + record.sampled]) == tuple(turn.sampled_ids)
            if verbatim:
                assert context == list(turn.prompt_ids)
            told, retold = _text(scenario, context), _text(scenario, turn.prompt_ids)
            assert told == retold if exact else _bare(told) == _bare(retold)


def _text(scenario: Scenario, ids: Sequence[int]) -> str:
    return "".join(scenario.words.text.pieces(ids))


def _bare(text: str) -> str:
    return "".join(unicodedata.normalize("NFC", text).split())


def _check_routing(scenario: Scenario, row: TrainingRow, *, required: bool) -> None:
    """Row j was captured for the id at position j, by the first turn that read it."""
    assert not required or row.routed_experts is not None
    if row.routed_experts is None:
        return
    trained = np.flatnonzero(row.loss_mask)
    last_trained = int(trained[-1]) if len(trained) else -1
    guessed = 0
    spans = [(record.turn, record.start, record.start + record.sampled) for record in row.audit.records]
    for position, (number, index) in enumerate(row.routed_experts[:, 0].tolist()):
        turn = scenario.turns[number]
        own = (*turn.prompt_ids, *turn.sampled_ids)[index] == row.tokens[position]
        reader = next((turn for turn, _, end in spans if position < end - 1), None)
        if own and (reader is None or number == reader or position >= last_trained):
            continue
        guessed += 1
        assert position >= last_trained
    assert guessed <= row.audit.placeholder_rows


def _check_choices(scenario: Scenario, rows: Sequence[TrainingRow], *, required: bool, by_grid: bool) -> None:
    """Every turn continued the strongest relation and the longest history there was."""
    place = {record.turn: (index, record) for index, row in enumerate(rows) for record in row.audit.records}
    if len(place) < len(scenario.turns):
        assert all(not turn.sampled_ids for number, turn in enumerate(scenario.turns) if number not in place)
        return  # branches without a sampled id are no rows, and what continued them cannot be told
    branches: dict[int, Branch] = {}
    for number, turn in enumerate(scenario.turns):
        index, record = place[number]
        branch = branches.setdefault(index, Branch())
        offers = _offers(scenario, branches, turn, required=required, by_grid=by_grid)
        if offers is not None:
            relation, indices = offers
            assert record.relation == relation and index in indices
            assert index == max(indices, key=lambda i: (len(branches[i].history), branches[i].last_turn))
        else:
            assert record.relation != "strict" or number == 0
            assert not by_grid or record.relation == ("split" if number else "strict")
        if branch.last_turn >= 0:
            found = RELATIONS[record.relation](scenario, branch.history, list(turn.prompt_ids))
            assert found is not None and found[1] == record.cell
            branch.uncaptured = branch.uncaptured or not branch.captured_by(turn, found[0])
            branch.go_on(turn, number, new_ids=len(turn.prompt_ids) - found[0] + len(turn.sampled_ids))
        else:
            branch.go_on(turn, number, new_ids=len(turn.prompt_ids))


@dataclass
class Branch:
    """One row as the oracle follows it."""

    history: list[int] = field(default_factory=list)
    last_turn: int = -1
    last_id: int | None = None
    """Of the row, which keeps what was sampled."""
    uncaptured: bool = False

    def captured_by(self, turn: Turn, stands_for: int) -> bool:
        """Whether a turn read the row's last id, or adds nothing that needs it to have been read."""
        added = len(turn.prompt_ids) - stands_for + len(turn.sampled_ids)
        return not added or (stands_for > 0 and turn.prompt_ids[stands_for - 1] == self.last_id)

    def usable(self, turn: Turn, stands_for: int, *, required: bool) -> bool:
        """Whether the turn's loss would have captured routing before it throughout."""
        if not required or not turn.sampled_ids:
            return True
        return not self.uncaptured and self.captured_by(turn, stands_for)

    def go_on(self, turn: Turn, number: int, *, new_ids: int) -> None:
        """The turn is the branch's last one now."""
        self.history, self.last_turn = [*turn.prompt_ids, *turn.sampled_ids], number
        self.last_id = self.history[-1] if new_ids else self.last_id


Found = tuple[int, "tuple[int, int] | None"]
"""Ids of the prompt that stand for the history, and the grid's cell."""


def _offers(
    scenario: Scenario, branches: dict[int, Branch], turn: Turn, *, required: bool, by_grid: bool
) -> tuple[str, list[int]] | None:
    """The strongest relation on offer, and the branches that offer it with the longest history."""
    prompt = list(turn.prompt_ids)
    for name in ("strict", "normalized", "retokenized") if by_grid else ("strict",):
        found = {i: RELATIONS[name](scenario, b.history, prompt) for i, b in branches.items() if b.last_turn >= 0}
        usable = [i for i, f in found.items() if f is not None and branches[i].usable(turn, f[0], required=required)]
        if usable:
            length = max(len(branches[index].history) for index in usable)
            return name, [index for index in usable if len(branches[index].history) == length]
    return None


def _strict(scenario: Scenario, history: list[int], prompt: list[int]) -> Found | None:
    return (len(history), None) if prompt[: len(history)] == history else None


def _normalized(scenario: Scenario, history: list[int], prompt: list[int]) -> Found | None:
    """All 97 × 17 cells, in order."""
    ours = scenario.words.text.pieces(history)
    ends = range(max(0, len(history) - 96), min(len(prompt), len(history) + 16) + 1)
    theirs = {end: scenario.words.text.pieces(prompt[:end]) for end in ends if _cuts_between(scenario, prompt, end)}
    cells = [
        (trailing, glue, "".join(ours[kept:]), "".join(theirs[kept + glue][kept:]))
        for trailing in range(1, min(96, len(history)) + 1)
        if prompt[: (kept := len(history) - trailing)] == history[:kept]
        for glue in range(17)
        if kept + glue in theirs
    ]
    for same in (str.__eq__, lambda told, retold: _bare(told) == _bare(retold)):
        for trailing, glue, told, retold in cells:
            if same(told, retold):
                return len(history) - trailing + glue, (trailing, glue)
    return None


def _retokenized(scenario: Scenario, history: list[int], prompt: list[int]) -> Found | None:
    told = _text(scenario, history)
    for end in range(len(prompt) + 1):
        if _text(scenario, prompt[:end]) == told and _cuts_between(scenario, prompt, end):
            return end, None
    return None


def _cuts_between(scenario: Scenario, prompt: list[int], end: int) -> bool:
    """Whether a cut there goes between two characters."""
    return _text(scenario, prompt[:end]) + _text(scenario, prompt[end:]) == _text(scenario, prompt)


RELATIONS: dict[str, Callable[[Scenario, list[int], list[int]], Found | None]] = {
    "strict": _strict,
    "normalized": _normalized,
    "retokenized": _retokenized,
}
