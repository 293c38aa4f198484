"""cluster: the Ray cluster and its GPUs; skipped, saying so, when the campaign runs on this machine."""

from __future__ import annotations

import os

from t1cli.preflight.check import Check, Context, Saw, skipped

NOT_YET = "cluster probes are not part of this version; they run on the cluster's nodes once it is named"


def ray(context: Context) -> Saw:
    """A named cluster is reachable and has the resources of the topology."""
    if context.spec.engine.kind == "embedded":
        return skipped("engine.kind is embedded: the campaign starts a private Ray on this machine")
    address = context.spec.engine.ray_address or os.environ.get("RAY_ADDRESS")
    if not address:
        return skipped("no cluster named: set engine.ray_address or RAY_ADDRESS")
    return skipped(NOT_YET)


def gpus(context: Context) -> Saw:
    """GPU count, kind and free memory on every node."""
    if context.spec.hardware.gpus_per_node == 0:
        return skipped("hardware.gpus_per_node is 0")
    return skipped("no cluster named: GPUs are probed on its nodes")


CHECKS = (
    Check("cluster.ray", ("S8",), ray),
    Check("cluster.gpus", (), gpus),
)
