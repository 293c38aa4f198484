"""`algorithm`: how rewards become gradients."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from t1cli.spec.block import Block


class AdamSpec(Block):
    """Adam's constants, shared by the roles."""

    beta1: float = Field(default=0.9, ge=0.0, lt=1.0)
    """First-moment decay."""
    beta2: float = Field(default=0.98, ge=0.0, lt=1.0)
    """Second-moment decay."""
    weight_decay: NonNegativeFloat = 0.1
    """Decoupled weight decay."""
    grad_clip: PositiveFloat = 1.0
    """Global gradient-norm limit."""
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning-rate decay."""
    min_learning_rate: NonNegativeFloat | None = None
    """Where the decay ends; null means 0."""
    warmup_fraction: float | None = Field(default=None, ge=0.0, le=1.0)
    """Share of the optimizer steps over which the learning rate rises; null means none."""


class Correction(Block):
    """Off-policy correction between the engine's and the trainer's log-probs."""

    kind: Literal["record", "apply", "none"] = "record"
    """`record` logs the truncated importance weight without applying it."""
    clip: PositiveFloat = 2.0
    """Upper limit of the truncated importance weight."""


class CriticSpec(Block):
    """The value model of PPO."""

    learning_rate: PositiveFloat
    """Constant learning rate of the critic."""
    value_clip: PositiveFloat = 0.2
    """Value clip, anchored to the values before the update."""
    critic_only_steps: NonNegativeInt = 0
    """First rollouts that train the critic alone: 2 when warm-loaded, tens when cold."""
    warm_from_reward: str | None = None
    """Reward kind of the campaign that the warm critic comes from; a change of scale needs critic-only steps."""


class PPO(Block):
    """PPO with a critic of the actor's size (the T1 report's recipe)."""

    kind: Literal["ppo"] = "ppo"
    """Clipped surrogate with GAE."""
    clip: PositiveFloat = 0.2
    """Symmetric ratio clip."""
    gamma: float = Field(default=1.0, gt=0.0, le=1.0)
    """Discount."""
    lam: float = Field(default=1.0, ge=0.0, le=1.0)
    """GAE's lambda."""
    kl_loss_coef: NonNegativeFloat = 0.0
    """Weight of the KL loss to the reference; 0 is off."""
    use_kl_loss: bool | None = None
    """Load the reference and log the KL loss even at weight 0; null means: whenever the weight is above 0."""
    kl_reward_coef: NonNegativeFloat = 0.0
    """Weight of the per-token KL penalty in the reward; 0 is off."""
    entropy_coef: NonNegativeFloat = 0.0
    """Weight of the entropy bonus; 0 still logs the entropy."""
    aux_loss_coef: NonNegativeFloat = 0.0
    """Weight of the MoE load-balancing loss."""
    normalize_advantages: bool = False
    """Whiten advantages over the batch."""
    actor_learning_rate: NonNegativeFloat
    """Constant learning rate of the actor; 0 trains nothing, for a control."""
    critic: CriticSpec
    """The value model."""
    adam: AdamSpec = AdamSpec()
    """Optimizer constants."""
    correction: Correction = Correction()
    """Truncated importance sampling."""
    keep_old_actor: bool | None = None
    """Rotate a snapshot of the behaviour policy at the weight push; null means: whenever the pipeline is not sync."""
    per_token_loss: bool = False
    """Weigh every token alike instead of every sample."""


class GRPO(Block):
    """Group-relative policy optimisation: no critic, the group is the baseline."""

    kind: Literal["grpo"] = "grpo"
    """Group baseline."""
    estimator: Literal["grpo", "gspo", "cispo", "reinforce_plus_plus", "reinforce_plus_plus_baseline"] = "grpo"
    """Variant: the ratio per token, per sequence (gspo), clipped weights (cispo), or without groups (reinforce)."""
    loss: Literal["policy_loss", "sft_loss"] = "policy_loss"
    """`sft_loss` imitates given answers; nothing is sampled or rewarded."""
    clip: PositiveFloat = 0.2
    """Lower ratio clip."""
    clip_high: PositiveFloat | None = None
    """Upper ratio clip; null means symmetric."""
    kl_loss_coef: NonNegativeFloat = 0.0
    """Weight of the KL loss to the reference."""
    kl_loss_kind: Literal["k1", "k2", "k3", "low_var_kl"] = "k3"
    """Estimator of the KL loss."""
    use_kl_loss: bool | None = None
    """Load the reference and log the KL loss even at weight 0; null means: whenever the weight is above 0."""
    kl_reward_coef: NonNegativeFloat = 0.0
    """Weight of the per-token KL penalty in the reward; 0 is off."""
    entropy_coef: NonNegativeFloat = 0.0
    """Weight of the entropy bonus."""
    aux_loss_coef: NonNegativeFloat = 0.0
    """Weight of the MoE load-balancing loss."""
    normalize_std: bool = True
    """Divide a group's advantages by their standard deviation."""
    normalize_advantages: bool = False
    """Whiten advantages over the batch; REINFORCE++ needs it."""
    keep_old_actor: bool | None = None
    """Rotate a snapshot of the behaviour policy at the weight push; null means: whenever the pipeline is not sync."""
    per_token_loss: bool = False
    """Weigh every token alike instead of every sample."""
    length_normalize: bool = False
    """Divide a sample's advantage by its length over the group's mean length."""
    actor_learning_rate: PositiveFloat
    """Constant learning rate."""
    adam: AdamSpec = AdamSpec()
    """Optimizer constants."""
    correction: Correction = Correction()
    """Truncated importance sampling."""
    steps_per_rollout: PositiveInt = 1
    """Optimizer steps that one rollout's batch is cut into."""


Algorithm = Annotated[PPO | GRPO, Field(discriminator="kind")]
