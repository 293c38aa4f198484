"""What a spec asks for that the embedded engine does not do; nothing of it is ever ignored silently."""

from __future__ import annotations

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec.algorithm import GRPO, PPO
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.harnesses import lacks_harbor

HINT = "change it, or run on slime: engine.kind=slime"


def refuse_unsupported(spec: ExperimentSpec) -> None:
    """Raises BadInput naming every setting that the embedded engine does not have."""
    found = unsupported(spec)
    if found:
        raise BadInput.many(tuple(Diagnostic(message, where, hint=HINT) for where, message in found.items()))


def unsupported(spec: ExperimentSpec) -> dict[str, str]:
    """Dotted key to what is wrong with its value here; empty when the campaign can run."""
    algorithm, rollout = spec.algorithm, spec.rollout
    checks = {
        "engine.kind": (spec.engine.kind != "embedded", f"{spec.engine.kind} is another engine"),
        "rollout.pipeline": (rollout.pipeline == "fully_async", "there is no fully_async pipeline here"),
        "rollout.harness": (
            bool(lacks_harbor(rollout.harness, spec.sandbox.kind)),
            lacks_harbor(rollout.harness, spec.sandbox.kind),
        ),
        "trainer.precision": (spec.trainer.precision != "fp32", "the trainer runs fp32 here"),
        "algorithm.adam.lr_schedule": (algorithm.adam.lr_schedule != "constant", "learning rates are constant here"),
        "algorithm.kl_loss_coef": (algorithm.kl_loss_coef > 0, "there is no reference model for a KL loss here"),
        "algorithm.entropy_coef": (algorithm.entropy_coef > 0, "entropy is logged here, without an effect"),
        "algorithm.aux_loss_coef": (algorithm.aux_loss_coef > 0, "there is no load-balancing loss here"),
        "algorithm.per_token_loss": (algorithm.per_token_loss, "every sample weighs alike here"),
        "algorithm.use_kl_loss": (algorithm.use_kl_loss is True, "there is no reference model for a KL loss here"),
        "algorithm.adam.warmup_fraction": (bool(algorithm.adam.warmup_fraction), "learning rates are constant here"),
        "algorithm.adam.min_learning_rate": (
            bool(algorithm.adam.min_learning_rate),
            "learning rates are constant here",
        ),
        "rollout.thinking": (rollout.thinking == "on", "the model here has no thinking"),
        "rollout.stop_token_ids": (bool(rollout.stop_token_ids), "a reply ends with the model's own token here"),
        "trainer.attention_dropout": (spec.trainer.attention_dropout > 0, "there is no dropout here"),
        "trainer.hidden_dropout": (spec.trainer.hidden_dropout > 0, "there is no dropout here"),
        "checkpoint.load_dir": (spec.checkpoint.load_dir is not None, "a campaign goes on from its own run here"),
        "algorithm.correction.kind": (algorithm.correction.kind == "apply", "importance weights are only recorded"),
    }
    found = {key: message for key, (wrong, message) in checks.items() if wrong}
    return found | (_ppo(algorithm) if isinstance(algorithm, PPO) else _grpo(algorithm))


def _ppo(algorithm: PPO) -> dict[str, str]:
    checks = {
        "algorithm.kl_reward_coef": (algorithm.kl_reward_coef > 0, "there is no reference model for a KL penalty here"),
        "algorithm.normalize_advantages": (algorithm.normalize_advantages, "advantages are not whitened here"),
    }
    return {key: message for key, (wrong, message) in checks.items() if wrong}


def _grpo(algorithm: GRPO) -> dict[str, str]:
    checks = {
        "algorithm.estimator": (algorithm.estimator != "grpo", f"{algorithm.estimator} is not computed here"),
        "algorithm.loss": (algorithm.loss != "policy_loss", "there is nothing to imitate here"),
        "algorithm.kl_reward_coef": (algorithm.kl_reward_coef > 0, "there is no reference model for a KL penalty here"),
        "algorithm.normalize_advantages": (algorithm.normalize_advantages, "advantages are not whitened here"),
        "algorithm.steps_per_rollout": (algorithm.steps_per_rollout > 1, "one optimizer step per rollout here"),
        "algorithm.length_normalize": (algorithm.length_normalize, "advantages are not divided by length here"),
    }
    return {key: message for key, (wrong, message) in checks.items() if wrong}
