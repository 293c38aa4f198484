"""The same small functions run on every node of a cluster: what each said, whose clock is off, and who reaches whom.

Runs inside a short Ray job, so it works from wherever jobs can be sent. A probe is a dotted `module:function` of this
package with arguments that JSON can carry; it is sent along with the package and changes nothing on the node.
"""

from __future__ import annotations

import importlib
import json
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from t1cli.cluster.jobs import Jobs
from t1cli.cluster.probe import answer_of_job
from t1cli.errors import CouldNotAsk

REQUESTS_FILE: Final = "t1_requests.json"
_ENTRYPOINT: Final = "python3 -m t1cli.cluster.node_probes"
_PROBE_SECONDS: Final = 60.0
_DIAL_SECONDS: Final = 3.0
_PINGS: Final = 3


@dataclass(frozen=True)
class NodeSaid:
    """One node."""

    name: str
    address: str
    is_head: bool
    resources: Mapping[str, float]
    answers: Mapping[str, Mapping[str, Any]]
    """Request key to `{"value": …}` or `{"problem": …}`."""
    clock_offset_seconds: float | None = None
    """Its clock minus the asking driver's."""
    clock_error_seconds: float = 0.0
    """Half the round trip: the offset is known no better."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Other nodes that it could not connect to, with the reason."""


@dataclass(frozen=True)
class ClusterSaid:
    """A cluster at one moment."""

    ray_version: str
    nodes: tuple[NodeSaid, ...]
    available: Mapping[str, float]
    """Resources that nobody holds."""
    open_files: tuple[Mapping[str, Any], ...] = ()
    """`OpenFiles` of raylets, GCS and driver."""

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> ClusterSaid:
        """Back from `asdict`."""
        nodes = tuple(NodeSaid(**node) for node in found["nodes"])
        return cls(found["ray_version"], nodes, found["available"], tuple(found["open_files"]))


def ask_nodes(jobs: Jobs, requests: Mapping[str, Mapping[str, Any]], *, wait_seconds: float = 240.0) -> ClusterSaid:
    """Ask every node. Raises CouldNotAsk when the job does not answer, Refused when the cluster does not take it."""
    with tempfile.TemporaryDirectory(prefix="t1-ask-") as directory:
        (Path(directory) / REQUESTS_FILE).write_text(json.dumps(dict(requests)), encoding="utf-8")
        text = answer_of_job(
            jobs, _ENTRYPOINT, {"working_dir": directory}, {"t1_probe": "nodes"}, wait_seconds=wait_seconds
        )
    return ClusterSaid.from_json(json.loads(text))


