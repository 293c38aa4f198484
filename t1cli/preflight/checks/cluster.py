"""cluster: the Ray cluster that a campaign on slime is sent to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t1cli.errors import T1Error
from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.cluster_fleet import address_of, cluster_said, jobs_of
from t1cli.preflight.every_node import EveryNode
from t1cli.preflight.fleet import NoNodes, Probe

NO_CLUSTER = "no cluster named: set engine.ray_address or RAY_ADDRESS"


def ray(context: Context) -> Saw:
    """A named cluster answers, and takes this client's way of proving who it is."""
    if not context.on_slime:
        return skipped("engine.kind is embedded: the campaign starts a private Ray on this machine")
    address = address_of(context)
    if address is None:
        return skipped(NO_CLUSTER)
    from t1cli.cluster.address import auth_mode

    wanted = "a Ray job server that answers"
    try:
        jobs_of(context).living({})
    except T1Error as problem:
        first = problem.diagnostics[0]
        return failed(
            f"{address.text} ({address.source}): {first.message}", wanted, first.hint or "look at its head node"
        )
    return passed(f"{address.text} ({address.source}), authentication {auth_mode()}", wanted)


def occupied(context: Context) -> Saw:
    """No other campaign's job runs on the cluster."""
    from t1cli.cluster.jobs import JobState

    jobs: Sequence[JobState] = [job for job in jobs_of(context).living({}) if "t1_probe" not in job.metadata]
    if not jobs:
        return passed("no other job", "a free cluster")
    first = jobs[0]
    whose = first.metadata.get("t1_campaign", "not one of t1")
    said = f"{len(jobs)} job{'s' if len(jobs) > 1 else ''} live, first {first.job_id} ({whose}, {first.status})"
    ours = whose == context.spec.name
    end = context.again("launch", "--stop") if ours else f"ray job stop {first.job_id}"
    return warned(said, "a free cluster", f"wait for it, or end it: `{end}`")


def resources(context: Context) -> Saw:
    """Living nodes and free GPUs against the topology."""
    try:
        said = cluster_said(context)
    except NoNodes as why:
        return failed(str(why), "an answer of every node", "`ray status` on the head; the job's log says more")
    hardware, topology = context.spec.hardware, context.spec.topology
    train = topology.train_nodes * (topology.train_gpus_per_node or hardware.gpus_per_node)
    needed = train if topology.colocated else train + topology.rollout_gpus
    total = sum(node.resources.get("GPU", 0) for node in said.nodes)
    free = said.available.get("GPU", 0)
    found = f"{len(said.nodes)} nodes, {free:g} of {total:g} GPUs free, ray {said.ray_version}"
    wanted = f"{hardware.num_nodes} nodes, {needed} GPUs free"
    if len(said.nodes) < hardware.num_nodes or total < needed:
        return failed(found, wanted, "start Ray on the missing nodes (`ray start --address=HEAD:6379 --num-gpus N`)")
    if free < needed:
        return failed(found, wanted, "end the job that holds them; cluster.occupied names it")
    return passed(found, wanted)


def open_files(context: Context) -> Saw:
    """Limits of the raylets, the GCS and the driver as they run: a new shell's limit does not change theirs."""
    from t1cli.cluster.limits import OpenFiles, how_to_raise, needed_open_files, too_low

    try:
        found = [OpenFiles(**one) for one in cluster_said(context).open_files]
    except NoNodes as why:
        return skipped(str(why))
    trials = context.plan.pool.demand
    wanted = f"{needed_open_files(trials)} for {trials} trials"
    low = too_low(found, trials)
    if not low:
        return passed(f"{len(found)} processes, least {min((one.soft for one in found), default=0)}", wanted)
    told = ", ".join(f"the {one.process} of {one.node} may open {one.soft}" for one in low[:3])
    return failed(told, wanted, how_to_raise(low[0], trials))


