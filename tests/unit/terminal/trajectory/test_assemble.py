"""Trajectory assembly: an independent oracle over generated trials, and proof that it notices every broken rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from t1cli.terminal.trajectory import assemble as module
from t1cli.terminal.trajectory.assemble import RowLabel, assemble
from t1cli.terminal.trajectory.audit import TokenLedger, drifted_in_loss
from t1cli.terminal.trajectory.routing import (
    MissingRouting,
    RoutingShape,
    WrongRouting,
    decode_routing,
    encode_routing,
)
from t1cli.terminal.trajectory.row import TrainingRow, Turn

LABEL = RowLabel(trial_id="trial", group_id=3, task="task", family="family", reward=0.25)
IDS = st.lists(st.integers(0, 9), min_size=1, max_size=6).map(tuple)


def turn_of(prompt: tuple[int, ...], sampled: tuple[int, ...], number: int) -> Turn:
    """Log-probs and routing rows that tell which turn and which position they come from."""
    positions = np.arange(len(prompt) + len(sampled) - 1)
    rows = np.stack([positions % 251, np.full_like(positions, number)], axis=-1)[:, None, :].astype(np.uint8)
    log_probs = tuple(-(number + 1) - index / 100 for index in range(len(sampled)))
    return Turn(prompt, sampled, log_probs, rows, "", "stop", weight_version=number)


@st.composite
def trials(draw: st.DrawFn) -> list[Turn]:
    """Turns that continue exactly, or rewrite history (shorter, other, or same length with one id changed)."""
    prompt, turns = draw(IDS), []
    for number in range(draw(st.integers(1, 6))):
        turn = turn_of(prompt, draw(IDS), number)
        turns.append(turn)
        history = (*turn.prompt_ids, *turn.sampled_ids)
        match draw(st.sampled_from(["continue", "continue", "continue", "no_glue", "rewrite", "cut", "flip"])):
            case "continue":
                prompt = (*history, *draw(IDS))
            case "no_glue":
                prompt = history
            case "rewrite":
                prompt = draw(IDS)
            case "cut":
                prompt = history[: draw(st.integers(1, len(history)))]
            case "flip":
                at = draw(st.integers(0, len(history) - 1))
                prompt = (*history[:at], (history[at] + 1) % 10, *history[at + 1 :], *draw(IDS))
    return turns


def check(turns: list[Turn], rows: tuple[TrainingRow, ...]) -> None:
    """Rebuilds from the turns alone what the rows must be."""
    unused = list(turns)
    for row in rows:
        chain = [unused.pop(0)]
        while unused and unused[0].prompt_ids[: len(chain[-1].prompt_ids) + len(chain[-1].sampled_ids)] == (
            *chain[-1].prompt_ids,
            *chain[-1].sampled_ids,
        ):
            chain.append(unused.pop(0))
        tokens = (*chain[-1].prompt_ids, *chain[-1].sampled_ids)
        assert tuple(row.tokens) == tokens
        assert len(row.loss_mask) == len(row.log_probs) == len(tokens) == len(row.routed_experts) + 1
        sampled = {}
        for turn in chain:
            for offset, token in enumerate(turn.sampled_ids):
                sampled[len(turn.prompt_ids) + offset] = (token, turn.log_probs[offset])
        for position, token in enumerate(tokens):
            if position in sampled:
                assert row.loss_mask[position] == 1 and token == sampled[position][0]
                assert row.log_probs[position] == np.float32(sampled[position][1])
            else:
                assert row.loss_mask[position] == 0 and row.log_probs[position] == 0
        for position in range(len(tokens) - 1):
            first = next(t for t in chain if position < len(t.prompt_ids) + len(t.sampled_ids) - 1)
            assert tuple(row.routed_experts[position, 0]) == (position % 251, first.weight_version)
        assert row.response_start == len(chain[0].prompt_ids)
        assert row.weight_versions == tuple(turn.weight_version for turn in chain)
        assert row.audit.drifted_in_loss == 0 and row.audit.turns == len(chain)
        assert row.audit.sampled_tokens == row.audit.trained_tokens == sum(len(t.sampled_ids) for t in chain)
        assert row.group_id == 3 and row.reward == 0.25
    assert not unused
    assert sum(row.audit.strict for row in rows) == len(turns) - (len(rows) - 1)
    ledger = TokenLedger(sampled=sum(len(turn.sampled_ids) for turn in turns))
    ledger.book("trained", sum(int(row.loss_mask.sum()) for row in rows))
    assert ledger.unaccounted == 0


@pytest.mark.catalogue("F1")
@given(trials())
@hypothesis_settings(max_examples=400, deadline=None)
def test_rows_hold_exactly_what_the_turns_sampled(turns: list[Turn]) -> None:
    check(turns, assemble(turns, label=LABEL, routing="required"))


def strict_trial() -> list[Turn]:
    first = turn_of((1, 2), (3, 4), 0)
    second = turn_of((1, 2, 3, 4, 5, 6), (7,), 1)
    return [first, second, turn_of((9, 8), (7, 6), 2)]


def break_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._RowDraft, "continues", lambda self, turn: True)


def break_always_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._RowDraft, "continues", lambda self, turn: False)


def break_mask_of_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    extend = module._RowDraft._extend
    monkeypatch.setattr(
        module._RowDraft, "_extend", lambda self, ids, lps: extend(self, ids, [0.0] * len(ids) if lps is None else lps)
    )


def break_mask_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    extend = module._RowDraft._extend
    monkeypatch.setattr(module._RowDraft, "_extend", lambda self, ids, lps: extend(self, ids, None))


def break_log_prob_order(monkeypatch: pytest.MonkeyPatch) -> None:
    extend = module._RowDraft._extend
    monkeypatch.setattr(module._RowDraft, "_extend", lambda self, ids, lps: extend(self, ids, lps and lps[::-1]))


def broken_append(keep: Callable[[int, int], int]) -> Callable[[module._RowDraft, Turn], None]:
    def append(self: module._RowDraft, turn: Turn) -> None:
        start = keep(len(self.tokens), len(turn.prompt_ids))
        self._extend(turn.prompt_ids[len(self.tokens) :], None)
        self._extend(turn.sampled_ids, turn.log_probs)
        self.routing_pieces.append(turn.routed_experts[start:])
        self.turns.append(turn)

    return append


def break_routing_one_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._RowDraft, "append", broken_append(lambda tokens, prompt: tokens))


def break_routing_takes_last_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    finished = module._RowDraft._routing

    def last_capture(self: module._RowDraft) -> object:
        finished(self)
        return self.turns[-1].routed_experts

    monkeypatch.setattr(module._RowDraft, "_routing", last_capture)


def break_row_count_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._RowDraft, "append", broken_append(lambda tokens, prompt: max(tokens - 2, 0)))


MUTATIONS = [
    break_continues,
    break_always_splits,
    break_mask_of_prompts,
    break_mask_of_samples,
    break_log_prob_order,
    break_routing_one_late,
    break_routing_takes_last_capture,
    break_row_count_check,
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_breaking_any_single_rule_is_noticed(
    mutation: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(strict_trial(), assemble(strict_trial(), label=LABEL, routing="required"))
    mutation(monkeypatch)
    with pytest.raises((AssertionError, WrongRouting)):
        check(strict_trial(), assemble(strict_trial(), label=LABEL, routing="required"))


@pytest.mark.catalogue("F1")
def test_drift_is_recounted_from_the_turns() -> None:
    turns = strict_trial()[:2]
    (row,) = assemble(turns, label=LABEL, routing="required")
    wrong_token = row.tokens.copy()
    wrong_token[2] += 1
    assert drifted_in_loss(wrong_token, row.loss_mask, turns) == 1
    wrong_mask = row.loss_mask.copy()
    wrong_mask[0] = 1
    assert drifted_in_loss(row.tokens, wrong_mask, turns) == 1


@pytest.mark.catalogue("F3", "F4")
def test_missing_and_wrong_routing_are_errors() -> None:
    first, second, _ = strict_trial()
    with pytest.raises(MissingRouting):
        assemble([first, replace(second, routed_experts=None)], label=LABEL, routing="required")
    (row,) = assemble([first, replace(second, routed_experts=None)], label=LABEL, routing="kept")
    assert row.routed_experts is None
    with pytest.raises(WrongRouting):
        assemble([replace(first, routed_experts=first.routed_experts[:-1])], label=LABEL, routing="kept")
    with pytest.raises(ValueError, match="log-probs"):
        assemble([replace(first, log_probs=(0.0,))], label=LABEL, routing="kept")


@pytest.mark.parametrize(("experts", "dtype"), [(8, np.uint8), (256, np.uint8), (512, np.uint16)])
def test_routing_survives_the_wire_in_the_smallest_type(experts: int, dtype: type) -> None:
    rows = np.random.default_rng(0).integers(0, experts, size=(5, 3, 2)).astype(np.int64)
    rows[0, 0, 0] = experts - 1
    decoded = decode_routing(encode_routing(rows), rows=5, shape=RoutingShape(3, 2, experts))
    assert decoded.dtype == dtype and (decoded == rows).all()


@pytest.mark.parametrize("payload", ["AAAA", "not base64!", encode_routing(np.full((2, 1, 1), 9, dtype=np.uint8))])
def test_a_payload_that_cannot_be_right_is_an_error(payload: str) -> None:
    with pytest.raises(WrongRouting):
        decode_routing(payload, rows=2, shape=RoutingShape(1, 1, 8))
