"""host: limits, memory, control groups, kills and clocks; real conditions where a child or a file can be one."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from t1cli.cluster.node_probes import clock_offset
from t1cli.preflight.checks.memory import judge_clocks
from t1cli.preflight.probes.cgroup import own_limits
from t1cli.preflight.probes.kernel_log import kernel_log
from t1cli.preflight.probes.limits import limits
from t1cli.preflight.probes.memory import kills, memory
from tests.unit.preflight.conftest import Ask, MakeContext, nodes, one

LIMITS = "t1cli.preflight.probes.limits:limits"
MEMORY = "t1cli.preflight.probes.memory:memory"
KILLS = "t1cli.preflight.probes.memory:kills"
GIB = 1024**3
T1 = "t1-strategy15k"


def limits_of_a_child(which: int, soft: int, hard: int) -> dict[str, Any]:
    """The probe's answer in a process that really has these limits."""
    program = f"import json; from {LIMITS.split(':')[0]} import limits; print(json.dumps(limits()))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(which, (soft, hard)),
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.catalogue("S8")
def test_a_really_low_ulimit_is_told_with_the_formula(context_of: MakeContext, ask: Ask) -> None:
    said = limits_of_a_child(resource.RLIMIT_NOFILE, 256, 512)
    assert said["open_files"] == [256, 512]
    saw = ask("host.file_descriptors", context_of("quickstart", fleet=one(LIMITS, said)))
    assert saw.status == "fail" and "soft limit 256, hard limit 512" in saw.found
    assert saw.wanted == "at least 512 + 6 x 60 trials = 872"
    assert "LimitNOFILE" in saw.fix
    raisable = {**said, "open_files": [256, 4096]}
    saw = ask("host.file_descriptors", context_of("quickstart", fleet=one(LIMITS, raisable)))
    assert saw.fix == "run `ulimit -n 872` in the shell that starts t1"


@pytest.mark.catalogue("S8")
def test_the_node_with_another_ulimit_is_named(context_of: MakeContext, ask: Ask) -> None:
    """560 trials of the T1 report need 512 + 16 × 560 descriptors."""
    good, bad = limits() | {"open_files": [65536, 65536]}, limits() | {"open_files": [1024, 65536]}
    saw = ask("host.file_descriptors", context_of(T1, fleet=nodes(LIMITS, good, bad, good)))
    assert saw.status == "fail"
    assert saw.found.startswith("node-1: soft limit 1024, hard limit 65536; the other 2: soft limit 65536")
    assert saw.fix.startswith("on node-1: run `ulimit -n 9472`")
    assert [node.status for node in saw.nodes] == ["pass", "fail", "pass"]


