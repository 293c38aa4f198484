"""The group baseline of GRPO; PPO's advantages come from `gae`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from t1cli.spec.algorithm import GRPO
from t1cli.terminal.trajectory.row import TrainingRow

_EPSILON = 1e-6


def group_advantages(rows: Sequence[TrainingRow], algorithm: GRPO) -> tuple[float, ...]:
    """One advantage per row: reward minus the group's mean, over its standard deviation if asked for.

    A trial of several rows counts once in its group (Shao et al. 2024, arXiv 2402.03300, section 4.1).
    """
    by_group: dict[int, dict[str, float]] = {}
    for row in rows:
        by_group.setdefault(row.group_id, {})[row.trial_id] = row.reward
    return tuple(_advantage(row.reward, list(by_group[row.group_id].values()), algorithm) for row in rows)


def _advantage(reward: float, group: list[float], algorithm: GRPO) -> float:
    centred = reward - float(np.mean(group))
    if not algorithm.normalize_std or len(group) < 2:
        return centred
    return centred / (float(np.std(group, ddof=1)) + _EPSILON)
