"""Between rollouts: seal what was saved since, and delete what retention no longer wants."""

from __future__ import annotations

import logging
from pathlib import Path

from t1cli.plugin.checkpoints.guard import owner_of
from t1cli.plugin.checkpoints.retention import finish_deletions, prune, rollouts_to_keep
from t1cli.plugin.checkpoints.scores import score_name, scores
from t1cli.plugin.settings import Settings
from t1cli.run.checkpoint_manifest import problem_of, saved_rollouts, seal_finished
from t1cli.run.pins import pinned

logger = logging.getLogger(__name__)


def keep(settings: Settings) -> tuple[int, ...]:
    """Seal and prune; returns the rollouts whose checkpoints were deleted. A full disk or a lost mount is logged."""
    try:
        return _keep(settings)
    except OSError as problem:
        # The boundary of this room inside a rollout: losing a rollout of 512 trials over it would cost more.
        logger.warning("checkpoints were neither sealed nor pruned: %s", problem)
        return ()


def _keep(settings: Settings) -> tuple[int, ...]:
    roles = _roles(settings)
    finish_deletions(list(roles.values()))
    for role, directory in roles.items():
        for rollout in seal_finished(directory, owner_of(settings, role)):
            logger.info("sealed the %s's checkpoint of rollout %d in %s", role, rollout, directory)
    whole = whole_rollouts(settings)
    retention = settings.spec.checkpoint.retention
    kept = rollouts_to_keep(
        whole,
        scores(settings.actor_dir, score_name(settings.spec)),
        keep_latest=retention.keep_latest,
        keep_best=retention.keep_best,
        pinned=pinned(roles.values()),
    )
    gone = prune(list(roles.values()), whole, kept)
    if gone:
        logger.info("deleted the checkpoints of rollouts %s", ", ".join(map(str, gone)))
    return gone


def whole_rollouts(settings: Settings) -> frozenset[int]:
    """Rollouts of which every role has a whole checkpoint of this campaign."""
    found = [
        {r for r in saved_rollouts(directory) if not problem_of(directory, r, owner_of(settings, role))}
        for role, directory in _roles(settings).items()
    ]
    return frozenset(set.intersection(*found))


def _roles(settings: Settings) -> dict[str, Path]:
    roles = {"actor": settings.actor_dir}
    if settings.critic_dir is not None:
        roles["critic"] = settings.critic_dir
    return roles
