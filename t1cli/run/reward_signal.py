"""Whether the trials of a run differ in reward at all: where they do not, no algorithm learns anything from them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final

from t1cli.records import number_in, read_lines
from t1cli.run.directory import RunDirectory

WINDOW: Final = 5
"""Newest rollouts that are read."""
_LARGEST_BYTES: Final = 32 * 2**20
"""A larger record of one rollout is not read: a status is asked for often."""
_EQUAL: Final = 9
"""Digits to which two rewards are compared."""


def rollouts_without_signal(run: RunDirectory) -> int:
    """How many of the newest rollouts hold trials of which none differs in reward from another of its task.

    0 where some differ, and where too few trials share a task to tell.
    """
    files = [path for path in _newest(run) if path.stat().st_size <= _LARGEST_BYTES]
    rewards: dict[str, list[float]] = defaultdict(list)
    for path in files:
        for task, reward in _scored(path):
            rewards[task].append(reward)
    trials = sum(map(len, rewards.values()))
    if any(len(set(of_task)) > 1 for of_task in rewards.values()):
        return 0
    alike = trials > 1 and len({reward for of_task in rewards.values() for reward in of_task}) == 1
    return len(files) if alike or (rewards and trials >= 2 * len(rewards)) else 0


def _newest(run: RunDirectory) -> list[Path]:
    return sorted(run.trials.glob("rollout_*.jsonl"))[-WINDOW:] if run.trials.is_dir() else []


def _scored(path: Path) -> list[tuple[str, float]]:
    found = []
    for line in read_lines(path):
        reward = line.get("reward")
        if line.get("scored") is True and isinstance(reward, dict):
            found.append((str(line.get("task")), round(number_in(reward.get("value")), _EQUAL)))
    return found
