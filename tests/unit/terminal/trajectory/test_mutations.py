"""Every single rule of the assembly is bent in turn, and the suite notices. `pytest -s` prints the list.

What is looked for: the simulator's oracle over fixed seeds, and a few trials made for the rules that need one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from t1cli.terminal.trajectory import assemble as assembly
from t1cli.terminal.trajectory import audit, blame, draft, relations, routing, text_space
from t1cli.terminal.trajectory.assemble import RowLabel
from t1cli.terminal.trajectory.draft import RowDraft
from t1cli.terminal.trajectory.relations import Match
from t1cli.terminal.trajectory.routing import (
    MissingRouting,
    RoutingCapture,
    RoutingShape,
    WrongRouting,
    encode_routing,
)
from t1cli.terminal.trajectory.row import Turn
from tests.unit.terminal.trajectory.assembled import assemble

SEEDS = range(120)
LABEL = RowLabel(trial_id="trial", group_id=3, task="task", family="family", reward=0.25)
END = 1000
STRADDLING = 600
TEXT = text_space.ByteText(lambda token: b"a\xc3" if token == STRADDLING else bytes([token % 256]), {END})
"""Ids 0 to 255 are bytes, 256 to 511 the same bytes once more, END is special; one ends a character and begins one."""


def turn(prompt: tuple[int, ...], sampled: tuple[int, ...], **changes: Any) -> Turn:
    rows = np.arange(len(prompt) + len(sampled) - 1, dtype=np.uint8)[:, None, None]
    return replace(Turn(prompt, sampled, (-1.0,) * len(sampled), rows, "", "stop", 0), **changes)


def said(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def other(text: str) -> tuple[int, ...]:
    """Other ids that say the same."""
    return tuple(byte + 256 for byte in text.encode())


def relations_of(*turns: Turn, use: Any = "required") -> list[str]:
    rows = assemble(turns, label=LABEL, routing=use, text=TEXT)
    return [record.relation for row in rows for record in row.audit.records]


def retold(told: str, again: tuple[int, ...]) -> tuple[Turn, Turn]:
    """A reply, and the next prompt that has it as `again`."""
    return turn(said("q"), (*said(told), END)), turn((*said("q"), *again, END, *said("r")), (*said("ok"), END))


def trials_made_for_a_rule() -> None:
    """Limits and errors that random trials do not meet often enough."""
    assert relations_of(*retold("a" * 15, other("a" * 15))) == ["strict", "normalized"]
    assert relations_of(*retold("a" * 16, other("a" * 16))) == ["strict", "retokenized"]
    spaced = "b" + " " * 94
    assert relations_of(*retold(spaced, other("b"))) == ["strict", "normalized"]
    assert relations_of(*retold(spaced + " ", other("b"))) == ["strict", "split"]
    assert relations_of(*retold("a b", other("ac"))) == ["strict", "split"]
    assert relations_of(*retold("e\u0301", other("é"))) == ["strict", "normalized"]
    # A special id and its literal are not the same.
    assert relations_of(turn(said("q"), (*said("a"), END)), turn(said("qaEND r"), (END,))) == ["strict", "split"]
    # Half a character is not the other half's.
    halves = turn(said("q"), (0xC3, 0xA9)), turn((*said("q"), 0xC3, 0xA8), (END,))
    assert relations_of(*halves, use="kept") == ["strict", "split"]
    for reply in ("a", "b" * 20 + "a"):
        straddled = (*said("q"), *other(reply[:-1]), STRADDLING, 0xA9)
        assert relations_of(turn(said("q"), said(reply)), turn(straddled, (END,)), use="kept") == ["strict", "split"]
    a_turn_that_did_not_read_the_last_id()
    errors_that_are_raised()


def a_turn_that_did_not_read_the_last_id() -> None:
    """Its routing is in no capture: a new row where loss follows, a neighbour's where none does."""
    told, again = turn(said("q"), said("a ")), turn((*said("q"), *other("a"), *said("\nr")), (END,))
    assert relations_of(told, again) == ["strict", "split"]
    (row,) = assemble([told, again], label=LABEL, routing="kept", text=TEXT)
    assert row.routed_experts is None
    record = row.audit.records[1]
    assert (record.relation, record.cell, record.retokenized) == ("normalized", (2, 1), 2)
    assert record.checksum == zlib.crc32(END.to_bytes(4, "little")) and "white space" in record.rule
    silent = turn(again.prompt_ids, ())
    (row,) = assemble([told, silent], label=LABEL, routing="required", text=TEXT)
    assert row.audit.placeholder_rows == 1 and row.routed_experts[2, 0, 0] == row.routed_experts[1, 0, 0]
    assert relations_of(told, silent, again, turn((*silent.prompt_ids, 5), (END,)))[-1] == "split"


