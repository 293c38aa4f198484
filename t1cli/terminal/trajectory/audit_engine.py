"""The log-probs that a live engine gives saved rows, against those that the sampler recorded.

Only the standard library: an audit must run wherever the files are.
"""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from t1cli.errors import CouldNotAsk
from t1cli.terminal.trajectory.row import TrainingRow

TIMEOUT_SECONDS = 600.0
"""One row; a long one on a busy engine takes minutes."""


@dataclass(frozen=True)
class RowGap:
    """One row as the engine scores it."""

    rollout: int
    trial_id: str
    tokens: int
    """Loss tokens compared."""
    mean: float
    """Mean |engine log-prob − recorded log-prob| over them."""
    worst_turn: int
    worst_turn_mean: float
    weight_versions: tuple[int, ...]
    engine_version: str


def row_gap(url: str, rollout: int, row: TrainingRow) -> RowGap:
    """Score one row with the engine behind `url`. Raises CouldNotAsk."""
    answer = _ask(url, row.tokens.tolist())
    scored = _log_probs(answer, row.tokens.tolist(), url)
    gaps = np.abs(np.asarray(scored) - row.log_probs)
    in_loss = row.loss_mask == 1
    means = {
        record.turn: float(gaps[record.start : record.start + record.sampled].mean())
        for record in row.audit.records
        if record.sampled and in_loss[record.start]
    }
    worst = max(means, key=means.__getitem__, default=-1)
    return RowGap(
        rollout=rollout,
        trial_id=row.trial_id,
        tokens=int(in_loss.sum()),
        mean=float(gaps[in_loss].mean()) if in_loss.any() else 0.0,
        worst_turn=worst,
        worst_turn_mean=means.get(worst, 0.0),
        weight_versions=tuple(sorted(set(row.weight_versions))),
        engine_version=str(answer.get("meta_info", {}).get("weight_version", "")),
    )


def mean_gap(gaps: Sequence[RowGap]) -> float:
    """Over all tokens of all rows: the division comes last."""
    tokens = sum(gap.tokens for gap in gaps)
    return math.fsum(gap.mean * gap.tokens for gap in gaps) / tokens if tokens else 0.0


def _ask(url: str, ids: list[int]) -> dict[str, Any]:
    body = {
        "input_ids": ids,
        "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
        "return_logprob": True,
        "logprob_start_len": 0,
    }
    address = url.rstrip("/").removesuffix("/generate") + "/generate"
    request = urllib.request.Request(
        address, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        # An engine stands inside the cluster: no proxy of the environment leads to it.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=TIMEOUT_SECONDS) as reply:
            content = json.loads(reply.read())
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise CouldNotAsk(
            f"the engine scored nothing: {error}", where=address, hint="start it, or leave --engine out"
        ) from error
    if not isinstance(content, dict):
        raise CouldNotAsk(f"expected one JSON object, got {type(content).__name__}", where=address)
    return content


def _log_probs(answer: dict[str, Any], ids: list[int], url: str) -> list[float]:
    """One per id; the first has none, for nothing comes before it."""
    entries = (answer.get("meta_info") or {}).get("input_token_logprobs")
    try:
        found = [(0.0 if entry[0] is None else float(entry[0]), int(entry[1])) for entry in entries or ()]
    except (TypeError, ValueError, IndexError) as error:
        raise CouldNotAsk(f"unreadable log-probs: {error}", where=url) from error
    if [token for _, token in found] != ids:
        raise CouldNotAsk(
            f"log-probs of {len(found)} prompt tokens, expected those of the row's {len(ids)}",
            where=url,
            hint="the engine must answer `logprob_start_len` with meta_info.input_token_logprobs, as SGLang does",
        )
    return [log_prob for log_prob, _ in found]
