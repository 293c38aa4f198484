"""What the sampler would have reported for given tokens under other numerics.

The same ids go through the sampler's forward pass with another number format or a perturbed router, so that between two
such runs nothing else differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from t1cli.embedded.decoder import Decoder, DecoderSettings, Slot
from t1cli.embedded.model import TinyMoEConfig
from t1cli.terminal.trajectory.row import TrainingRow

ROWS_TOGETHER = 16


def forced_rows(
    rows: Sequence[TrainingRow],
    config: TinyMoEConfig,
    weights: Mapping[str, Tensor],
    settings: DecoderSettings,
    *,
    temperature: float,
) -> list[TrainingRow]:
    """The rows with the log-probs and routing of a decoder of these settings; ids and masks stay."""
    own = replace(settings, slots=ROWS_TOGETHER, max_context=max(len(row.tokens) for row in rows))
    decoder = Decoder(config, weights, own)
    found: list[TrainingRow] = []
    for start in range(0, len(rows), ROWS_TOGETHER):
        decoder.flush()
        found += _forced(rows[start : start + ROWS_TOGETHER], decoder, temperature)
    return found


def _forced(rows: Sequence[TrainingRow], decoder: Decoder, temperature: float) -> list[TrainingRow]:
    read = [row.tokens[:-1].tolist() for row in rows]
    slots = [_slot(decoder, tokens) for tokens in read]
    scores = torch.log_softmax(decoder.prefill(slots, read, every=True) / temperature, dim=-1)
    by_row = torch.split(scores, [len(tokens) for tokens in read])
    found = [
        replace(
            row,
            log_probs=_log_probs(row, of_row),
            routed_experts=decoder.routes(slot).astype(np.uint8),
        )
        for row, slot, of_row in zip(rows, slots, by_row, strict=True)
    ]
    for slot in slots:
        decoder.release(slot)
    return found


def _log_probs(row: TrainingRow, scores: Tensor) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """(T,) the log-prob of each token where it carries loss, 0 elsewhere."""
    targets = torch.from_numpy(row.tokens[1:].astype(np.int64))
    log_probs = np.zeros(len(row.tokens), np.float32)
    log_probs[1:] = scores.gather(-1, targets[:, None])[:, 0].numpy()
    log_probs[row.loss_mask == 0] = 0.0
    return log_probs


def _slot(decoder: Decoder, tokens: Sequence[int]) -> Slot:
    place = decoder.acquire(tokens)
    assert place is not None
    slot, _ = place
    slot.tokens.clear()  # a prefix that another row left must be computed again
    return slot