def test_processes_name_the_tightest_limit(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    said = limits() | {"cgroup_pids": 100, "pid_max": 32768}
    saw = ask("host.processes", context_of("quickstart", fleet=one(LIMITS, said)))
    assert saw.status == "fail" and saw.found == "100 by the control group's pids.max"
    free = {**said, "cgroup_pids": None, "processes": [None, None], "pid_max": None, "threads_max": None}
    assert ask("host.processes", context_of("quickstart", fleet=one(LIMITS, free))).found == "no limit"


def test_inotify_and_locked_memory(context_of: MakeContext, ask: Ask) -> None:
    few = limits() | {"inotify_instances": 128, "locked_memory": [64 * 1024, 64 * 1024]}
    starved = "qwen3-8b-grpo-starved"
    saw = ask("host.inotify", context_of(starved, "sandbox.max_tasks=64", fleet=one(LIMITS, few)))
    assert saw.status == "warn" and "max_user_instances=8192" in saw.fix
    assert ask("host.inotify", context_of("quickstart", fleet=one(LIMITS, few))).status == "pass"
    assert ask("host.locked_memory", context_of(T1, fleet=one(LIMITS, few))).found == "64 KiB"
    assert ask("host.locked_memory", context_of("quickstart", fleet=one(LIMITS, few))).status == "skipped"


def group_tree(root: Path, *, limit: str, used: int, cache: int = 0, cpu: str = "max 100000", pids: str = "max") -> str:
    """A version 2 hierarchy in which the limit stands one level above this process's group."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/pod/container\n")
    for name in ("sys/fs/cgroup", "sys/fs/cgroup/pod", "sys/fs/cgroup/pod/container"):
        (root / name).mkdir(parents=True, exist_ok=True)
    pod = root / "sys/fs/cgroup/pod"
    (pod / "memory.max").write_text(limit + "\n")
    (pod / "memory.current").write_text(f"{used}\n")
    (pod / "memory.stat").write_text(f"anon 1\ninactive_file {cache}\n")
    (pod / "container/memory.max").write_text("max\n")
    (pod / "container/memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (pod / "cpu.max").write_text(cpu + "\n")
    (pod / "pids.max").write_text(pids + "\n")
    return str(root)


@pytest.mark.catalogue("M8")
def test_a_limit_of_an_outer_control_group_is_seen(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    root = group_tree(tmp_path, limit=str(GIB), used=GIB // 2, cache=GIB // 4, cpu="150000 100000", pids="77")
    found = own_limits(root)
    assert found == {"memory": {"limit": GIB, "used": GIB // 4, "group": "pod"}, "pids": 77, "cpus": 1.5}
    said = memory() | {"cgroup": found["memory"], "cpus": found["cpus"]}
    saw = ask("host.control_group", context_of("quickstart", fleet=one(MEMORY, said)))
    assert saw.status == "fail" and "memory 1.0 GiB by group pod" in saw.found and "--memory" in saw.fix
    saw = ask("host.memory", context_of("quickstart", fleet=one(MEMORY, said)))
    assert saw.status == "fail" and "0.8 GiB available (control group's limit)" in saw.found
    assert f"GiB (pid {said['holders'][0]['pid']})" in saw.found


def test_version_1_groups_and_unlimited_ones(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/memory/docker/abc"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n")
    (group / "memory.limit_in_bytes").write_text("2147483648\n")
    (group / "memory.usage_in_bytes").write_text("1000\n")
    (group.parent / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (group.parent / "memory.usage_in_bytes").write_text("1000\n")
    assert own_limits(str(tmp_path))["memory"] == {"limit": 2 * GIB, "used": 1000, "group": "abc"}
    assert own_limits(str(tmp_path / "empty")) == {"memory": None, "pids": None, "cpus": None}


@pytest.mark.catalogue("M8")
def test_memory_of_a_node_against_the_host_table(context_of: MakeContext, ask: Ask) -> None:
    """The T1 campaign needs 920 GiB a node: one with 259 GiB left, as in the report, is named."""
    node = {"total": 2265 * GIB, "available": 2000 * GIB, "swap_used": 0, "cgroup": None, "cpus": None, "holders": []}
    full = node | {"available": 259 * GIB, "holders": [{"pid": 7, "name": "dockerd", "bytes": 900 * GIB}]}
    saw = ask("host.memory", context_of(T1, fleet=nodes(MEMORY, node, node, full)))
    assert saw.status == "fail"
    assert saw.found.startswith("node-2: 259.0 GiB available; held most by dockerd 900.0 GiB (pid 7); the other 2: ")
    assert ask("host.memory", context_of(T1, fleet=nodes(MEMORY, node, node))).status == "pass"


def test_swap_and_shared_memory(context_of: MakeContext, ask: Ask) -> None:
    said = memory() | {"swap_used": 3 * GIB, "shared": {"size": 64 << 20, "free": 64 << 20}}
    context = context_of("quickstart", fleet=one(MEMORY, said))
    assert ask("host.swap", context).status == "warn"
    assert ask("host.shared_memory", context).status == "warn"
    saw = ask("host.shared_memory", context_of(T1, fleet=one(MEMORY, said)))
    assert saw.status == "fail" and "--shm-size=16g" in saw.fix


def test_the_kernels_log_is_read_for_kills(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    up = time.clock_gettime(time.CLOCK_BOOTTIME)
    microseconds = int(max(0.0, up - 600) * 1e6)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_text(
        f"6,1,{microseconds},-;usb 1-1: new device\n"
        f"3,2,{microseconds},-;Out of memory: Killed process 4242 (python) total-vm:2200000kB, anon-rss:2097152kB, "
        f"file-rss:64kB, shmem-rss:0kB, UID:0 pgtables:41904kB oom_score_adj:0\n"
        f"4,3,{microseconds},-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python,pid=4242,uid=0\n"
    )
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/vmstat").write_text("pgfault 1\noom_kill 5\n")
    said = kills(str(tmp_path))
    assert said["counted"] == 5 and len(said["log"]) == 2
    saw = ask("host.oom_kills", context_of("quickstart", fleet=one(KILLS, said)))
    assert saw.status == "warn"
    assert saw.found.startswith("1 kill within a day, the last 10 min ago: process 4242 (python), which held 2.0 GiB")
    hours_ago = {**said, "log": [{**said["log"][0], "ago_seconds": 380 * 60}]}
    saw = ask("host.oom_kills", context_of("quickstart", fleet=one(KILLS, hours_ago)))
    assert (saw.status, "the last 6.3 h ago: process 4242" in saw.found) == ("pass", True)
    old = {**said, "log": [{**said["log"][0], "ago_seconds": 3 * 24 * 3600}]}
    assert ask("host.oom_kills", context_of("quickstart", fleet=one(KILLS, old))).status == "pass"
    closed = {"log": None, "counted": 5, "own_group": 0}
    assert "not when" in ask("host.oom_kills", context_of("quickstart", fleet=one(KILLS, closed))).found


def test_a_log_that_may_not_be_read_is_none_not_empty(tmp_path: Path) -> None:
    assert kernel_log(("x",), tmp_path / "absent") is None


@contextmanager
def clock_of(*, off: str) -> Iterator[Callable[[], float]]:
    """Asks the clock of a process that libfaketime has set off."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        pytest.skip("libfaketime is not installed (apt-get install faketime)")
    child = "import sys\nfrom t1cli.cluster.node_probes import NodeHost\n"
    child += "for line in sys.stdin: print(NodeHost().now(), flush=True)"
    environment = {**os.environ, "LD_PRELOAD": str(found[0]), "FAKETIME": off}
    with subprocess.Popen(
        [sys.executable, "-c", child], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None and stdout is not None

        def now() -> float:
            print(file=stdin, flush=True)
            return float(stdout.readline())

        # The first answer waits for imports, and its round trip says nothing.
        now()
        yield now
        stdin.close()


@pytest.mark.catalogue("R4")
def test_a_clock_that_really_is_off_is_measured_and_named() -> None:
    with clock_of(off="-30s") as slow, clock_of(off="+0s") as right:
        offsets = {"slow": clock_offset(slow), "right": clock_offset(right), "own": clock_offset(time.time)}
    offset, error = offsets["slow"]
    assert abs(offset + 30) <= error + 0.1
    saw = judge_clocks(offsets)
    assert saw.status == "fail" and saw.found.startswith(("slow -30.", "slow -29.")) and "right" not in saw.found


@pytest.mark.catalogue("R4")
def test_a_clock_that_is_off_is_named_and_an_uncertain_one_is_not() -> None:
    fine = {"a": (0.01, 0.001), "b": (0.4, 0.001), "c": (-0.1, 0.001)}
    assert judge_clocks(fine).status == "pass"
    saw = judge_clocks({**fine, "d": (-7.2, 0.01)})
    assert saw.status == "fail" and "d -7.2 s from the other nodes" in saw.found and "chrony" in saw.fix
    assert judge_clocks({**fine, "d": (1.5, 2.0)}).status == "pass"
    assert judge_clocks({"a": (5.0, 0.1)}).status == "skipped"
