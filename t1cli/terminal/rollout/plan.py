"""What one rollout launches, and what it yields."""

from __future__ import annotations

from dataclasses import dataclass

from t1cli.errors import T1Error
from t1cli.terminal.rollout.kept import KeepRule
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.audit import TokenLedger
from t1cli.terminal.trajectory.row import TrainingRow


class RolloutAborted(T1Error):
    """Too few trials could be scored until the rollout's deadline."""


@dataclass(frozen=True)
class RolloutPlan:
    """What one rollout launches and how much of it is kept."""

    rollout_id: int
    tasks: tuple[Task, ...]
    """One group each, in launch order; more than `accept` when over-sampling."""
    accept: int
    """Groups that are kept."""
    samples_per_prompt: int = 1
    refill_seconds: float = 3600.0
    """Lost trials are run again until this long after the rollout's start."""
    allow_short: bool = False
    """Hand over fewer groups than `accept` when the deadline has passed, instead of aborting."""
    first_backoff_seconds: float = 0.5
    max_backoff_seconds: float = 30.0
    positions: tuple[int, ...] = ()
    """Where in the campaign's stream of tasks each of `tasks` stands; empty when the rollout id says it."""
    start_order: tuple[int, ...] = ()
    """Indexes of `tasks` in the order in which their groups are started; empty: as they stand."""
    keep: KeepRule | None = None
    """What still runs when enough groups have finished is left on hold to the next rollout; None: it is cancelled."""
    stale_tokens: int = 0
    """Sampled by an earlier session whose weights are gone, and dropped: counted here, since no rollout did."""


@dataclass(frozen=True)
class RolloutResult:
    """What one rollout yields."""

    rollout_id: int
    rows: tuple[TrainingRow, ...]
    """Training data of the accepted groups, by group and sample."""
    accepted: tuple[TrialResult, ...]
    trials: tuple[TrialResult, ...]
    """All trials in the order they ended: accepted, surplus, lost and cancelled."""
    metrics: dict[str, float]
    ledger: TokenLedger
    seconds: float
    short: bool
    """Fewer groups than asked for."""
    unfinished: tuple[int, ...] = ()
    """Indexes of the plan's tasks whose groups would have finished, had there been more time."""
    kept: tuple[int, ...] = ()
    """Those of them that go on in the next rollout."""


def group_tasks(plan: RolloutPlan) -> dict[int, Task]:
    """The task of every group that a rollout launches, by group id."""
    first = plan.rollout_id * len(plan.tasks)
    return {first + index: task for index, task in enumerate(plan.tasks)}
