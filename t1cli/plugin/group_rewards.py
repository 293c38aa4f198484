"""GRPO's reward shaping: a z-score per prompt group over the trials that are trained on, and nothing else.

slime's own shaping lets removed samples into the mean and treats the whole batch as one group when the sample count
is off (`slime/ray/rollout.py:_post_process_rewards`, v0.3.0).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from t1cli.plugin.settings import settings_of
from t1cli.plugin.to_sample import unit_of
from t1cli.spec.algorithm import GRPO

_EPSILON: Final = 1e-6
"""slime's own guard of the division."""


@dataclass
class _Trial:
    """All samples of one trial: a trial that became several samples must not count several times."""

    group: int
    reward: float
    tokens: int
    """Loss-bearing tokens."""
    trainable: bool


def raw_and_shaped(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Raw rewards, and advantages: z-score, optionally divided by the trial's share of its group's mean length.

    (catalogue R8 at rollout)
    """
    algorithm = settings_of(args).spec.algorithm
    raw = [float(sample.get_reward_value(args)) for sample in samples]
    if not isinstance(algorithm, GRPO):
        return raw, list(raw)
    trials = _trials(samples, raw)
    shaped: dict[int, float] = dict.fromkeys(trials, 0.0)
    for group in {trial.group for trial in trials.values()}:
        siblings = {key: trial for key, trial in trials.items() if trial.group == group and trial.trainable}
        shaped |= group_advantages(
            {key: trial.reward for key, trial in siblings.items()},
            {key: trial.tokens for key, trial in siblings.items()},
            normalize_std=algorithm.normalize_std,
            length_normalize=algorithm.length_normalize,
        )
    return raw, [shaped[unit_of(sample)] for sample in samples]


def group_advantages(
    rewards: dict[int, float], tokens: dict[int, int], *, normalize_std: bool, length_normalize: bool
) -> dict[int, float]:
    """Advantage by trial: (r - mean) / (std + 1e-6), std with n - 1 as torch has it; × mean length / own length."""
    if not rewards:
        return {}
    mean = statistics.fmean(rewards.values())
    advantages = {key: reward - mean for key, reward in rewards.items()}
    if normalize_std and len(rewards) > 1:
        scale = statistics.stdev(rewards.values()) + _EPSILON
        advantages = {key: value / scale for key, value in advantages.items()}
    if length_normalize:
        mean_tokens = statistics.fmean(tokens.values())
        advantages = {key: value * mean_tokens / max(tokens[key], 1) for key, value in advantages.items()}
    return advantages


def _trials(samples: Sequence[Any], raw: Sequence[float]) -> dict[int, _Trial]:
    found: dict[int, _Trial] = {}
    for sample, reward in zip(samples, raw, strict=True):
        length = 0 if sample.remove_sample else sample.effective_response_length
        trial = found.setdefault(unit_of(sample), _Trial(sample.group_index, reward, 0, False))
        trial.tokens += length
        trial.trainable |= length > 0
    return found
