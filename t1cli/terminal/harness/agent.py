"""What a trial needs of an agent loop, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from t1cli.terminal.harness.chat_template import ChatTemplate
from t1cli.terminal.harness.engine import Engine
from t1cli.terminal.harness.limits import Limits
from t1cli.terminal.harness.summary import SummaryCounts
from t1cli.terminal.rollout.outcome import StopReason
from t1cli.terminal.sandbox.sandbox import Sandbox
from t1cli.terminal.trajectory.row import Turn

EXEC_GRACE_SECONDS = 10.0
"""A sandbox that does not answer this long after a command's time limit is lost."""


@dataclass(frozen=True)
class TurnNote:
    """One turn as a person reads it."""

    reply: str
    kind: str
    """`command`, `done`, `malformed`, `cut` or `summary`; of a text harness, which reads replies itself, `reply` or
    `cut`."""
    observation: str
    exit_code: int | None
    prompt_tokens: int
    sampled_tokens: int
    engine_seconds: float
    command_seconds: float


class HarnessError(Exception):
    """The agent loop's own code failed: an infrastructure outcome, never reward 0."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause
        """Short machine-readable cause, for example `harness_KeyError`."""
        self.detail = detail


class Agent(Protocol):
    """One trial's agent. What it has in public stays readable when `run` fails or is cancelled."""

    @property
    def notes(self) -> Sequence[TurnNote]:
        """One per turn."""
        ...

    @property
    def lost_tokens(self) -> int:
        """Tokens sampled for replies that never became a turn."""
        ...

    @property
    def summaries(self) -> SummaryCounts:
        """What became of the trial's summaries."""
        ...

    async def run(self, instruction: str, *, deadline: float) -> StopReason:
        """Play until a stop; `deadline` is in the event loop's time.

        Raises EngineError, SandboxError and HarnessError.
        """
        ...


class AgentMaker(Protocol):
    """Makes the agent of one trial; `on_turn` gets every turn once, as it arrives."""

    def __call__(
        self,
        *,
        engine: Engine,
        sandbox: Sandbox,
        template: ChatTemplate,
        limits: Limits,
        trial_id: str,
        seed: int,
        on_turn: Callable[[Turn], None],
    ) -> Agent: ...
