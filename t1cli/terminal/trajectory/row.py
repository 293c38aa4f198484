"""Turns as the engine produced them, and rows as a trainer consumes them.

Shapes: T tokens of a row, L MoE layers, K experts per token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from t1cli.terminal.trajectory.routing import RoutingCapture

RoutingRows = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
"""Expert indices in the smallest type that holds the number of experts."""
Ids = npt.NDArray[np.int32]
"""Token ids."""
Relation = Literal["strict", "normalized", "retokenized", "split"]
"""What a turn's prompt is to the history before it, from exact to none: a split starts a new row."""
RELATIONS: tuple[Relation, ...] = ("strict", "normalized", "retokenized", "split")


@dataclass(frozen=True)
class Turn:
    """One engine request and its reply."""

    prompt_ids: Sequence[int] | Ids
    sampled_ids: Sequence[int] | Ids
    log_probs: Sequence[float]
    """One per sampled id, under the sampling distribution."""
    routed_experts: RoutingRows | RoutingCapture | None
    """(len(prompt_ids) + len(sampled_ids) - 1, L, K): row j is the routing that produced token j + 1's logits."""
    text: str
    """The reply as the harness got it."""
    finish_reason: str
    """`stop`, `length` or `abort`."""
    weight_version: int
    offsets: Sequence[int] | None = None
    """The generation-time offset map: where in `text` each sampled id ends, in characters, never decreasing. An id
    that left no text (a stop id, a byte of an unfinished character) ends where the one before it does. None: the
    reply's text is what its ids decode to."""


@dataclass(frozen=True)
class TurnRecord:
    """How one turn became part of a row."""

    turn: int
    """Number within the trial, from 0."""
    relation: Relation
    start: int
    """Index of its first sampled id in the row."""
    sampled: int
    """Ids that the engine sampled."""
    checksum: int
    """CRC-32 of those ids as little-endian int32, taken when the reply arrived: a saved row proves itself by it."""
    rule: str = ""
    """Why the relation is not strict: what the harness or its chat template did to the history."""
    cell: tuple[int, int] | None = None
    """Trailing ids of the history and glue ids of the prompt that a normalized relation put in each other's place."""
    retokenized: int = 0
    """Ids of the history that this turn's prompt held as other ids."""


@dataclass(frozen=True)
class Audit:
    """Counters over one row; drift inside the loss region must be zero."""

    turns: int = 0
    strict: int = 0
    """Turns whose prompt was an exact prefix continuation, the trial's first one included."""
    sampled_tokens: int = 0
    trained_tokens: int = 0
    drifted_in_loss: int = 0
    masked: dict[str, int] = field(default_factory=dict)
    """Sampled tokens that are not trained, by account."""
    records: tuple[TurnRecord, ...] = ()
    """One per turn, in order."""
    retokenized_tokens: int = 0
    """Positions of the row that a later turn of it was sampled under as other ids."""
    placeholder_rows: int = 0
    """Routing rows that no turn captured; none of them can reach a gradient."""
    ties: int = 0
    """Turns that continued one of several equally long histories."""

    def count(self, relation: Relation) -> int:
        """Turns of one relation."""
        return sum(record.relation == relation for record in self.records)


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
