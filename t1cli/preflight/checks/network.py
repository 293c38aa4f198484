"""network: interfaces, NCCL's environment, ports, and who reaches whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.cluster_fleet import cluster_said
from t1cli.preflight.every_node import AcrossNodes, EveryNode, outliers
from t1cli.preflight.fleet import NoNodes, Probe

_NETWORK = Probe("t1cli.preflight.probes.network:network")
_INTERFACE_VARIABLES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
SLOW = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_IB_DISABLE": "1",
    "NCCL_NET_GDR_DISABLE": "1",
}
"""Settings that somebody once needed on a broken machine, and that cost bandwidth everywhere else."""


def _on_slime(context: Context) -> Probe | Saw:
    return _NETWORK if context.on_slime else skipped("the embedded engine talks over loopback only")


def interfaces(context: Context, found: Any) -> Saw:
    """Interfaces that lead out of the node, and that the ones named in the environment exist."""
    environment = {**found["environment"], **_engine_env(context)}
    named = {name: environment[name] for name in _INTERFACE_VARIABLES if environment.get(name)}
    absent = [f"{name}={value}" for name, value in named.items() if not _exists(value, found["all"])]
    outward = found["outward"]
    said = f"{', '.join(outward) or 'none'} up" + (
        f"; {', '.join(f'{k}={v}' for k, v in named.items())}" if named else ""
    )
    wanted = "one way out, or its name in NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME"
    if absent:
        fix = f"name one of {', '.join(outward) or 'the interfaces of this node'}"
        return failed(f"{', '.join(absent)} names no interface; there are {', '.join(found['all'])}", wanted, fix)
    if (
        context.spec.hardware.num_nodes < 2
        or len(outward) < 2
        or {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"} <= set(named)
    ):
        return passed(said, wanted)
    fix = f"--set engine.env.NCCL_SOCKET_IFNAME={outward[0]} and the same for GLOO_SOCKET_IFNAME"
    return warned(f"{said}: NCCL and Gloo choose one by themselves, each node its own", wanted, fix)


def nccl(context: Context, found: Mapping[str, Any]) -> Saw:
    """NCCL's variables: equal on all nodes, and none that throws bandwidth away."""
    environments = {
        node: {k: v for k, v in said["environment"].items() if k.startswith("NCCL_")} for node, said in found.items()
    }
    apart = outliers(environments)
    if apart:
        node, theirs = next(iter(apart.items()))
        usual = next((env for name, env in environments.items() if name not in apart), {})
        differing = sorted(name for name in {*theirs, *usual} if theirs.get(name) != usual.get(name))
        said = f"{node} differs in {', '.join(f'{name}={theirs.get(name)}' for name in differing)}"
        return failed(said, "the same on every node", "export the same variables before `ray start` on every node")
    merged = {**next(iter(environments.values()), {}), **_engine_env(context)}
    slow = [f"{name}={value}" for name, value in merged.items() if SLOW.get(name) == value]
    if slow:
        return warned(", ".join(slow), "NCCL's own choice of transport", "unset them unless this machine needs them")
    return passed(
        ", ".join(f"{k}={v}" for k, v in merged.items() if k.startswith("NCCL_")) or "nothing set",
        "the same everywhere",
    )


def device_connections(context: Context, found: Any) -> Saw:
    """CUDA_DEVICE_MAX_CONNECTIONS must be 1 for tensor or context parallelism before Blackwell; Megatron asserts it."""
    topology = context.spec.topology
    wanted = "1, as Megatron asserts for tp or cp above 1"
    engine = context.spec.engine
    if topology.tp == 1 and topology.cp == 1:
        return passed("tp and cp are 1", wanted)
    # t1's own launches set it for the job; a script's environment is the script's.
    if engine.kind == "slime" and not engine.from_script:
        return passed("set by t1 for the job", wanted)
    value = {**found["environment"], **_engine_env(context)}.get("CUDA_DEVICE_MAX_CONNECTIONS")
    if value == "1":
        return passed("1", wanted)
    return failed(value or "not set", wanted, "--set 'engine.env.CUDA_DEVICE_MAX_CONNECTIONS=\"1\"'")


def ports(context: Context, found: Any) -> Saw:
    """The ports that the spec fixes are free on the node; slime chooses all others itself."""
    taken = {number: why for number, why in found.items() if why}
    wanted = "ports that slime_args names, free"
    if not taken:
        return passed(f"{', '.join(found)} free", wanted)
    told = ", ".join(f"{number} {why}" for number, why in taken.items())
    return failed(told, wanted, "end what listens there (`ss -ltnp`), or name other ports in slime_args")


def reachable(context: Context) -> Saw:
    """Every node can connect to every other one: a firewall in one direction looks like a hanging NCCL later."""
    if context.runs_here:
        return skipped("one machine")
    try:
        nodes = cluster_said(context).nodes
    except NoNodes as why:
        return skipped(str(why))
    return judge_reach({node.name: dict(node.unreachable) for node in nodes})


def judge_reach(unreachable: dict[str, dict[str, str]]) -> Saw:
    """By node, which others it could not connect to and why."""
    wanted = "connections both ways between all nodes, on any port"
    if len(unreachable) < 2:
        return skipped("one node")
    bad = [
        f"{source} cannot reach {target}: {why}" for source, said in unreachable.items() for target, why in said.items()
    ]
    if not bad:
        count = len(unreachable)
        return passed(f"{count * (count - 1)} connections between {count} nodes", wanted)
    more = f"; and {len(bad) - 3} more" if len(bad) > 3 else ""
    return failed(
        "; ".join(bad[:3]) + more, wanted, "open the nodes' network to each other: NCCL and Ray take ports at random"
    )


def _ports(context: Context) -> Probe | Saw:
    wanted = sorted({value for name, value in context.spec.slime_args.items() if _is_port(name, value)})
    if not wanted:
        return skipped("the spec fixes no port")
    return Probe("t1cli.preflight.probes.network:ports", {"numbers": wanted})


def _is_port(name: str, value: Any) -> bool:
    return name.replace("-", "_").endswith("port") and type(value) is int and 0 < value < 65536


def _engine_env(context: Context) -> dict[str, str]:
    engine = context.spec.engine
    return dict(engine.env) if engine.kind == "slime" else {}


def _exists(value: str, names: list[str]) -> bool:
    """NCCL's own grammar: a list of prefixes, `=` for an exact name, `^` for all but these."""
    if value.startswith("^"):
        return True
    exact, text = value.startswith("="), value.removeprefix("=")
    return any(name == one if exact else name.startswith(one) for one in text.split(",") for name in names)


CHECKS = (
    Check("network.interfaces", (), EveryNode(_on_slime, interfaces)),
    Check("network.nccl", ("C4",), AcrossNodes(_on_slime, nccl)),
    Check("network.device_connections", ("C7",), EveryNode(_on_slime, device_connections)),
    Check("network.ports", (), EveryNode(_ports, ports)),
    Check("network.reachable", ("C4",), reachable),
)
