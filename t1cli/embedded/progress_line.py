"""One line per rollout for people."""

from __future__ import annotations

import math
from collections.abc import Mapping


def progress_line(done: int, planned: int, metrics: Mapping[str, float]) -> str:
    """What a person wants to see of one rollout; figures that this rollout does not have are left out."""
    lost = metrics.get("terminal/failed", 0.0)
    parts = [
        f"rollout {done}/{planned}",
        _figure("reward", metrics.get("rollout/raw_reward"), "{:.3f}"),
        _figure("checks", metrics.get("terminal/check_rate"), "{:.0%}"),
        _figure("EV", metrics.get("train/explained_variance"), "{:+.2f}"),
        _figure("gap", metrics.get("train/train_rollout_logprob_abs_diff"), "{:.4f}"),
        _figure("clipped", metrics.get("train/pg_clipfrac"), "{:.1%}"),
        _figure("entropy", metrics.get("train/entropy_loss"), "{:.2f}"),
        "" if "train/grad_norm" in metrics else "critic only",
        f"{lost:.0f} trials lost" if lost else "",
        _figure("rollout s", metrics.get("perf/rollout_time"), "{:.1f}"),
        _figure("step s", metrics.get("perf/step_time"), "{:.1f}"),
    ]
    return "  ".join(part for part in parts if part)


def _figure(name: str, value: float | None, form: str) -> str:
    if value is None:
        return ""
    return f"{name} {'-' if math.isnan(value) else form.format(value)}"
