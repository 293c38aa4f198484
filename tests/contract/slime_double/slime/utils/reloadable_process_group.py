"""Groups that are rebuilt by a remembered `new_group`, without the time limit they were made with."""

from __future__ import annotations

import os

import torch.distributed as dist

old_new_group_dict = {}


def monkey_patch_torch_dist():
    old_new_group_dict[os.getpid()] = dist.old_new_group = dist.new_group


class ReloadableProcessGroup:
    GROUPS = {}  # noqa: RUF012 - slime's own form

    def __init__(self, group, ranks):
        self.group, self.group_info = group, {"ranks": ranks}
        ReloadableProcessGroup.GROUPS.setdefault(os.getpid(), []).append(self)

    @staticmethod
    def reload_process_groups():
        old_new_group = old_new_group_dict[os.getpid()]
        for reloadable_group in ReloadableProcessGroup.GROUPS.get(os.getpid(), []):
            reloadable_group.group = old_new_group(ranks=reloadable_group.group_info["ranks"], backend="nccl")
