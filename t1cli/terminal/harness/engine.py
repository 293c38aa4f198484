"""What an agent loop needs of an inference engine, whichever it is.

Shapes: P prompt ids, N sampled ids, L MoE layers, K experts per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from t1cli.terminal.trajectory.routing import RoutingCapture
from t1cli.terminal.trajectory.row import RoutingRows


@dataclass(frozen=True)
class Sampling:
    """How one reply is sampled."""

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    stop_ids: tuple[int, ...] = ()
    seed: int | None = None
    """Seed of this reply for engines that take one; None leaves it to the engine."""


@dataclass(frozen=True)
class Generation:
    """One reply as the engine sampled it."""

    sampled_ids: tuple[int, ...]
    """N ids, a stop id included when one ended the reply."""
    log_probs: tuple[float, ...]
    """N values under the sampling distribution."""
    routed_experts: RoutingRows | RoutingCapture | None
    """(P + N - 1, L, K), as a rule still encoded; None when the engine sent none."""
    finish_reason: str
    """`stop`, `length` or `abort`."""
    weight_version: int
    """Version of the weights that sampled it; -1 when the engine does not say a number."""
    seconds: float = 0.0


class EngineError(Exception):
    """The engine failed or answered nonsense: an infrastructure outcome, never reward 0."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause
        """Short machine-readable cause, for example `engine_timeout`."""
        self.detail = detail


class Engine(Protocol):
    """Samples replies. One object serves one event loop only."""

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        """One reply to `prompt_ids`. Cancelling it aborts the request in the engine. Raises EngineError."""
        ...

    def take_lost(self, rid: str) -> int:
        """Tokens that the engine sampled for a request whose reply nobody received; counted once."""
        ...
