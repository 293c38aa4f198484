"""gpus and network: what drivers of real machines say, recorded, and what it means; a really busy port."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from t1cli.preflight.checks.network import judge_reach
from t1cli.preflight.probes import gpus as gpu_probe
from t1cli.preflight.probes.gpus import nvlink_pairs
from t1cli.preflight.probes.network import network, ports
from t1cli.preflight.probes.programs import Said
from tests.unit.preflight.conftest import Ask, MakeContext, nodes, one

GPUS = "t1cli.preflight.probes.gpus:gpus"
NETWORK = "t1cli.preflight.probes.network:network"
PORTS = "t1cli.preflight.probes.network:ports"
SOFTWARE = "t1cli.preflight.probes.gpu_software:gpu_software"
GRPO, T1 = "qwen3-8b-grpo", "t1-strategy15k"

# As `nvidia-smi` of a driver 560 prints it for two H200.
QUERY = """0, NVIDIA H200, 143771, 4, 560.35.03, 0, No, No, Disabled
1, NVIDIA H200, 143771, 4, 560.35.03, 0, No, No, Disabled
"""
BANNER = "| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |\n"
TOPOLOGY = """\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tSYS\t0-47\t0
GPU1\tNV18\t X \tSYS\t0-47\t0
NIC0\tSYS\tSYS\t X

