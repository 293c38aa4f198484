"""TrainingRows become padded tensors, cut into micro-batches of a bounded token count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from t1cli.terminal.trajectory.row import TrainingRow


@dataclass(frozen=True)
class MicroBatch:
    """B rows of at most P + 1 tokens. Column j is the position that reads token j and predicts token j + 1."""

    row_indices: tuple[int, ...]
    """Places of the rows in the rollout's list."""
    inputs: Tensor
    """(B, P) int64 tokens read; right-padded with 0, which causal attention never looks back at."""
    targets: Tensor
    """(B, P) int64 tokens predicted."""
    response: Tensor
    """(B, P) bool: the predicted token belongs to the response, observations included."""
    loss_mask: Tensor
    """(B, P) float32: 1 where the predicted token was sampled and carries loss."""
    weight: Tensor
    """(B, P) float32: loss_mask / (mask total of the trial) / (trials of the step)."""
    rollout_log_probs: Tensor
    """(B, P) float32 engine log-probs where loss_mask is 1."""
    rewards: Tensor
    """(B,) float32."""
    versions: Tensor
    """(B, P) int64 version of the weights that sampled the predicted token; the row's oldest where none was sampled."""
    routing: Tensor | None
    """(B, P, L, K) int64 expert choices of the sampler; None when replay is off."""

    @property
    def padded_tokens(self) -> int:
        return self.inputs.numel()


def micro_batches(rows: Sequence[TrainingRow], *, max_tokens: int, replay: bool) -> tuple[MicroBatch, ...]:
    """Rows by descending length, packed first-come into micro-batches of at most `max_tokens` padded tokens.

    A longer row stands alone. The order depends on the rows only. Raises ValueError for a row that lacks routing under
    replay: leaving it out would condition the batch on a successful capture.

    (catalogue F3)
    """
    weights = _trial_weights(rows)
    order = sorted(range(len(rows)), key=lambda index: (-len(rows[index].tokens), index))
    groups: list[list[int]] = []
    for index in order:
        # Sorted by length, so a group's width is its first row's.
        if groups and (len(groups[-1]) + 1) * (len(rows[groups[-1][0]].tokens) - 1) <= max_tokens:
            groups[-1].append(index)
        else:
            groups.append([index])
    return tuple(_pad(rows, tuple(group), weights, replay=replay) for group in groups)


def _trial_weights(rows: Sequence[TrainingRow]) -> list[float]:
    """The weight of one loss token of each row. A trial of several rows counts once, as slime's group_id does."""
    totals: dict[str, int] = {}
    for row in rows:
        totals[row.trial_id] = totals.get(row.trial_id, 0) + int(row.loss_mask[1:].sum())
    return [1.0 / max(totals[row.trial_id], 1) / len(totals) for row in rows]


def _pad(rows: Sequence[TrainingRow], indices: tuple[int, ...], weights: list[float], *, replay: bool) -> MicroBatch:
    chosen = [rows[index] for index in indices]
    size, width = len(chosen), max(len(row.tokens) for row in chosen) - 1
    inputs, targets = np.zeros((size, width), np.int64), np.zeros((size, width), np.int64)
    response, mask = np.zeros((size, width), np.bool_), np.zeros((size, width), np.float32)
    log_probs, weight = np.zeros((size, width), np.float32), np.zeros((size, width), np.float32)
    versions = np.zeros((size, width), np.int64)
    for place, row in enumerate(chosen):
        last = len(row.tokens) - 1
        inputs[place, :last], targets[place, :last] = row.tokens[:-1], row.tokens[1:]
        response[place, row.response_start - 1 : last] = True
        mask[place, :last] = row.loss_mask[1:]
        log_probs[place, :last] = row.log_probs[1:]
        weight[place] = mask[place] * np.float32(weights[indices[place]])
        versions[place, :last] = _token_versions(row)[1:]
    return MicroBatch(
        row_indices=indices,
        inputs=torch.from_numpy(inputs),
        targets=torch.from_numpy(targets),
        response=torch.from_numpy(response),
        loss_mask=torch.from_numpy(mask),
        weight=torch.from_numpy(weight),
        rollout_log_probs=torch.from_numpy(log_probs),
        rewards=torch.tensor([row.reward for row in chosen], dtype=torch.float32),
        versions=torch.from_numpy(versions),
        routing=_pad_routing(chosen, width) if replay else None,
    )


def _token_versions(row: TrainingRow) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(T,) version of the weights that sampled each token. Raises ValueError when a row of several does not say it."""
    found = np.full(len(row.tokens), min(row.weight_versions, default=0), np.int64)
    if len(set(row.weight_versions)) < 2:
        return found
    if len(row.audit.records) != len(row.weight_versions):
        turns, versions = len(row.audit.records), len(row.weight_versions)
        raise ValueError(f"trial {row.trial_id} has {versions} weight versions for {turns} turns on record")
    for turn, version in zip(row.audit.records, row.weight_versions, strict=True):
        found[turn.start : turn.start + turn.sampled] = version
    return found


def _pad_routing(rows: Sequence[TrainingRow], width: int) -> Tensor:
    """(B, P, L, K); padding repeats experts 0..K-1, which is valid and never read by a real position."""
    first = _routing(rows[0])
    layers, experts = first.shape[1:]
    padded = np.broadcast_to(np.arange(experts, dtype=np.int64), (len(rows), width, layers, experts)).copy()
    for place, row in enumerate(rows):
        routing = _routing(row)
        padded[place, : len(routing)] = routing
    return torch.from_numpy(padded)


def _routing(row: TrainingRow) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    if row.routed_experts is None:
        raise ValueError(f"trial {row.trial_id} has no routing rows, and routing replay is on")
    if len(row.routed_experts) != len(row.tokens) - 1:
        found, wanted = len(row.routed_experts), len(row.tokens) - 1
        raise ValueError(f"trial {row.trial_id} has {found} routing rows, {wanted} are wanted: one less than tokens")
    return row.routed_experts  # type: ignore[return-value]
