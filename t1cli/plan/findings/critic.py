"""C1, C2: a critic that starts cold, or that would overwrite the actor."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding
from t1cli.spec.role_directories import share_files

# A warm critic settled after 2 critic-only steps, a cold one took half a campaign (T1 report).
STEPS_WARM, STEPS_COLD = 2, 10


def cold_critic(draft: Draft) -> Iterator[Finding]:
    """C1: the actor follows a value model that has not learned anything yet."""
    algorithm = draft.spec.algorithm
    if algorithm.kind != "ppo":
        return
    steps, warm_from = algorithm.critic.critic_only_steps, algorithm.critic.warm_from_reward
    is_warm = draft.spec.model.checkpoints.warm_critic is not None or warm_from is not None
    if not is_warm and steps < STEPS_COLD:
        yield draft.finding(
            "C1",
            "warning",
            key="algorithm.critic.critic_only_steps",
            message=f"the critic starts cold and the actor moves after {steps} critic-only steps; cold critics began "
            f"at an explained variance of -33.6 and took half a campaign to pay it back, warm ones began near 0",
            fix="--set model.checkpoints.warm_critic=<a finished critic's directory>, or "
            f"--set algorithm.critic.critic_only_steps={STEPS_COLD} or more",
        )
    elif is_warm and steps < STEPS_WARM:
        other = warm_from if warm_from and warm_from != draft.spec.reward.kind else None
        yield draft.finding(
            "C1",
            "warning",
            key="algorithm.critic.critic_only_steps",
            message=f"the critic is warm-loaded with {steps} critic-only steps; the T1 report used {STEPS_WARM}"
            + (
                f", and this one learned {other}, not {draft.spec.reward.kind}: its values are off scale"
                if other
                else ""
            ),
            fix=f"--set algorithm.critic.critic_only_steps={STEPS_WARM}",
        )


def other_reward_scale(draft: Draft) -> Iterator[Finding]:
    """C1: a warm critic that learned another reward predicts on another scale at first."""
    algorithm = draft.spec.algorithm
    if algorithm.kind != "ppo" or algorithm.critic.critic_only_steps < STEPS_WARM:
        return
    learned, reward = algorithm.critic.warm_from_reward, draft.spec.reward
    if learned is None or learned == reward.kind:
        return
    scale = f" (a solved median task is worth {_median_solve(draft)} there)" if reward.kind == "ctrf_count" else ""
    yield draft.finding(
        "C1",
        "notice",
        key="algorithm.critic.warm_from_reward",
        message=f"the warm critic learned {learned}, this campaign pays {reward.kind}{scale}: "
        f"its {algorithm.critic.critic_only_steps} critic-only steps must move its scale first",
        fix="look at train/explained_variance before the first actor step; more critic_only_steps if it is below 0",
    )


def shared_directory(draft: Draft) -> Iterator[Finding]:
    """C2: both roles write `iter_*` and the tracker file, the critic last; who deletes one deletes the other."""
    checkpoint = draft.spec.checkpoint
    if draft.spec.algorithm.kind != "ppo" or checkpoint.actor_dir is None or checkpoint.critic_dir is None:
        return
    actor, critic = (posixpath.normpath(path) for path in (checkpoint.actor_dir, checkpoint.critic_dir))
    if not share_files(actor, critic):
        return
    yield draft.finding(
        "C2",
        "error",
        key="checkpoint.critic_dir",
        message=f"actor and critic both save to {actor}: the critic saves last, so every saved iteration of the actor "
        "would hold only a value head"
        if actor == critic
        else f"the critic saves to {critic} and the actor to {actor}, one inside the other: whoever copies, moves or "
        "deletes one role's checkpoints takes the other's along",
        fix=f"--set checkpoint.critic_dir={actor}-critic, or leave it out",
    )


def _median_solve(draft: Draft) -> str:
    reward, median = draft.spec.reward, draft.spec.tasks.card.tests_median
    if reward.kind != "ctrf_count" or median is None:
        return "passed / scale"
    return f"{median:g}/{reward.scale:g} = {median / reward.scale:g}"


RULES = (cold_critic, other_reward_scale, shared_directory)