def errors_that_are_raised() -> None:
    plain = turn(said("q"), said("a"))
    for broken, error in (
        (replace(plain, routed_experts=None), MissingRouting),
        (replace(plain, routed_experts=plain.routed_experts[1:]), WrongRouting),
        (replace(plain, log_probs=()), ValueError),
        (replace(plain, prompt_ids=()), ValueError),
    ):
        with pytest.raises(error):
            assembly.Assembler(trial_id="trial", routing="required").add(broken)
    shape = RoutingShape(layers=1, top_k=2, experts=8)
    rows = np.arange(14, dtype=np.uint8).reshape(7, 1, 2) % 8
    captured = RoutingCapture(encode_routing(rows), rows=7, shape=shape)
    assert all((captured.rows(start) == rows[start:]).all() for start in range(8))
    for payload in (encode_routing(rows[1:]), encode_routing(rows + 1), "=" + encode_routing(rows)[1:]):
        with pytest.raises(WrongRouting):
            RoutingCapture(payload, rows=7, shape=shape).rows()
    guess = RowDraft(replayed=True)
    guess.append(plain, np.array([1]), np.array([2], np.int32), draft.Placement(0, Match("strict", 0)))
    guess._placeholders.append(0)
    with pytest.raises(WrongRouting, match="before tokens that carry loss"):
        guess.routing()
    drifted = audit.drifted_in_loss(np.array([1, 2]), np.array([0, 1], np.uint8), [(1, np.array([3], np.int32))])
    assert drifted == 1


def everything(simulation: ModuleType) -> None:
    """All that has to hold; raises when something does not."""
    trials_made_for_a_rule()
    for seed in SEEDS:
        simulation.check(simulation.simulate(Random(seed)), routing="required" if seed % 2 else "kept")


@dataclass(frozen=True)
class Mutation:
    """One rule, bent."""

    name: str
    where: Any
    attribute: str
    bent: Any


