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

_EXPECTED = "cluster.probes"
NO_ANSWER = "the cluster did not answer; cluster.ray says why"


def fleet_for(context: Context) -> Fleet:
    """This machine for an embedded campaign, the named cluster for one on slime, else nobody."""
    if context.runs_here:
        return ThisMachine()
    if address_of(context) is None:
        return NoFleet(NOT_A_NODE)
    return Later(lambda: _gathered(context))


def expect(context: Context, probes: Callable[[], Sequence[Probe]]) -> None:
    """What will be asked of every node: a cluster is asked once, for all of it, by whichever check comes first."""
    if context.fleet.is_cluster:
        context.memo.once(_EXPECTED, lambda: tuple(probes()))


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
    return context.memo.once("cluster.jobs", lambda: Jobs.open(address))


def cluster_said(context: Context) -> ClusterSaid:
    """Everything that one job on the cluster found out, asked once. Raises NoNodes."""
    return context.memo.once("cluster.said", lambda: _ask(context, context.memo.once(_EXPECTED, tuple)))


def _ask(context: Context, probes: Sequence[Probe]) -> ClusterSaid:
    from t1cli.cluster.node_probes import ask_nodes

    if context.runs_here or address_of(context) is None:
        raise NoNodes(NOT_A_NODE)
    requests = {probe.key: {"target": probe.target, "arguments": dict(probe.arguments)} for probe in probes}
    try:
        return ask_nodes(jobs_of(context), requests)
    except T1Error as problem:
        raise NoNodes(NO_ANSWER) from problem


def _gathered(context: Context) -> Mapping[str, Mapping[str, Answer]]:
    said = cluster_said(context)
    return {node.name: {key: Answer(**answer) for key, answer in node.answers.items()} for node in said.nodes}
