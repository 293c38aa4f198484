"""Which tasks carry the gradient: how far rewards lie from what they are compared with, by family and by task."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from t1cli.terminal.rollout.result import TrialResult

TOP_TASKS: Final = 5
"""As many as the Qwen3-8B postmortem counts full rewards of."""


def signal_shares(accepted: Sequence[TrialResult]) -> dict[str, float]:
    """Shares of the rollout's absolute advantage, before any critic; absent where all rewards are equal (catalogue L8).

    A trial is compared with its siblings, without siblings with the rollout. `terminal/signal_concentration` is the
    share of the five strongest tasks over what five tasks of this rollout would have if all carried alike.
    """
    by_family, by_task = defaultdict[str, float](float), defaultdict[str, float](float)
    for trial, signal in _signals(accepted):
        by_family[trial.family] += signal
        by_task[trial.plan.task.name] += signal
    whole = sum(by_task.values())
    if not whole:
        return {}
    top = sum(sorted(by_task.values(), reverse=True)[:TOP_TASKS]) / whole
    return {
        **{f"terminal/signal_share/{family}": signal / whole for family, signal in by_family.items()},
        "terminal/signal_top_share": top,
        "terminal/signal_concentration": top * len(by_task) / min(TOP_TASKS, len(by_task)),
    }


def _signals(accepted: Sequence[TrialResult]) -> list[tuple[TrialResult, float]]:
    groups: dict[int, list[tuple[TrialResult, float]]] = defaultdict(list)
    for trial in accepted:
        if trial.reward:
            groups[trial.plan.group_id].append((trial, trial.reward.value))
    scored = [pair for group in groups.values() for pair in group]
    if not scored:
        return []
    overall = statistics.fmean(value for _, value in scored)
    found = []
    for group in groups.values():
        baseline = statistics.fmean(value for _, value in group) if len(group) > 1 else overall
        found += [(trial, abs(value - baseline)) for trial, value in group]
    return found