Legend:
"""


def gpu(index: int, **other: Any) -> dict[str, Any]:
    return {
        "index": index,
        "name": "NVIDIA H200",
        "total_mib": 143771.0,
        "used_mib": 4.0,
        "driver": "560.35.03",
        "uncorrected": 0.0,
        "remap_pending": False,
        "remap_failed": False,
        "mig": False,
        **other,
    }


def node(count: int = 8, **other: Any) -> dict[str, Any]:
    pairs = [[a, b] for a in range(count) for b in range(a + 1, count)]
    said = {"problem": "", "gpus": [gpu(n) for n in range(count)], "cuda": "12.9", "processes": [], "xids": []}
    return {**said, "nvlink_pairs": pairs, **other}


def test_what_nvidia_smi_prints_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"--query-gpu": QUERY, "topo": TOPOLOGY, "--query-compute-apps": "4711, /usr/bin/python3, 1024\n"}

    def answer(command: list[str], *, seconds: float = 10.0) -> Said:
        return Said(next((text for part, text in answers.items() if any(part in word for word in command)), BANNER))

    monkeypatch.setattr(gpu_probe, "ask_program", answer)
    monkeypatch.setattr(
        gpu_probe,
        "kernel_log",
        lambda _: [{"ago_seconds": 60, "text": "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."}],
    )
    found = gpu_probe.gpus()
    assert found["gpus"] == [gpu(0), gpu(1)] and found["cuda"] == "12.6" and found["nvlink_pairs"] == [[0, 1]]
    assert found["processes"] == [{"pid": 4711, "name": "python3", "used_mib": 1024.0}]
    assert found["xids"] == [{"ago_seconds": 60, "gpu": "PCI:0000:3b:00", "number": 79}]
    assert nvlink_pairs("") == []


def test_a_machine_without_a_driver_is_a_problem_not_a_crash(context_of: MakeContext, ask: Ask) -> None:
    said = {"problem": "no nvidia-smi on PATH"}
    saw = ask("gpus.present", context_of(GRPO, fleet=one(GPUS, said)))
    assert saw.status == "fail" and saw.found == "no nvidia-smi on PATH"
    assert ask("gpus.memory", context_of(GRPO, fleet=one(GPUS, said))).status == "skipped"
    assert ask("gpus.present", context_of("quickstart", fleet=one(GPUS, said))).status == "skipped"


@pytest.mark.catalogue("M1")
@pytest.mark.parametrize(
    ("check", "bad", "words"),
    [
        ("gpus.present", node(7), "7 x NVIDIA H200"),
        ("gpus.present", node(8, gpus=[gpu(0, mig=True)]), "split (MIG)"),
        ("gpus.memory", node(8, gpus=[gpu(n, total_mib=81559.0) for n in range(8)]), "79.6 GiB a GPU"),
        ("gpus.memory", node(8, gpus=[gpu(n, used_mib=135000.0 * (n == 3)) for n in range(8)]), "(GPU 3)"),
        ("gpus.health", node(8, gpus=[gpu(0, uncorrected=2.0)]), "GPU 0: 2.0 uncorrected ECC errors"),
        ("gpus.health", node(8, gpus=[gpu(0, remap_pending=True)]), "rows wait to be remapped"),
        ("gpus.health", node(8, xids=[{"ago_seconds": 60, "gpu": "PCI:1", "number": 79}]), "fallen off the bus"),
        ("gpus.processes", node(8, processes=[{"pid": 9, "name": "python", "used_mib": 5.0}]), "python (pid 9, 5 MiB)"),
        ("gpus.processes", node(8, gpus=[gpu(0, used_mib=60000.0)]), "does not see"),
    ],
)
def test_one_bad_node_of_two_is_named(
    context_of: MakeContext, ask: Ask, check: str, bad: dict[str, Any], words: str
) -> None:
    saw = ask(check, context_of(GRPO, fleet=nodes(GPUS, node(), bad)))
    assert saw.status == "fail" and saw.found.startswith("node-1: ") and words in saw.found, saw
    assert ask(check, context_of(GRPO, fleet=nodes(GPUS, node(), node()))).status == "pass"


def test_programs_xids_and_old_ones_are_not_held_against_a_gpu(context_of: MakeContext, ask: Ask) -> None:
    harmless = [{"ago_seconds": 60, "gpu": "PCI:1", "number": 31}, {"ago_seconds": 10**6, "gpu": "PCI:1", "number": 79}]
    assert ask("gpus.health", context_of(GRPO, fleet=one(GPUS, node(xids=harmless)))).status == "pass"


def test_drivers_toolkits_and_nvlink(context_of: MakeContext, ask: Ask) -> None:
    other = node(8, gpus=[gpu(n, driver="550.1") for n in range(8)])
    saw = ask("gpus.driver", context_of(GRPO, fleet=nodes(GPUS, node(), other, node())))
    assert saw.status == "warn" and saw.found == "node-1 has 550.1; the others 560.35.03"
    old = {"gpus": node(cuda="11.8"), "torch": "12.9"}
    assert ask("gpus.toolkit", context_of(GRPO, fleet=one(SOFTWARE, old))).status == "fail"
    assert ask("gpus.toolkit", context_of(GRPO, fleet=one(SOFTWARE, {**old, "gpus": node()}))).status == "pass"
    lacking = node(8, nvlink_pairs=[[0, 1]])
    assert ask("gpus.nvlink", context_of(GRPO, fleet=one(GPUS, lacking))).found == "1 of 28 pairs"


def spoken(**environment: str) -> dict[str, Any]:
    return {"all": ["eth0", "ib0", "lo"], "outward": ["eth0", "ib0"], "infiniband": [], "environment": environment}


def test_interfaces_are_named_or_chosen(context_of: MakeContext, ask: Ask) -> None:
    saw = ask("network.interfaces", context_of(T1, fleet=one(NETWORK, spoken(NCCL_SOCKET_IFNAME="bond0"))))
    assert saw.status == "fail" and "NCCL_SOCKET_IFNAME=bond0 names no interface" in saw.found
    assert ask("network.interfaces", context_of(T1, fleet=one(NETWORK, spoken()))).status == "warn"
    named = spoken(NCCL_SOCKET_IFNAME="=ib0", GLOO_SOCKET_IFNAME="eth")
    assert ask("network.interfaces", context_of(T1, fleet=one(NETWORK, named))).status == "pass"
    assert network()["all"], "this machine has a loopback at least"


@pytest.mark.catalogue("C4")
def test_nccls_variables_are_equal_everywhere(context_of: MakeContext, ask: Ask) -> None:
    fleet = nodes(NETWORK, spoken(NCCL_DEBUG="INFO"), spoken(), spoken())
    saw = ask("network.nccl", context_of(T1, fleet=fleet))
    assert saw.status == "fail" and saw.found == "node-0 differs in NCCL_DEBUG=INFO"
    slow = nodes(NETWORK, *[spoken(NCCL_P2P_DISABLE="1")] * 2)
    assert ask("network.nccl", context_of(T1, fleet=slow)).status == "warn"
    assert ask("network.nccl", context_of(T1, fleet=nodes(NETWORK, spoken(), spoken()))).status == "pass"


def test_a_really_busy_port(context_of: MakeContext, ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        assert ports([port])[str(port)] == "in use"
        context = context_of(GRPO, f"slime_args.sglang_router_port={port}")
        saw = ask("network.ports", context)
        assert saw.status == "fail" and saw.found == f"{port} in use"
    assert ask("network.ports", context).status == "pass"
    assert ask("network.ports", context_of(GRPO)).status == "skipped"


@pytest.mark.catalogue("C4")
def test_a_firewall_in_one_direction_is_named() -> None:
    saw = judge_reach({"a": {}, "b": {"a": "10.0.0.1: timed out"}, "c": {}})
    assert saw.status == "fail" and saw.found == "b cannot reach a: 10.0.0.1: timed out"
    assert judge_reach({"a": {}, "b": {}}).status == "pass"


@pytest.mark.catalogue("C7")
def test_device_connections_of_a_script_are_the_scripts(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    context = context_of(T1, fleet=one(NETWORK, spoken()))
    assert ask("network.device_connections", context).found == "set by t1 for the job"
    from_script = context_of(T1, "engine.from_script=true", fleet=one(NETWORK, spoken()))
    assert ask("network.device_connections", from_script).status == "fail"
