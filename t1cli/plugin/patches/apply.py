"""Patches of a trainer process, from slime's Megatron-init hook; what could not be patched is said in the job's log."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from t1cli.plugin.patches.group_timeouts import lengthen_gloo_group, lengthen_later_groups, lengthen_rebuilt_groups
from t1cli.plugin.settings import settings_of

logger = logging.getLogger(__name__)


def patch_trainer(args: Any) -> dict[str, str]:
    """Apply the trainer's patches on every rank; returns what stays unpatched, by name, with the reason."""
    from slime.utils import distributed_utils, reloadable_process_group  # type: ignore[import-not-found]

    trainer = settings_of(args).spec.trainer
    gloo, nccl = timedelta(minutes=trainer.gloo_timeout_minutes), timedelta(minutes=trainer.nccl_timeout_minutes)
    outcomes = {
        "gloo group": lengthen_gloo_group(distributed_utils, gloo),
        "rebuilt NCCL groups": lengthen_rebuilt_groups(reloadable_process_group, nccl),
    }
    lengthen_later_groups(gloo)
    unpatched = {name: problem for name, problem in outcomes.items() if problem}
    for name, problem in unpatched.items():
        logger.warning("C4: %s keep their default time limit: %s", name, problem)
    if not unpatched:
        logger.info("C4: gloo groups wait %s, rebuilt NCCL groups %s", gloo, nccl)
    return unpatched
