"""filter: the function that drops groups, imported where rollouts are put together."""

from __future__ import annotations

from typing import Any

from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped
from t1cli.preflight.every_node import EveryNode
from t1cli.preflight.fleet import Probe


def importable(context: Context, found: Any) -> Saw:
    """The function that `rollout.dynamic_filter` names can be imported on every node."""
    wanted = "a function of slime's arguments and a group's samples"
    if found["problem"]:
        fix = "install its package on the nodes, or use t1cli.terminal.rollout.group_filter.rewards_differ"
        return failed(found["problem"], wanted, found["hint"] or fix)
    return passed(f"{context.spec.rollout.dynamic_filter}", wanted)


def _probe(context: Context) -> Probe | Saw:
    path, engine = context.spec.rollout.dynamic_filter, context.spec.engine
    if path is None:
        return skipped("no group is filtered (rollout.dynamic_filter is null)")
    paths: tuple[str | None, ...] = ()
    if engine.kind == "slime":
        paths = (engine.slime_dir, engine.megatron_dir, engine.t1_dir)
    return Probe(
        "t1cli.preflight.probes.own_code:group_filter", {"path": path, "paths": [place for place in paths if place]}
    )


CHECKS = (Check("filter.importable", (), EveryNode(_probe, importable), limit_seconds=60.0),)
