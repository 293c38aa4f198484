"""A real Ray of two nodes on this machine, one of them started with a lower ulimit: preflight names that one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from t1cli.cluster.address import ClusterAddress
from t1cli.cluster.guard import MARK, Cluster
from t1cli.cluster.jobs import Jobs
from t1cli.errors import CouldNotAsk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[3]
LOW = 2048
ASKED = ("host.file_descriptors", "host.clocks", "network.reachable", "cluster", "software.equal", "host.memory")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class TwoNodes:
    """A head and a worker node of our own, ended by a mark in their environment and never by name."""

    port: int = field(default_factory=free_port)
    dashboard_port: int = field(default_factory=free_port)
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    temp_dir: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="t1-ray-", dir="/tmp")))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.dashboard_port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            MARK: self.mark,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            # A machine that others use too.
            "RAY_raylet_start_wait_time_s": "500",
            "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "240",
            "RAY_health_check_period_ms": "20000",
            "RAY_health_check_timeout_ms": "60000",
            "RAY_agent_register_timeout_ms": "240000",
            "RAY_gcs_server_request_timeout_seconds": "240",
            "RAY_gcs_rpc_server_connect_timeout_s": "60",
        }

    def start(self) -> None:
        dashboard = ["--dashboard-host=127.0.0.1", f"--dashboard-port={self.dashboard_port}"]
        self._ray(["--head", f"--port={self.port}", *dashboard, f"--temp-dir={self.temp_dir}"])
        self._wait_for_the_job_server()
        self._ray([f"--address=127.0.0.1:{self.port}"], before=["prlimit", f"--nofile={LOW}:{LOW}"])

    def end(self) -> None:
        Cluster(self.mark, self.temp_dir).end()
        shutil.rmtree(self.temp_dir, ignore_errors=True)

    def _wait_for_the_job_server(self) -> None:
        deadline = time.monotonic() + 300
        while True:
            try:
                Jobs.open(ClusterAddress(self.url, "test"), call_seconds=20).living({})
                return
            except CouldNotAsk:
                assert time.monotonic() < deadline, "the job server did not come up"
                time.sleep(0.5)

    def _ray(self, arguments: list[str], before: list[str] | None = None) -> None:
        # Ports that are given need not be waited for: a raylet gives its agents 15 s to say theirs, and then dies.
        named = ("dashboard-agent-listen", "dashboard-agent-grpc", "metrics-export", "runtime-env-agent")
        ports = [*(f"--{name}-port={free_port()}" for name in named), "--node-ip-address=127.0.0.1"]
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=1", "--num-gpus=0", *ports]
        # Not through a pipe: Ray's daemons would keep it open.
        with tempfile.TemporaryFile() as output:
            command = [*(before or []), *start, *arguments]
            ended = subprocess.run(command, env=self.environment, stdout=output, stderr=output, check=False)
            output.seek(0)
            assert ended.returncode == 0, output.read().decode(errors="replace") + self._last_words()

    def _last_words(self) -> str:
        """What Ray's own processes said last."""
        logs = sorted((self.temp_dir / "session_latest" / "logs").glob("*"))
        told = [
            f"\n--- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
            for path in logs
            if path.suffix in (".out", ".err")
        ]
        return "".join(text for text in told if "raylet" in text or "gcs" in text)


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoNodes]:
    nodes = TwoNodes()
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.end()


@pytest.mark.catalogue("S8")
def test_the_node_with_the_lower_ulimit_is_named(cluster: TwoNodes, tmp_path: Path) -> None:
    only = [word for name in ASKED for word in ("--only", name)]
    command = ["preflight", "t1-strategy15k", "--set", f"engine.ray_address={cluster.url}", *only, "--json"]
    done = subprocess.run(
        [sys.executable, "-c", "from t1cli.cli.app import main; main()", *command, "--runs-dir", str(tmp_path)],
        env={**os.environ, "RAY_AUTH_MODE": "disabled"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, Any] = {check["id"]: check for check in json.loads(done.stdout)["checks"]}
    print(json.dumps(found, indent=1))
    limits = found["host.file_descriptors"]
    by_status = {node["status"]: node["node"] for node in limits["nodes"]}
    assert limits["status"] == "fail" and len(limits["nodes"]) == 2 and set(by_status) == {"pass", "fail"}
    assert limits["found"].startswith(f"{by_status['fail']}: soft limit {LOW}, hard limit {LOW}; the other 1: ")
    assert limits["fix"].startswith(f"on {by_status['fail']}: ")
    assert by_status["pass"] not in limits["fix"]
    running = found["cluster.open_files"]
    assert running["status"] == "fail" and f"may open {LOW}" in running["found"]
    assert found["host.clocks"]["status"] == "pass" and "2 nodes within" in found["host.clocks"]["found"]
    assert found["network.reachable"]["status"] == "pass"
    assert found["software.equal"]["status"] == "pass"
    assert found["cluster.ray"]["status"] == "pass"
    assert (
        found["cluster.resources"]["status"] == "fail"
        and "2 nodes, 0 of 0 GPUs free" in found["cluster.resources"]["found"]
    )
    # The probe's own job has ended by then, and is nobody's campaign.
    assert found["cluster.occupied"]["status"] == "pass"
