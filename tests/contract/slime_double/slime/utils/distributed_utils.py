"""A Gloo group without a time limit of its own, as slime makes it."""

from __future__ import annotations

import torch.distributed as dist

GLOO_GROUP = None


def init_gloo_group():
    global GLOO_GROUP
    if GLOO_GROUP is None:
        GLOO_GROUP = dist.new_group(backend="gloo")
    return GLOO_GROUP


def get_gloo_group():
    assert GLOO_GROUP is not None
    return GLOO_GROUP
