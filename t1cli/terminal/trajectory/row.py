"""Turns as the engine produced them, and rows as a trainer consumes them.

Shapes: T tokens of a row, L MoE layers, K experts per token.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

RoutingRows = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
"""Expert indices in the smallest type that holds the number of experts."""


@dataclass(frozen=True)
class Turn:
    """One engine request and its reply."""

    prompt_ids: tuple[int, ...]
    sampled_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    """One per sampled id, under the sampling distribution."""
    routed_experts: RoutingRows | None
    """(len(prompt_ids) + len(sampled_ids) - 1, L, K): row j is the routing that produced token j + 1's logits."""
    text: str
    finish_reason: str
    """`stop`, `length` or `abort`."""
    weight_version: int


@dataclass(frozen=True)
class Audit:
    """Counters over one row; drift inside the loss region must be zero."""

    turns: int = 0
    strict: int = 0
    """Turns whose prompt was an exact prefix continuation."""
    sampled_tokens: int = 0
    trained_tokens: int = 0
    drifted_in_loss: int = 0
    masked: dict[str, int] = field(default_factory=dict)
    """Sampled tokens that are not trained, by reason."""


@dataclass(frozen=True)
class TrainingRow:
    """One sample of training data, neutral to the engine that trains on it."""

    trial_id: str
    group_id: int
    task: str
    family: str
    tokens: npt.NDArray[np.int32]
    """(T,) prompt and everything after it."""
    response_start: int
    """Index of the first token after the first prompt; the response is tokens[response_start:]."""
    loss_mask: npt.NDArray[np.uint8]
    """(T,) 1 exactly at sampled ids that carry loss."""
    log_probs: npt.NDArray[np.float32]
    """(T,) the engine's log-prob where loss_mask is 1, 0 elsewhere."""
    routed_experts: RoutingRows | None
    """(T - 1, L, K); row j is the routing of position j."""
    reward: float
    outcome: str
    """`scored`, or the failure that the policy itself caused."""
    weight_versions: tuple[int, ...]
    """One per turn."""
    stop: str = "done"
    """Why the trial's agent loop ended (a StopReason); turns, context, reply_cut and wall mean truncated."""
    audit: Audit = Audit()
