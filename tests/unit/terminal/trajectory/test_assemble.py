"""Trajectory assembly without a tokenizer: exact prefixes, new rows, branches, and what is an error."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from t1cli.terminal.trajectory.assemble import RowLabel
from t1cli.terminal.trajectory.audit import drifted_in_loss, masked
from t1cli.terminal.trajectory.routing import (
    MissingRouting,
    RoutingCapture,
    RoutingShape,
    WrongRouting,
    encode_routing,
)
from t1cli.terminal.trajectory.row import TrainingRow, Turn
from tests.unit.terminal.trajectory.assembled import assemble

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
    assert sorted(record.turn for row in rows for record in row.audit.records) == list(range(len(turns)))
    for row in rows:
        chain = [turns[record.turn] for record in row.audit.records]
        for before, after in pairwise(chain):
            history = (*before.prompt_ids, *before.sampled_ids)
            assert after.prompt_ids[: len(history)] == history
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
    assert sum(row.audit.strict for row in rows) == len(turns) - (len(rows) - 1)


@pytest.mark.catalogue("F1")
@given(trials())
@hypothesis_settings(max_examples=400, deadline=None)
def test_rows_hold_exactly_what_the_turns_sampled(turns: list[Turn]) -> None:
    check(turns, assemble(turns, label=LABEL, routing="required"))


def strict_trial() -> list[Turn]:
    first = turn_of((1, 2), (3, 4), 0)
    second = turn_of((1, 2, 3, 4, 5, 6), (7,), 1)
    return [first, second, turn_of((9, 8), (7, 6), 2)]


@pytest.mark.catalogue("F1")
def test_drift_is_recounted_from_the_turns() -> None:
    turns = strict_trial()[:2]
    (row,) = assemble(turns, label=LABEL, routing="required")
    sampled = [(len(turn.prompt_ids), np.asarray(turn.sampled_ids, dtype=np.int32)) for turn in turns]
    assert drifted_in_loss(row.tokens, row.loss_mask, sampled) == 0
    wrong_token = row.tokens.copy()
    wrong_token[2] += 1
    assert drifted_in_loss(wrong_token, row.loss_mask, sampled) == 1
    wrong_mask = row.loss_mask.copy()
    wrong_mask[0] = 1
    assert drifted_in_loss(row.tokens, wrong_mask, sampled) == 1


@pytest.mark.catalogue("F3", "F4")
def test_branches_are_rows_of_their_own_and_the_longest_history_wins() -> None:
    main = [turn_of((1, 2), (3,), 0), turn_of((1, 2, 3, 4), (5,), 1)]
    sub_agent = [turn_of((9, 9), (8,), 2), turn_of((9, 9, 8, 7), (6,), 3)]
    retry = turn_of((1, 2, 3, 0), (6,), 4)
    back = turn_of((1, 2, 3, 4, 5, 1), (7,), 5)
    compacted = turn_of((1, 0), (2,), 6)
    rows = assemble([*main, *sub_agent, retry, back, compacted], label=LABEL, routing="required")
    assert [[record.turn for record in row.audit.records] for row in rows] == [[0, 1, 5], [2, 3], [4], [6]]
    assert {row.group_id for row in rows} == {3} and all(row.audit.ties == 0 for row in rows)


def test_of_equally_long_histories_the_latest_goes_on_and_the_tie_is_told() -> None:
    twice = [turn_of((1, 2), (3,), 0), turn_of((1, 2), (3,), 1)]
    rows = assemble([*twice, turn_of((1, 2, 3, 4), (5,), 2)], label=LABEL, routing="required")
    assert [[record.turn for record in row.audit.records] for row in rows] == [[0], [1, 2]]
    assert [row.audit.ties for row in rows] == [0, 1]


def test_a_branch_without_a_sampled_token_is_no_row() -> None:
    empty, full = turn_of((5, 5), (), 0), turn_of((1, 2), (3,), 1)
    (row,) = assemble([empty, full], label=LABEL, routing="required")
    assert row.audit.records[0].turn == 1
    (alone,) = assemble([empty], label=LABEL, routing="required")
    assert not alone.loss_mask.any() and len(alone.routed_experts) == 1


def test_a_masked_row_books_what_it_trained() -> None:
    (row,) = assemble(strict_trial()[:2], label=LABEL, routing="required")
    stale = masked(row, "staleness")
    assert not stale.loss_mask.any() and not stale.log_probs.any()
    assert stale.audit.masked == {"staleness": 3} and stale.audit.trained_tokens == 0
    assert masked(stale, "filter").audit.masked == {"staleness": 3}


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
    decoded = RoutingCapture(encode_routing(rows), rows=5, shape=RoutingShape(3, 2, experts)).rows()
    assert decoded.dtype == dtype and (decoded == rows).all()


@pytest.mark.parametrize("payload", ["AAAA", "not base64!", encode_routing(np.full((2, 1, 1), 9, dtype=np.uint8))])
def test_a_payload_that_cannot_be_right_is_an_error(payload: str) -> None:
    with pytest.raises(WrongRouting):
        RoutingCapture(payload, rows=2, shape=RoutingShape(1, 1, 8)).rows()
