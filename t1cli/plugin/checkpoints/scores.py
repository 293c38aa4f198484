"""Evaluation scores beside the actor's checkpoints: what retention ranks by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from t1cli.records import LineLog, read_lines
from t1cli.run.checkpoint_manifest import finished_rollout
from t1cli.spec.experiment import ExperimentSpec

SCORES: Final = "t1_scores.jsonl"


def score_name(spec: ExperimentSpec) -> str | None:
    """The metric that decides which checkpoint is best; None when nothing is evaluated."""
    if spec.checkpoint.retention.metric:
        return spec.checkpoint.retention.metric
    return f"eval/{spec.evaluation.name}" if spec.evaluation else None


def record_scores(actor_dir: Path, rollout: int, metrics: Mapping[str, float]) -> None:
    """Write down an evaluation after `rollout`. The one before training belongs to no checkpoint and is left out."""
    newest = finished_rollout(actor_dir)
    if newest is None or newest < rollout:
        return
    log = LineLog(actor_dir / SCORES)
    log.append({"rollout": rollout, "metrics": dict(metrics)})
    log.close()


def scores(actor_dir: Path, name: str | None) -> dict[int, float]:
    """Score by rollout; the last evaluation of a rollout wins."""
    if name is None:
        return {}
    found = ((line["rollout"], line["metrics"].get(name)) for line in read_lines(actor_dir / SCORES))
    return {int(rollout): float(value) for rollout, value in found if isinstance(value, int | float)}
