"""What all trials of a campaign share: sandboxes, the engine, the grader, budgets and limits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from t1cli.terminal.harness.agent import AgentMaker
from t1cli.terminal.harness.builtin import BuiltinAgent
from t1cli.terminal.harness.chat_template import ChatTemplate
from t1cli.terminal.harness.engine import Engine
from t1cli.terminal.harness.limits import Limits
from t1cli.terminal.rewards.verdict import RewardResult, Verdict
from t1cli.terminal.rollout.budgets import Budgets
from t1cli.terminal.rollout.group_filter import GroupFilter
from t1cli.terminal.rollout.pacing import Pace, Slots
from t1cli.terminal.sandbox.sandbox import Sandbox, SandboxProvider
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.assemble import RoutingUse

CREATE_SECONDS = 120.0


class Grader(Protocol):
    """Grades a stopped trial. Raises when the verifier itself failed; never turns that into a verdict."""

    async def __call__(self, task: Task, sandbox: Sandbox, *, trial_dir: Path, timeout_seconds: float) -> Verdict: ...


class RewardRule(Protocol):
    """What a verdict is worth."""

    def __call__(self, verdict: Verdict, *, turns: int, response_tokens: int) -> RewardResult: ...


@dataclass(frozen=True)
class TrialWorld:
    """Shared by all trials of a campaign; nothing in it is bound to an event loop."""

    provider: SandboxProvider
    template: ChatTemplate
    connect: Callable[[], AbstractAsyncContextManager[Engine]]
    """Opens an engine client inside the event loop that will use it."""
    grade: Grader
    reward: RewardRule
    limits: Limits
    budgets: Callable[[Task], Budgets]
    routing: RoutingUse
    owner: str
    """Owner tag of every sandbox, for the reaper."""
    run_tag: str
    """Prefix of every trial id: no two runs share a trial directory."""
    trials_dir: Path
    slots: Slots
    """Places for live sandboxes."""
    pace: Pace
    """Pace of sandbox creation."""
    verifiers: Slots
    """Places for running verifiers."""
    make_agent: AgentMaker = BuiltinAgent
    """The agent loop of every trial."""
    drops: GroupFilter | None = None
    """Why a full group of trials is dropped before training; null keeps all."""
    seed: int = 0
    create_seconds: float = CREATE_SECONDS
    close_seconds: float = 30.0
