"""What a finished run's trials would have been worth under another reward block, from their stored verdicts."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from t1cli.spec.reward import Reward
from t1cli.terminal.rewards.reward import reward_of
from t1cli.terminal.rewards.verdict import RewardResult
from t1cli.terminal.rollout.recorded_trials import read_trials


@dataclass(frozen=True)
class Rescored:
    """One trial under both rewards."""

    trial_id: str
    task: str
    family: str
    rollout: int
    before: float
    after: RewardResult


@dataclass(frozen=True)
class Comparison:
    """Both rewards over a set of trials."""

    trials: int
    before_mean: float
    after_mean: float
    after_min: float
    after_max: float
    binary_mean: float
    fallback_share: float
    """Share of the absolute reward that fallbacks give."""
    changed: int


def rescore(trials_dir: Path, reward: Reward) -> Iterator[Rescored]:
    """Every scored trial of the training logs in `trials_dir`; lines that a crash cut off are passed over."""
    for trial in read_trials(trials_dir):
        if trial.scored and trial.verdict is not None and trial.reward is not None:
            after = reward_of(trial.verdict, reward, turns=len(trial.turns), response_tokens=trial.sampled_tokens)
            yield Rescored(trial.trial_id, trial.task, trial.family, trial.rollout, trial.reward, after)


def compare(trials: Iterable[Rescored]) -> Comparison | None:
    """Both rewards side by side; None without trials."""
    found = list(trials)
    if not found:
        return None
    after = [trial.after.value for trial in found]
    whole = sum(abs(value) for value in after)
    fallback = sum(abs(trial.after.value) for trial in found if trial.after.source == "fallback")
    return Comparison(
        trials=len(found),
        before_mean=statistics.fmean(trial.before for trial in found),
        after_mean=statistics.fmean(after),
        after_min=min(after),
        after_max=max(after),
        binary_mean=statistics.fmean(trial.after.binary for trial in found),
        fallback_share=fallback / whole if whole else 0.0,
        changed=sum(abs(trial.before - trial.after.value) > 1e-9 for trial in found),
    )
