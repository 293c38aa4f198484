"""What one finished trial leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from t1cli.terminal.harness.agent import TurnNote
from t1cli.terminal.harness.summary import SummaryCounts
from t1cli.terminal.rewards.verdict import RewardResult, Verdict
from t1cli.terminal.rollout.outcome import Outcome
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.row import TrainingRow


@dataclass(frozen=True)
class TrialPlan:
    """Which trial to run."""

    task: Task
    trial_id: str
    """Unique over all runs; also the sandbox's name and the trial directory's."""
    group_id: int
    sample: int
    """Index within the group."""
    attempt: int
    """0, then 1 and more when the infrastructure lost the trial before."""
    seed: int


@dataclass(frozen=True)
class TrialResult:
    """One trial, however it ended."""

    plan: TrialPlan
    outcome: Outcome
    rows: tuple[TrainingRow, ...] = ()
    """Training data; empty unless scored."""
    verdict: Verdict | None = None
    reward: RewardResult | None = None
    notes: tuple[TurnNote, ...] = ()
    sampled_tokens: int = 0
    """Tokens of finished replies."""
    lost_tokens: int = 0
    """Tokens of replies that were cut off by a deadline or a cancellation."""
    held_tokens: int = 0
    """Of them, those of replies that were cut off because a rollout ended, and sampled anew in the next one."""
    summaries: SummaryCounts = field(default_factory=SummaryCounts)
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By part: queue, create, place, agent, verifier_queue, grade, close."""
    budget_shortened: bool = False
    close_problem: str = ""
    """Why the sandbox could not be destroyed in time; the reaper has its name."""

    @property
    def turns(self) -> int:
        return len(self.notes)

    @property
    def family(self) -> str:
        return self.plan.task.family
