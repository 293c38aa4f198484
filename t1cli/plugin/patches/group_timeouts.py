"""Time limits of process groups that slime makes without one (catalogue C4).

slime's own Gloo group gets torch's 30 minutes whatever `--distributed-timeout-minutes` says, and the NCCL groups that
it rebuilds after every sleep get NCCL's default. A rank that waits longer for a straggler (a slow save, a cold kernel
compile) fails the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from t1cli.plugin.patches.shape import GLOO_GROUP, RELOADED_GROUPS, mismatch, plain_signature

NewGroup = Callable[..., Any]


def lengthen_gloo_group(module: Any, timeout: timedelta) -> str:
    """Replace slime's Gloo group by one with this limit; returns why not, or nothing.

    Every rank must call it at the same point: making a group is collective. `module` is slime.utils.distributed_utils.
    """
    import torch.distributed as dist

    problem = mismatch(module, GLOO_GROUP)
    if problem:
        return problem
    # The raw function, where slime has wrapped it: this group must not be among those that are rebuilt.
    new_group: NewGroup = getattr(dist, "old_new_group", dist.new_group)
    module.GLOO_GROUP = new_group(backend="gloo", timeout=timeout)
    return ""


def lengthen_later_groups(timeout: timedelta) -> None:
    """Give every further Gloo group that names no limit this one; slime makes some for its weight push."""
    import torch.distributed as dist

    dist.new_group = with_default_timeout(dist.new_group, timeout, backend="gloo")


def lengthen_rebuilt_groups(module: Any, timeout: timedelta) -> str:
    """Let rebuilt NCCL groups have this limit; returns why not, or nothing.

    `module` is slime.utils.reloadable_process_group, whose reload calls the `new_group` that it remembered for this
    process.
    """
    import torch.distributed as dist

    if "creation_kwargs" in plain_signature(module.ReloadableProcessGroup.__init__):
        # slime v0.3.1 rebuilds a group with the arguments that it was made with, its limit among them.
        return ""
    problem = mismatch(module, RELOADED_GROUPS)
    if problem:
        return problem
    remembered = module.old_new_group_dict
    former = remembered.get(os.getpid())
    if former is None:
        return "slime has not wrapped torch.distributed in this process"
    # slime asserts that both names mean the same function.
    wrapped = with_default_timeout(former, timeout, backend="nccl")
    remembered[os.getpid()] = wrapped
    setattr(dist, "old_new_group", wrapped)  # noqa: B010 - torch does not know the name, slime adds it
    return ""


def with_default_timeout(new_group: NewGroup, timeout: timedelta, *, backend: str) -> NewGroup:
    """`new_group(ranks, timeout, backend, …)` with a limit where the caller gives none and asks for this backend."""

    @wraps(new_group)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        asked = args[2] if len(args) > 2 else kwargs.get("backend")
        given = (args[1] if len(args) > 1 else None) or kwargs.get("timeout")
        if asked == backend and given is None and len(args) < 2:
            kwargs["timeout"] = timeout
        return new_group(*args, **kwargs)

    return wrapped
