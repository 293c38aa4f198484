"""F7: a KL term that fights routing replay."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding


def kl_under_routing_replay(draft: Draft) -> Iterator[Finding]:
    """F7: the reference pass runs with its own routing, so the KL is non-zero even for equal weights."""
    spec = draft.spec
    if not (spec.rollout.routing_replay and spec.model.architecture.num_experts):
        return
    coefficients = {"kl_loss_coef": spec.algorithm.kl_loss_coef}
    if spec.algorithm.kind == "ppo":
        coefficients["kl_reward_coef"] = spec.algorithm.kl_reward_coef
    for name, value in coefficients.items():
        if value > 0:
            yield draft.finding(
                "F7",
                "warning",
                key=f"algorithm.{name}",
                message=f"{name} is {value:g} while routing replay is on: the actor replays the sampler's experts, the "
                f"reference pass chooses its own, so their KL is above 0 even at equal weights and pulls the wrong way",
                fix=f"--set algorithm.{name}=0 (the clip alone constrains the update), or "
                f"--set rollout.routing_replay=false",
            )


RULES = (kl_under_routing_replay,)
