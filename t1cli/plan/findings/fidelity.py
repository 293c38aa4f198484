"""F1, F2, F7, C10: chats that cannot be appended to, a KL term that fights routing replay, two ways of thinking."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding
from t1cli.spec.chat_families import APPEND_ONLY_FAMILIES


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


def chats_rendered_as_a_whole(draft: Draft) -> Iterator[Finding]:
    """F1: without an append-only template the history is tokenised again before each reply."""
    family = draft.spec.model.family
    if draft.on_slime and family not in APPEND_ONLY_FAMILIES:
        yield draft.finding(
            "F1",
            "notice",
            key="model.family",
            message=f"no append-only chat template for family `{family}`: every prompt is rendered and tokenised as a "
            f"whole, and a trial becomes several rows wherever its history comes out in other ids",
            fix=f"families with one: {', '.join(sorted(APPEND_ONLY_FAMILIES))}",
        )


def thinking_differs(draft: Draft) -> Iterator[Finding]:
    """C10: an evaluation with another switch measures another policy than the one that is trained."""
    rollout, evaluation = draft.spec.rollout, draft.spec.evaluation
    if evaluation is not None and evaluation.thinking != rollout.thinking:
        yield draft.finding(
            "C10",
            "notice",
            key="evaluation.thinking",
            message=f"evaluation runs with thinking {evaluation.thinking}, training with thinking {rollout.thinking}",
            fix=f"--set 'evaluation.thinking=\"{rollout.thinking}\"', unless the difference is meant",
        )


def no_gate_before_the_first_step(draft: Draft) -> Iterator[Finding]:
    """F2: where slime takes log-probs from the loss itself, nothing is known of the gap before the first step."""
    rollout = draft.spec.rollout
    if rollout.first_gap_limit is None or not _log_probs_of_the_loss(draft):
        return
    kind = draft.spec.algorithm.correction.kind
    yield draft.finding(
        "T-gate",
        "warning",
        key="rollout.first_gap_limit",
        message=f"a gap above {rollout.first_gap_limit:g} between trainer and sampler stops nothing here: with one "
        f"step per rollout, no critic, no KL and `correction.kind: {kind}` slime has no log-prob pass before it",
        fix="--set algorithm.correction.kind=record (one forward pass more), or --set rollout.first_gap_limit=null",
    )


def _log_probs_of_the_loss(draft: Draft) -> bool:
    """Whether slime leaves the old log-prob pass out (v0.3.0 and v0.3.1, `actor.py:train_actor`)."""
    spec, engine = draft.spec, draft.spec.engine
    algorithm, rollout = spec.algorithm, spec.rollout
    if engine.kind != "slime" or algorithm.kind != "grpo":
        return False
    replays = rollout.routing_replay and spec.model.architecture.num_experts > 0
    keeps_old = rollout.pipeline != "sync" if algorithm.keep_old_actor is None else algorithm.keep_old_actor
    return (
        algorithm.loss == "policy_loss"
        and algorithm.estimator != "gspo"
        and algorithm.steps_per_rollout == 1
        and algorithm.kl_reward_coef == 0
        and algorithm.correction.kind != "record"
        and not keeps_old
        # v0.3.0 makes the pass under replay; later versions replay in the loss.
        and not (replays and engine.version == "0.3.0")
    )


RULES = (kl_under_routing_replay, chats_rendered_as_a_whole, thinking_differs, no_gate_before_the_first_step)
