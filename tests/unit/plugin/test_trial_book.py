"""Whatever a loop does with its groups, every token of every trial is booked once, and each rollout's ledger closes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.plugin.trial_book import TrialBook
from t1cli.terminal.rollout.outcome import Boundary, Outcome, StopReason
from t1cli.terminal.rollout.plan import RolloutAborted
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.trial import Trial
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.row import Audit, TrainingRow

TASK = Task("t", Path("t"), "i", "f", "easy", None, 60.0, None)


def trial(number: int, group: int, how: str, tokens: int, lost: int) -> TrialResult:
    plan = TrialPlan(TASK, f"trial-{number}", group, 0, 0, 0)
    if how != "scored":
        boundary = Boundary.CANCELLED if how == "cancelled" else Boundary.SANDBOX
        outcome = Outcome(False, StopReason.FAILED, boundary, how)
        return TrialResult(plan, outcome, sampled_tokens=tokens, lost_tokens=lost)
    row = TrainingRow(
        trial_id=plan.trial_id,
        group_id=group,
        task="t",
        family="f",
        tokens=np.zeros(tokens + 1, dtype=np.int32),
        response_start=1,
        loss_mask=np.asarray([0] + [1] * tokens, dtype=np.uint8),
        log_probs=np.zeros(tokens + 1, dtype=np.float32),
        routed_experts=None,
        reward=1.0,
        outcome="scored",
        weight_versions=(1,),
        stop="done",
        audit=Audit(turns=1),
    )
    return TrialResult(plan, Outcome(True, StopReason.DONE), (row,), sampled_tokens=tokens, lost_tokens=lost)


TRIALS = st.tuples(
    st.integers(0, 5), st.sampled_from(["scored", "scored", "cancelled", "sandbox_create"]), st.integers(0, 9),
    st.integers(0, 3),
)  # fmt: skip
ACTIONS = st.one_of(
    st.tuples(st.just("add"), TRIALS),
    st.tuples(st.just("drop"), st.integers(0, 5), st.sampled_from(["filter", "staleness", "over_sampling"])),
    st.tuples(st.just("book"), st.sets(st.integers(0, 5)), st.booleans()),
)


@given(st.lists(ACTIONS, max_size=40))
def test_every_token_is_booked_once(actions: list[tuple[object, ...]]) -> None:
    book, added, open_trials, booked = TrialBook(), 0, dict[str, TrialResult](), list[str]()
    for number, (action, *rest) in enumerate([*actions, ("book", set(), False)]):
        if action == "add":
            result = trial(number, *rest[0])
            book.add(result, result.sampled_tokens + result.lost_tokens)
            added += result.sampled_tokens + result.lost_tokens
            if result.outcome.scored:
                open_trials[result.plan.trial_id] = result
        elif action == "drop":
            book.drop(rest[0], rest[1])
            open_trials = {key: one for key, one in open_trials.items() if one.plan.group_id != rest[0]}
        else:
            handed_over = [key for key, one in open_trials.items() if one.plan.group_id in rest[0]]
            found = book.book(handed_over, waits=rest[1])
            assert [one.plan.trial_id for one in found.accepted] == handed_over
            assert found.ledger.unaccounted == 0
            assert found.ledger.accounts.get("trained", 0) == sum(one.sampled_tokens for one in found.accepted)
            booked += [one.plan.trial_id for one in found.ended]
            added -= found.ledger.sampled
            open_trials = {k: one for k, one in open_trials.items() if rest[1] and k not in handed_over}
    assert added == 0 and len(set(booked)) == len(booked)


def test_a_token_that_the_trial_forgot_shows_as_missing() -> None:
    """The engine's count and the accounts come from two sides."""
    book = TrialBook()
    result = trial(0, 0, "scored", 5, 0)
    book.add(result, 7)
    assert book.book(["trial-0"], waits=True).ledger.unaccounted == 2


def test_a_try_never_has_the_name_of_an_earlier_one() -> None:
    book = TrialBook()
    assert [book.next_attempt(4), book.next_attempt(4), book.next_attempt(5)] == [0, 1, 0]


def test_a_rollout_has_its_time_and_the_first_failure_is_told() -> None:
    book = TrialBook()
    book.refuse_late()
    book.begin(3, seconds=0.0, make_trial=Trial)
    lost = trial(0, 0, "sandbox_create", 0, 0)
    book.add(lost, 0)
    book.add(replace(lost, plan=replace(lost.plan, trial_id="other")), 0)
    with pytest.raises(RolloutAborted, match=r"rollout 3: .*sandbox/sandbox_create × 2"):
        book.refuse_late()
    book.extend(3600.0)
    book.refuse_late()
    first = ValueError("first")
    book.fail(first)
    book.fail(ValueError("second"))
    with pytest.raises(ValueError, match="first"):
        book.refuse_late()
