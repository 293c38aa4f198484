"""Training rows of one rollout on disk: one npz without pickled objects, written aside and renamed."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from t1cli.errors import BadInput
from t1cli.terminal.trajectory.row import Audit, RoutingRows, TrainingRow, TurnRecord

FORMAT_VERSION = 1
ARRAYS = ("tokens", "loss_mask", "log_probs", "routed_experts")


def save_rows(path: Path, rows: Sequence[TrainingRow]) -> None:
    """Write all rows; a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        # Of a session that was killed while it wrote: a path has one writer at a time.
        left.unlink(missing_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    labels = [{k: v for k, v in asdict(_without_arrays(row)).items() if k not in ARRAYS} for row in rows]
    head = json.dumps({"format_version": FORMAT_VERSION, "rows": labels}).encode()
    routed = [row.routed_experts for row in rows if row.routed_experts is not None]
    with aside.open("wb") as file:
        np.savez(
            file,
            head=np.frombuffer(head, dtype=np.uint8),
            lengths=np.asarray([len(row.tokens) for row in rows], dtype=np.int64),
            has_routing=np.asarray([row.routed_experts is not None for row in rows], dtype=np.bool_),
            tokens=_joined([row.tokens for row in rows], np.int32),
            loss_mask=_joined([row.loss_mask for row in rows], np.uint8),
            log_probs=_joined([row.log_probs for row in rows], np.float32),
            routed_experts=np.concatenate(routed) if routed else np.zeros((0, 0, 0), dtype=np.uint8),
        )
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def load_rows(path: Path) -> tuple[TrainingRow, ...]:
    """The rows that `save_rows` wrote, bit for bit. Raises BadInput when the file is none of ours."""
    if not path.is_file():  # a pipe would be waited for
        raise BadInput("no readable rollout: no such file", where=str(path))
    try:
        with np.load(path, allow_pickle=False) as archive:
            content = {name: archive[name] for name in archive.files}
        head = json.loads(content["head"].tobytes())
        if head["format_version"] == FORMAT_VERSION:
            return tuple(_rows(head["rows"], content))
    except Exception as error:  # zipfile, zlib and numpy raise anything over bytes that are not theirs
        raise BadInput(f"no readable rollout: {type(error).__name__}: {error}", where=str(path)) from error
    raise BadInput(f"rollout format {head['format_version']}, expected {FORMAT_VERSION}", where=str(path))


def _rows(labels: list[dict[str, Any]], content: dict[str, Any]) -> list[TrainingRow]:
    ends = np.concatenate([[0], np.cumsum(content["lengths"])])
    routing_lengths = np.where(content["has_routing"], np.maximum(content["lengths"] - 1, 0), 0)
    routing_ends = np.concatenate([[0], np.cumsum(routing_lengths)])
    rows = []
    for index, (label, (start, end)) in enumerate(zip(labels, pairwise(ends), strict=True)):
        routed: RoutingRows | None = None
        if content["has_routing"][index]:
            routed = content["routed_experts"][routing_ends[index] : routing_ends[index + 1]]
        rows.append(
            TrainingRow(
                **{**label, "weight_versions": tuple(label["weight_versions"]), "audit": _audit(label["audit"])},
                tokens=content["tokens"][start:end],
                loss_mask=content["loss_mask"][start:end],
                log_probs=content["log_probs"][start:end],
                routed_experts=routed,
            )
        )
    return rows


def _audit(label: dict[str, Any]) -> Audit:
    records = [
        TurnRecord(**{**record, "cell": tuple(record["cell"]) if record["cell"] else None})
        for record in label.get("records", ())
    ]
    return Audit(**{**label, "records": tuple(records)})


def _without_arrays(row: TrainingRow) -> TrainingRow:
    """A copy with empty arrays, so that `asdict` does not deep-copy them."""
    nothing = np.zeros(0)
    return replace(
        row,
        tokens=nothing.astype(np.int32),
        loss_mask=nothing.astype(np.uint8),
        log_probs=nothing.astype(np.float32),
        routed_experts=None,
    )


def _joined(arrays: list[Any], dtype: Any) -> Any:
    return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.zeros(0, dtype=dtype)
