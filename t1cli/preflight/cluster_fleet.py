"""Which nodes a spec's campaign runs on, and asking a cluster's nodes through one short Ray job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from t1cli.errors import T1Error
from t1cli.preflight.check import NOT_A_NODE, Context
from t1cli.preflight.fleet import Answer, Fleet, Later, NoFleet, NoNodes, Probe, ThisMachine

if TYPE_CHECKING:
    from t1cli.cluster.address import ClusterAddress
    from t1cli.cluster.jobs import Jobs
    from t1cli.cluster.node_probes import ClusterSaid

NO_ANSWER = "the cluster did not answer; cluster.ray says why"


def fleet_for(context: Context, probes: Callable[[], Sequence[Probe]]) -> Fleet:
    """This machine for an embedded campaign, the named cluster for one on slime, else nobody.

    `probes` lists what will be asked: a cluster is asked once for all of it.
    """
    if context.runs_here:
        return ThisMachine()
    if address_of(context) is None:
        return NoFleet(NOT_A_NODE)
    return Later(lambda: _gathered(context, probes))


def address_of(context: Context) -> ClusterAddress | None:
    """The cluster that the spec or the environment names. Raises BadInput for an address that is none."""
    from t1cli.cluster.address import cluster_address

    engine = context.spec.engine
    return cluster_address(engine.ray_address, context.environment) if engine.kind == "slime" else None


def jobs_of(context: Context) -> Jobs:
    """The job server of the named cluster, connected once. Raises CouldNotAsk."""
    from t1cli.cluster.jobs import Jobs

    address = address_of(context)
    assert address is not None
    return context.memo.once("cluster.jobs", lambda: Jobs.open(address, call_seconds=10.0))


def cluster_said(context: Context, probes: Callable[[], Sequence[Probe]] = tuple) -> ClusterSaid:
    """Everything that one job on the cluster found out, asked once. Raises NoNodes."""
    return context.memo.once("cluster.said", lambda: _ask(context, probes()))


def _ask(context: Context, probes: Sequence[Probe]) -> ClusterSaid:
    from t1cli.cluster.node_probes import ask_nodes

    requests = {probe.key: {"target": probe.target, "arguments": dict(probe.arguments)} for probe in probes}
    try:
        return ask_nodes(jobs_of(context), requests)
    except T1Error as problem:
        raise NoNodes(NO_ANSWER) from problem


def _gathered(context: Context, probes: Callable[[], Sequence[Probe]]) -> Mapping[str, Mapping[str, Answer]]:
    return {
        node.name: {key: Answer(**said) for key, said in node.answers.items()}
        for node in cluster_said(context, probes).nodes
    }
