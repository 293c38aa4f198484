"""Where a session of a campaign begins: afresh, at a checkpoint of both roles, or with a trained critic alone.

slime decides between fresh and resumed once, from the base `--load`, for both roles (v0.3.0,
`utils/arguments.py:slime_validate_args`); what follows for each role is written down here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class StartPoint:
    """Decided from what lies in the role directories."""

    kind: Literal["fresh", "resume", "critic_only"] = "fresh"
    """`critic_only`: the run died before the actor's first save; slime restarts at rollout 0, the critic goes on."""
    rollout: int | None = None
    """Newest rollout that every role has saved whole; None unless resumed."""
    actor_step: int | None = None
    """`ckpt_step` of the actor where its tracker points elsewhere; None where the tracker is right."""
    critic_step: int | None = None
    """The same of the critic."""
    weights_only: bool = False
    """The checkpoints hold neither optimizer nor random state (C8)."""


def base_arguments(start: StartPoint, *, actor_dir: str) -> dict[str, Any]:
    """Flags of the base namespace that follow from the start point. A fresh start's `--load` is the caller's."""
    if start.kind != "resume":
        return {}
    flags: dict[str, Any] = {"--load": actor_dir}
    if start.weights_only:
        flags |= {"--no-load-optim": True, "--no-load-rng": True}
    else:
        # Megatron refuses a schedule that differs from the saved one, and `rollout.num_rollouts` may grow.
        flags["--override-opt_param-scheduler"] = True
    return flags


def role_overrides(start: StartPoint, *, critic_dir: str) -> dict[str, dict[str, Any]]:
    """Overrides by role that follow from the start point; a fresh critic must not name its still empty directory."""
    actor: dict[str, Any] = {}
    critic: dict[str, Any] = {}
    if start.kind == "resume":
        critic["load"] = critic_dir
    if start.kind == "critic_only":
        # Inherited from the base decision for a fresh start, which would reset the critic's iteration and optimizer.
        critic |= {"load": critic_dir, "finetune": False}
        critic |= {"no_load_optim": start.weights_only, "no_load_rng": start.weights_only}
        critic["override_opt_param_scheduler"] = not start.weights_only
    if start.actor_step is not None:
        actor["ckpt_step"] = start.actor_step
    if start.critic_step is not None:
        critic["ckpt_step"] = start.critic_step
    return {"actor": actor, "critic": critic}
