"""Names of the metrics that t1 itself reads back: slime's own where slime has one, `terminal/*` for the rest."""

from __future__ import annotations

from typing import Final

ROLLOUT_STEP: Final = "rollout/step"
"""Axis of `rollout/*`, `perf/*`, `terminal/*`: the rollout id, from 0."""
TRAIN_STEP: Final = "train/step"
"""Axis of `train/*`: rollout id × steps per rollout + step within it."""
EVAL_STEP: Final = "eval/step"
"""Axis of `eval/*`: the rollout id."""
AXES: Final = (ROLLOUT_STEP, TRAIN_STEP, EVAL_STEP)

REWARD: Final = "rollout/raw_reward"
"""Mean reward of the trained batch."""
CHECKS_PASSED: Final = "terminal/checks_passed_mean"
"""Mean number of a task's checks that a scored trial passed."""
CHECK_RATE: Final = "terminal/check_rate"
"""Mean share of a task's checks that a scored trial passed."""
TRIALS: Final = "terminal/total_samples"
"""Trials of this rollout that ended by themselves: scored and accepted, or lost to the infrastructure."""
TRIALS_FAILED: Final = "terminal/failed"
"""Trials of this rollout that the infrastructure lost: recorded, never trained on."""
FAILED_BY_CAUSE: Final = "terminal/failed_by_cause/"
"""Prefix: lost trials of this rollout by one cause, such as `terminal/failed_by_cause/sandbox_create`."""
EXPLAINED_VARIANCE: Final = "train/explained_variance"
"""1 - Var(returns - values) / Var(returns) over loss tokens, with the critic's values before its update."""
LOGPROB_GAP: Final = "train/train_rollout_logprob_abs_diff"
"""Mean |trainer's old log-prob - sampler's log-prob| over loss tokens."""
MISMATCH_KL: Final = "train/mismatch_kl"
"""KL(sampler ‖ trainer) over loss tokens, k3 estimator, in nats per token."""
ROUTED_TOKENS: Final = "train/routed_token_share"
"""Share of loss tokens whose routing is on record and is replayed."""