def _with(original: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: change(original(*arguments, **named))


def _takes_everything(self: RowDraft, match: Match, prompt: Any, sampled: int) -> bool:
    return True


def _strict_by_length(history: Any, prompt: Any) -> Match | None:
    return Match("strict", len(history.ids)) if len(history.ids) <= len(prompt) else None


def _extend(self: RowDraft, ids: Any, log_probs: Any, *, mask: Callable[[bool], int], order: int = 1) -> None:
    self.tokens.frombytes(ids.tobytes())
    self.loss_mask += bytes([mask(log_probs is not None)]) * len(ids)
    self.log_probs.extend([0.0] * len(ids) if log_probs is None else log_probs[::order])


_EXTEND = RowDraft._extend
_APPEND = RowDraft.append


def _with_stand_in(self: RowDraft, one: Turn, prompt: Any, sampled: Any, placement: Any) -> None:
    """The row takes the prompt from where the history's own length ends, not from where its copy does."""
    _APPEND(self, one, prompt, sampled, replace(placement, match=replace(placement.match, stands_for=len(self.tokens))))


def _with_row_as_history(self: RowDraft, one: Turn, prompt: Any, sampled: Any, placement: Any) -> None:
    _APPEND(self, one, prompt, sampled, placement)
    self.history = relations.History(np.array(self.tokens, dtype=np.int32))


def _with_copy(self: RowDraft, one: Turn, prompt: Any, sampled: Any, placement: Any) -> None:
    """The harness's copy replaces what was sampled."""
    trailing, glue = placement.match.cell or (0, 0)
    end = placement.match.stands_for
    if trailing and trailing == glue:
        self.tokens[len(self.tokens) - trailing :] = type(self.tokens)("i", prompt[end - glue : end].tobytes())
    _APPEND(self, one, prompt, sampled, placement)


def _last_capture(self: RowDraft, captured: Any, match: Any, prompt: Any) -> None:
    del self._routing[:]
    _APPEND_ROUTING(self, captured, replace(match, stands_for=0), prompt)


_APPEND_ROUTING = RowDraft._append_routing
_RELATIONS = assembly.Assembler._relations
_PLACE = assembly.Assembler._place


def _shifted_rows(buffer: bytearray, captured: Any, start: int, *, by: int) -> None:
    routing.append_rows(buffer, captured, max(0, start + by))


def _only_the_last_branch(self: assembly.Assembler, *arguments: Any) -> Any:
    everything, self._drafts = self._drafts, self._drafts[-1:]
    try:
        return _PLACE(self, *arguments)
    finally:
        self._drafts = everything


def _in_any_order(self: assembly.Assembler, *arguments: Any) -> Any:
    self._drafts.reverse()
    return _PLACE(self, *arguments)


_CAN_TAKE = RowDraft.can_take
_CHECK = assembly.Assembler._check


def _unchecked(self: assembly.Assembler, one: Turn, prompt: Any, sampled: Any, *, error: type[Exception]) -> None:
    try:
        _CHECK(self, one, prompt, sampled)
    except error:
        return


def _masking(one: Any, *, order: int = 1) -> Callable[..., None]:
    """`_extend` with another rule of what carries loss, or of the order of log-probs."""
    return lambda self, ids, log_probs: _extend(self, ids, log_probs, mask=one, order=order)


def _passing_over(error: type[Exception]) -> Callable[..., None]:
    return lambda self, one, prompt, sampled: _unchecked(self, one, prompt, sampled, error=error)


def _last_of(texts: Any, wanted: str) -> int | None:
    return max((place for place, found in enumerate(texts) if found == wanted), default=None)


def _said_in_surroundings(text: Any, ids: Any, start: int, end: int) -> str:
    return "".join(relations._pieces(text, ids, start)[: end - start])


def _never(*arguments: Any, **named: Any) -> None:
    return None


def _mutations() -> Iterator[Mutation]:
    yield Mutation("strict: never", assembly, "strict", _never)
    yield Mutation("strict: by length alone", assembly, "strict", _strict_by_length)
    yield Mutation("normalized: never", assembly, "normalized", _never)
    yield Mutation("normalized: 95 trailing ids", relations, "TRAILING_IDS", 95)
    yield Mutation("normalized: 97 trailing ids", relations, "TRAILING_IDS", 97)
    yield Mutation("normalized: 14 glue ids", relations, "GLUE_IDS", 14)
    yield Mutation("normalized: 17 glue ids", relations, "GLUE_IDS", 17)
    yield Mutation("normalized: the last cell first", relations, "_first", _last_of)
    yield Mutation("normalized: white space counts", relations, "normal_form", str)
    yield Mutation("normalized: everything is the same", relations, "normal_form", lambda text: "")
    yield Mutation("cuts: through characters", relations, "_said", _said_in_surroundings)
    yield Mutation("cuts: no ids before the first are read", relations, "LOOKBACK", 0)
    yield Mutation("retokenized: never", assembly, "retokenized", _never)
    yield Mutation("retokenized: no id ends where the history does", relations, "boundary_after", _never)
    yield Mutation("common prefix: one too long", relations, "common_prefix", _with(relations.common_prefix, _one_more))
    yield Mutation("common prefix: always none", relations, "common_prefix", lambda left, right: 0)
    yield Mutation("special ids are text", text_space, "atom", lambda token: "")
    yield Mutation("relations: weakest first", assembly.Assembler, "_relations", lambda self: _RELATIONS(self)[::-1])
    yield Mutation("branches: only the last one", assembly.Assembler, "_place", _only_the_last_branch)
    yield Mutation("branches: in any order", assembly.Assembler, "_place", _in_any_order)
    yield Mutation("row: prompts carry loss", RowDraft, "_extend", _masking(lambda sampled: 1))
    yield Mutation("row: samples carry none", RowDraft, "_extend", _masking(lambda sampled: 0))
    yield Mutation("row: log-probs backwards", RowDraft, "_extend", _masking(int, order=-1))
    yield Mutation("row: the harness's copy enters", RowDraft, "append", _with_copy)
    yield Mutation("row: new ids counted from the row's end", RowDraft, "append", _with_stand_in)
    yield Mutation("history: the row instead of what was seen", RowDraft, "append", _with_row_as_history)
    yield Mutation("routing: one row late", draft, "append_rows", partial(_shifted_rows, by=1))
    yield Mutation("routing: one row early", draft, "append_rows", partial(_shifted_rows, by=-1))
    yield Mutation("routing: the last capture wins", RowDraft, "_append_routing", _last_capture)
    yield Mutation("routing: any id's row for the last one", RowDraft, "_captured_at_end", lambda *arguments: True)
    yield Mutation("routing: a neighbour anywhere", RowDraft, "can_take", _takes_everything)
    yield Mutation("routing: a neighbour before loss is fine", draft, "no_gradient_at", lambda position, last: True)
    yield Mutation("routing: missing is fine", assembly.Assembler, "_check", _passing_over(MissingRouting))
    yield Mutation("routing: any number of rows is fine", assembly.Assembler, "_check", _passing_over(WrongRouting))
    yield Mutation("turn: lengths may differ", assembly.Assembler, "_check", _passing_over(ValueError))
    yield Mutation("wire: any index is an expert", RoutingCapture, "_narrow", lambda s, found: found.astype(s.dtype))
    yield Mutation("wire: groups of two indices", routing, "_INDICES_PER_GROUP", 2)
    yield Mutation("audit: no checksum", draft, "checksum", lambda ids: 0)
    yield Mutation("audit: drift is not counted", audit, "drifted_in_loss", lambda tokens, loss_mask, sampled: 0)
    yield Mutation("audit: no rule is blamed", assembly, "rule_of", lambda *arguments: "")
    yield Mutation("audit: changed ids are not counted", relations, "_changed", lambda ours, theirs: 0)


def _one_more(count: int) -> int:
    return count + 1


MUTATIONS = tuple(_mutations())


@pytest.fixture(scope="module", autouse=True)
def unbent(simulation: ModuleType) -> Iterator[None]:
    """Without a mutation everything holds; the list is printed at the end."""
    everything(simulation)
    yield
    print(f"\n{len(MUTATIONS)} rules bent, one at a time:", *(mutation.name for mutation in MUTATIONS), sep="\n  ")


@pytest.mark.catalogue("F1", "F5")
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_bending_any_single_rule_is_noticed(
    mutation: Mutation, simulation: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutation.where, mutation.attribute, mutation.bent)
    with pytest.raises(BaseException):  # noqa: B017 - an assertion, or the code's own refusal
        everything(simulation)


def test_the_rules_of_blame_are_all_reached() -> None:
    """Each rule is what some history is blamed on."""
    found = {rule for rule, _ in _blamed()}
    assert found == {name for name, _ in blame._RULES}


def _blamed() -> list[tuple[str, str]]:
    q, r = said("quest "), said(" rest")
    told = said('<t>why</t>{"b": 1, "a": "x"} e\u0301 <|e|>')
    cases = {
        "other conversation": said("other"),
        "opening": (*said("ques"), *told, END, *r),
        "white space": (*q, *said('<t>why</t>{"b":1, "a": "x"}e\u0301<|e|>'), END, *r),
        "composed": (*q, *said('<t>why</t>{"b": 1, "a": "x"} é <|e|>'), END, *r),
        "left out": (*q, *said('{"b": 1, "a": "x"} e\u0301 <|e|>'), END, *r),
        "tool call": (*q, *said('<t>why</t>{"a": "x", "b": 1} e\u0301 <|e|>'), END, *r),
        "special": (*q, *said('<t>why</t>{"b": 2} <'), END, *r),
        "again": (*q, *other('<t>why</t>{"b": 1, "a": "x"} e\u0301 <|e|>'), END, *r),
        "merged": (*q, *told[:-1], told[-1] + 256, END, *r),
        "changed": (*q, *said("nothing of that"), *r),
    }
    history = relations.History(np.array([*q, *told, END], dtype=np.int32))
    spans = [blame.ReplySpan(0, len(q), len(q) + len(told) + 1)]
    found = [(blame.rule_of(history, spans, np.array(prompt, np.int32), TEXT), name) for name, prompt in cases.items()]
    longer = relations.History(
        np.array([*history.ids, *said("a long observation to read"), *said("yes"), END], np.int32)
    )
    spans = [*spans, blame.ReplySpan(1, len(longer.ids) - 4, len(longer.ids))]
    for name, prompt in {"branch": (*history.ids, *said("another")), "rewritten": (*q, *said("<t>"), *r)}.items():
        found.append((blame.rule_of(longer, spans, np.array(prompt, np.int32), TEXT), name))
    return found
