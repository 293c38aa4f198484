"""How long one trial may take, from what its task declares and what the campaign allows."""

from __future__ import annotations

from dataclasses import dataclass

from t1cli.terminal.tasks.task import Task

GRADING_SHARE = 0.25
"""Most of a trial's wall that is kept back for grading; a task whose verifier declares less keeps back less."""


@dataclass(frozen=True)
class Budgets:
    """The deadlines of one trial, in seconds."""

    trial_seconds: float
    """Whole trial, grading included; waiting for a free verifier is not counted."""
    agent_seconds: float
    verifier_seconds: float
    grading_seconds: float
    """Kept back from the wall, so that an agent at its limit is still graded."""
    shortened: bool
    """The agent gets less time than its task declares, because of an override or of the wall."""


def budgets_of(task: Task, *, wall_seconds: float, override_seconds: float | None) -> Budgets:
    """The task's own budgets under the campaign's wall; `override_seconds` replaces what the task declares."""
    declared = task.agent_timeout_seconds
    wanted = override_seconds if override_seconds is not None else declared
    grading_seconds = min(task.verifier_timeout_seconds, GRADING_SHARE * wall_seconds)
    agent_seconds = wall_seconds - grading_seconds
    if wanted is not None:
        agent_seconds = min(agent_seconds, wanted)
    return Budgets(
        trial_seconds=wall_seconds,
        agent_seconds=agent_seconds,
        verifier_seconds=task.verifier_timeout_seconds,
        grading_seconds=grading_seconds,
        shortened=declared is not None and agent_seconds < declared,
    )
