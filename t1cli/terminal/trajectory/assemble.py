"""Turns to TrainingRows on the strict path: every later prompt is the ids before it plus new ones, or a new row starts.

Shapes: T tokens of a row, L MoE layers, K experts per token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np

from t1cli.terminal.trajectory.audit import drifted_in_loss
from t1cli.terminal.trajectory.routing import MissingRouting, WrongRouting
from t1cli.terminal.trajectory.row import Audit, RoutingRows, TrainingRow, Turn

RoutingUse = Literal["required", "kept"]
"""`required`: replayed, so a turn without it aborts the rollout. `kept`: stored when every turn of a row has it."""


@dataclass(frozen=True)
class RowLabel:
    """What the rows of one trial have in common."""

    trial_id: str
    group_id: int
    task: str
    family: str
    reward: float
    outcome: str = "scored"
    stop: str = "done"


def assemble(turns: Sequence[Turn], *, label: RowLabel, routing: RoutingUse) -> tuple[TrainingRow, ...]:
    """The rows of one trial: one, plus one for every turn that breaks the exact prefix relation (catalogue F1).

    Sampled ids alone carry loss. Raises MissingRouting and WrongRouting.
    """
    rows: list[_RowDraft] = []
    for turn in turns:
        _check(turn, label, routing)
        if not rows or not rows[-1].continues(turn):
            rows.append(_RowDraft())
        rows[-1].append(turn)
    return tuple(row.finished(label, is_split=index > 0) for index, row in enumerate(rows))


@dataclass
class _RowDraft:
    """One row while turns are appended; ids, mask and log-probs only ever grow together."""

    tokens: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    routing_pieces: list[RoutingRows | None] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)

    def continues(self, turn: Turn) -> bool:
        """Whether the turn's prompt is exactly this row plus new ids."""
        return list(turn.prompt_ids[: len(self.tokens)]) == self.tokens

    def append(self, turn: Turn) -> None:
        captured_rows = max(len(self.tokens) - 1, 0)
        self._extend(turn.prompt_ids[len(self.tokens) :], None)
        self._extend(turn.sampled_ids, turn.log_probs)
        # A position keeps its first capture: later turns read its keys and values from the cache that this one wrote.
        self.routing_pieces.append(None if turn.routed_experts is None else turn.routed_experts[captured_rows:])
        self.turns.append(turn)

    def _extend(self, ids: Sequence[int], log_probs: Sequence[float] | None) -> None:
        self.tokens.extend(ids)
        self.loss_mask.extend([0 if log_probs is None else 1] * len(ids))
        self.log_probs.extend([0.0] * len(ids) if log_probs is None else log_probs)

    def finished(self, label: RowLabel, *, is_split: bool) -> TrainingRow:
        tokens = np.asarray(self.tokens, dtype=np.int32)
        loss_mask = np.asarray(self.loss_mask, dtype=np.uint8)
        return TrainingRow(
            trial_id=label.trial_id,
            group_id=label.group_id,
            task=label.task,
            family=label.family,
            tokens=tokens,
            response_start=len(self.turns[0].prompt_ids),
            loss_mask=loss_mask,
            log_probs=np.asarray(self.log_probs, dtype=np.float32),
            routed_experts=self._routing(),
            reward=label.reward,
            outcome=label.outcome,
            weight_versions=tuple(turn.weight_version for turn in self.turns),
            stop=label.stop,
            audit=Audit(
                turns=len(self.turns),
                strict=len(self.turns) - is_split,
                sampled_tokens=sum(len(turn.sampled_ids) for turn in self.turns),
                trained_tokens=int(loss_mask.sum()),
                drifted_in_loss=drifted_in_loss(tokens, loss_mask, self.turns),
            ),
        )

    def _routing(self) -> RoutingRows | None:
        pieces = [piece for piece in self.routing_pieces if piece is not None]
        if len(pieces) < len(self.routing_pieces):
            return None
        rows = cast(RoutingRows, np.concatenate(pieces, axis=0))
        if rows.shape[0] != len(self.tokens) - 1:
            raise WrongRouting(f"{rows.shape[0]} routing rows for {len(self.tokens)} tokens, expected one less")
        return rows


def _check(turn: Turn, label: RowLabel, routing: RoutingUse) -> None:
    if len(turn.log_probs) != len(turn.sampled_ids):
        raise ValueError(f"{label.trial_id}: {len(turn.sampled_ids)} sampled ids, {len(turn.log_probs)} log-probs")
    if turn.routed_experts is None:
        if routing == "required":
            raise MissingRouting(
                f"trial {label.trial_id}: the engine sent no routed experts; dropping the trial would bias the batch",
                hint="start the engine with routed experts returned, or set rollout.routing_replay=false",
            )
        return
    wanted = len(turn.prompt_ids) + len(turn.sampled_ids) - 1
    if turn.routed_experts.ndim != 3 or turn.routed_experts.shape[0] != wanted:
        raise WrongRouting(
            f"trial {label.trial_id}: routing of shape {turn.routed_experts.shape}, expected {wanted} rows"
        )