def every_node(requests: Mapping[str, Mapping[str, Any]]) -> ClusterSaid:
    """The same from inside a driver that is connected to the cluster."""
    import ray

    from t1cli.cluster.limits import of_every_node

    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    if not nodes:
        raise CouldNotAsk("the cluster has no living node")
    hosts = _Hosts(nodes)
    try:
        answers = hosts.call("run", dict(requests), seconds=_PROBE_SECONDS)
        clocks = {name: hosts.clock(name) for name in hosts.names}
        unreachable = hosts.reach()
    finally:
        hosts.close()
    said = tuple(
        NodeSaid(
            name,
            node["NodeManagerAddress"],
            "node:__internal_head__" in node["Resources"],
            {key: value for key, value in node["Resources"].items() if not key.startswith("node:")},
            answers[name] if isinstance(answers[name], dict) else _silent(requests, answers[name]),
            *clocks[name],
            unreachable.get(name, {}),
        )
        for name, node in zip(hosts.names, nodes, strict=True)
    )
    limits = tuple(found.to_json() for found in of_every_node())
    free: Mapping[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
    return ClusterSaid(ray.__version__, said, free, limits)


def clock_offset(now: Callable[[], float]) -> tuple[float, float]:
    """What another clock shows minus ours, and half the round trip, in seconds: the quickest of a few."""
    asked: list[tuple[float, float]] = []
    for _ in range(_PINGS):
        before = time.time()
        there = now()
        after = time.time()
        asked.append(((after - before) / 2, there - (before + after) / 2))
    error, offset = min(asked)
    return offset, error


def node_names(nodes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Host names; with the address, and then the node's id, where one host name stands for several nodes."""
    hosts = Counter(node["NodeManagerHostname"] for node in nodes)
    pairs = Counter((node["NodeManagerHostname"], node["NodeManagerAddress"]) for node in nodes)
    return tuple(_name(node, hosts, pairs) for node in nodes)


def _name(node: Mapping[str, Any], hosts: Counter[str], pairs: Counter[tuple[str, str]]) -> str:
    host, address = node["NodeManagerHostname"], node["NodeManagerAddress"]
    if hosts[host] == 1:
        return str(host)
    return f"{host} ({address})" if pairs[host, address] == 1 else f"{host} ({node['NodeID'][:8]})"


class _Hosts:
    """One actor on every node."""

    def __init__(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        remote: Any = ray.remote(NodeHost)
        self.names = node_names(nodes)
        self._addresses = {name: node["NodeManagerAddress"] for name, node in zip(self.names, nodes, strict=True)}
        self._handles = {
            name: remote.options(
                num_cpus=0,
                max_restarts=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False),
            ).remote()
            for name, node in zip(self.names, nodes, strict=True)
        }

    def call(self, method: str, *arguments: object, seconds: float) -> dict[str, Any]:
        """Every node's answer, or a text that says why there is none."""
        import ray

        asked = {name: getattr(handle, method).remote(*arguments) for name, handle in self._handles.items()}
        ray.wait(list(asked.values()), num_returns=len(asked), timeout=seconds)
        return {name: self._got(reference, seconds) for name, reference in asked.items()}

    def clock(self, name: str) -> tuple[float | None, float]:
        """Offset of a node's clock and how well it is known; none for a node that does not say."""
        import ray

        try:
            return clock_offset(lambda: float(ray.get(self._handles[name].now.remote(), timeout=10)))
        except ray.exceptions.RayError:
            return None, 0.0

    def reach(self) -> dict[str, dict[str, str]]:
        """Who could not connect to whom: every node listens for a moment, and every other one calls."""
        if len(self.names) < 2:
            return {}
        ports = self.call("listen", seconds=10)
        open_ports = {name: port for name, port in ports.items() if isinstance(port, int)}
        targets = {name: [self._addresses[name], port] for name, port in open_ports.items()}
        found = self.call("dial", targets, seconds=10 + _DIAL_SECONDS * len(targets))
        self.call("stop_listening", seconds=10)
        dialled = {name: said for name, said in found.items() if isinstance(said, dict)}
        return {name: {to: why for to, why in said.items() if why and to != name} for name, said in dialled.items()}

    def close(self) -> None:
        """End the actors."""
        import ray

        for handle in self._handles.values():
            ray.kill(handle)

    def _got(self, reference: Any, seconds: float) -> Any:
        import ray

        try:
            return ray.get(reference, timeout=0.1)
        except ray.exceptions.GetTimeoutError:
            return f"no answer within {seconds:g} s"
        except ray.exceptions.RayError as failure:
            return f"{type(failure).__name__}: {str(failure).strip().splitlines()[-1]}"


class NodeHost:
    """What runs on a node."""

    def __init__(self) -> None:
        self._listening: socket.socket | None = None

    def run(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Every probe's value or problem."""
        return {key: _probed(request) for key, request in requests.items()}

    def now(self) -> float:
        """This node's clock."""
        return time.time()

    def listen(self) -> int:
        """Accept connections on a free port for a moment; returns the port."""
        self._listening = socket.create_server(("", 0), backlog=256)
        return int(self._listening.getsockname()[1])

    def dial(self, targets: Mapping[str, Sequence[Any]]) -> dict[str, str]:
        """Connect to each address and port; an empty text where it worked."""
        return {name: _dialled(str(address), int(port)) for name, (address, port) in targets.items()}

    def stop_listening(self) -> None:
        """Close the port."""
        if self._listening is not None:
            self._listening.close()


def _probed(request: Mapping[str, Any]) -> dict[str, Any]:
    module, _, name = str(request["target"]).partition(":")
    try:
        value = getattr(importlib.import_module(module), name)(**request["arguments"])
        return {"value": json.loads(json.dumps(value))}
    except Exception as broken:  # the boundary of a probe: the others are still asked
        return {"problem": f"{type(broken).__name__}: {broken}"}


def _dialled(address: str, port: int) -> str:
    try:
        socket.create_connection((address, port), timeout=_DIAL_SECONDS).close()
    except OSError as error:
        return f"{address}: {error.strerror or error}"
    return ""


def _silent(requests: Mapping[str, Any], problem: object) -> dict[str, dict[str, Any]]:
    return {key: {"problem": str(problem)} for key in requests}


def main() -> None:
    """Inside the job."""
    import ray

    # Not from this module as it runs: workers must find the class of the actors under its real name.
    from t1cli.cluster.node_probes import every_node
    from t1cli.cluster.probe import MARK

    requests = json.loads(Path(REQUESTS_FILE).read_text(encoding="utf-8"))
    ray.init(log_to_driver=False)
    print(MARK + json.dumps(asdict(every_node(requests))), flush=True)


if __name__ == "__main__":
    main()
