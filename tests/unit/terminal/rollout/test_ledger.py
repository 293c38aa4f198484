"""The token ledger: every account is booked from what is there, so that what is lost is missing from the balance."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from t1cli.terminal.rollout.ledger import ledger_of
from t1cli.terminal.rollout.outcome import Boundary, Outcome, StopReason
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.trajectory.assemble import RowLabel
from t1cli.terminal.trajectory.audit import ACCOUNTS, masked
from t1cli.terminal.trajectory.row import TrainingRow, Turn
from tests.unit.terminal.trajectory.assembled import assemble

SCORED = Outcome(True, StopReason.DONE)
LOST = Outcome(False, StopReason.FAILED, Boundary.SANDBOX, "sandbox_exec")
CANCELLED = Outcome(False, StopReason.FAILED, Boundary.CANCELLED, "over_sampled")


def row_of(sampled: int) -> TrainingRow:
    label = RowLabel("trial", 0, "task", "files", reward=1.0)
    turn = Turn((1,), (2,) * sampled, (-1.0,) * sampled, np.zeros((sampled, 1, 1), np.uint8), "", "stop", 0)
    return assemble([turn], label=label, routing="kept")[0]


@pytest.fixture
def trial(doubles: SimpleNamespace) -> object:
    def made(
        name: str, outcome: Outcome, sampled: int, *, lost: int = 0, rows: tuple[TrainingRow, ...] | None = None
    ) -> TrialResult:
        plan = TrialPlan(doubles.task_named("t"), name, group_id=0, sample=0, attempt=0, seed=0)
        own = (row_of(sampled),) if outcome.scored else ()
        return TrialResult(plan, outcome, rows=own if rows is None else rows, sampled_tokens=sampled, lost_tokens=lost)

    return made


def test_every_way_a_trial_ends_has_its_account(trial) -> None:  # type: ignore[no-untyped-def]
    accepted = [trial("kept", SCORED, 10, lost=2)]
    ended = [*accepted, trial("surplus", SCORED, 5), trial("cut", CANCELLED, 3, lost=1), trial("lost", LOST, 7, lost=4)]
    ledger = ledger_of(ended, accepted, sampled_tokens=32)
    assert ledger.accounts == {"trained": 10, "truncation": 2, "over_sampling": 9, "infrastructure": 11}
    assert ledger.unaccounted == 0


@pytest.mark.parametrize("account", [account for account in ACCOUNTS if account != "trained"])
def test_rows_that_were_masked_are_booked_under_their_reason(trial, account: str) -> None:  # type: ignore[no-untyped-def]
    rows = (row_of(4), masked(row_of(6), account))
    kept = trial("kept", SCORED, 10, rows=rows)
    ledger = ledger_of([kept], [kept], sampled_tokens=10)
    assert ledger.accounts == {"trained": 4, account: 6} and ledger.unaccounted == 0


def test_a_token_that_the_assembly_lost_leaves_the_balance_open(trial) -> None:  # type: ignore[no-untyped-def]
    row = row_of(5)
    short = replace(row, loss_mask=np.where(np.arange(6) == 5, 0, row.loss_mask).astype(np.uint8))
    kept = trial("kept", SCORED, 5, rows=(short,))
    assert ledger_of([kept], [kept], sampled_tokens=5).unaccounted == 1