def plugin(context: Context, found: Any) -> Saw:
    """What slime loads of t1 can be imported on every node."""
    wanted = "t1cli and what it imports, on every node"
    missing = [name for name, there in found.items() if not there]
    if not missing:
        return passed(", ".join(found) + " found", wanted)
    fix = "install t1cli in the nodes' image, or --set engine.t1_dir=DIRECTORY of a checkout on every node"
    if {"slime", "megatron"} & set(missing):
        fix = "correct engine.slime_dir and engine.megatron_dir, or use slime's image"
    return failed(f"{', '.join(missing)} cannot be found", wanted, fix)


def _plugin(context: Context) -> Probe | Saw:
    engine = context.spec.engine
    if engine.kind != "slime":
        return skipped("the embedded engine is t1 itself")
    paths = [engine.slime_dir, engine.megatron_dir, *([engine.t1_dir] if engine.t1_dir else [])]
    names = ["t1cli", "pydantic", "omegaconf", "yaml", "httpx", "slime", "megatron"]
    return Probe("t1cli.preflight.probes.packages:modules", {"names": names, "paths": paths})


def trial_nodes(context: Context) -> Saw:
    """Nodes whose trial workers carry the trials: with one node alone all of them go through the coordinator."""
    try:
        nodes = cluster_said(context).nodes
    except NoNodes as why:
        return skipped(str(why))
    # Workers are pinned to the nodes that have engines; without rollout GPUs apart those are the training nodes.
    with_gpus = [node for node in nodes if node.resources.get("GPU", 0) > 0]
    carrying = [node for node in with_gpus if not node.is_head] or with_gpus or list(nodes)
    each = -(-context.plan.pool.demand // max(1, len(carrying)))
    said = f"{context.plan.pool.demand} trials over {len(carrying)} nodes: {each} each"
    wanted = "no more than 320 on one node, where a head's raylet once ran out of descriptors"
    if each <= 320:
        return passed(said, wanted)
    return warned(said, wanted, "more rollout nodes, or a smaller rollout.over_sampling_batch_size")


def gpus_of_an_engine(context: Context) -> Saw:
    """Each inference engine fits the GPUs of the nodes that it may be placed on."""
    try:
        nodes = cluster_said(context).nodes
    except NoNodes as why:
        return skipped(str(why))
    needed = min(context.spec.topology.gpus_per_engine, context.spec.hardware.gpus_per_node)
    small = [
        f"{node.name} {node.resources.get('GPU', 0):g}" for node in nodes if 0 < node.resources.get("GPU", 0) < needed
    ]
    wanted = f"{needed} GPUs on every node with any"
    if small:
        return warned(
            ", ".join(small),
            wanted,
            "an engine placed there would span nodes: leave them out, or lower gpus_per_engine",
        )
    return passed(f"every node with GPUs has {needed} or more", wanted)


def token(context: Context) -> Saw:
    """Where Ray's token is kept, nobody else may read it."""
    path = Path(context.environment.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    try:
        mode = path.stat().st_mode
    except OSError:
        return skipped("no token file")
    if mode & 0o077 and os.name == "posix":
        return warned(f"{path} has mode {mode & 0o777:o}", "mode 600", f"chmod 600 {path}")
    return passed(f"{path} has mode {mode & 0o777:o}", "mode 600")


_RAY = ("cluster.ray",)

CHECKS = (
    Check("cluster.ray", ("S8",), ray, limit_seconds=40.0),
    Check("cluster.resources", (), resources, needs=_RAY),
    Check("cluster.occupied", (), occupied, limit_seconds=40.0, needs=_RAY),
    Check("cluster.open_files", ("S8",), open_files, needs=_RAY),
    Check("cluster.plugin", ("C7",), EveryNode(_plugin, plugin)),
    Check("cluster.trial_nodes", ("S10",), trial_nodes, needs=_RAY),
    Check("cluster.engines", (), gpus_of_an_engine, needs=_RAY),
    Check("cluster.token", (), token),
)
