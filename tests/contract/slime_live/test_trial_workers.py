"""Trials on the rollout nodes themselves (S10): two nodes of one Ray, an engine that both reach, a router between."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import urllib.request
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from t1cli.cluster.guard import MARK, Cluster
from t1cli.cluster.node_actors import NodeActors
from t1cli.plugin import hooks
from t1cli.spec.load import load_experiment
from t1cli.terminal.trajectory.store import load_rows
from tests.contract.slime_session import session_settings

from .conftest import DOUBLE, EVALUATION, TASKS, free_port, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
# Ray takes 127.0.0.1 for "this machine" and looks for an address that others could reach.
HEAD = "127.0.0.4"
NODES = ("127.0.0.2", "127.0.0.3")


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[None]:
    """A head without engines and two rollout nodes, each under an address of its own; this process is a driver."""
    mark, place = secrets.token_hex(8), Path(tempfile.mkdtemp(prefix="t1-ray-", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, mark)
        # Where its files go, the note of its address included.
        patch.setenv("RAY_TMPDIR", str(place))
        (place / "ray").mkdir()
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_raylet_start_wait_time_s", "240")
        patch.setenv("RAY_health_check_period_ms", "20000")
        patch.setenv("RAY_health_check_timeout_ms", "60000")
        patch.setenv("RAY_agent_register_timeout_ms", "240000")
        patch.delenv("RAY_ADDRESS", raising=False)
        import ray
        from ray.cluster_utils import Cluster as RayCluster

        cluster = RayCluster()
        try:
            # Its own waits are half a minute.
            cluster.add_node(wait=False, node_ip_address=HEAD, num_cpus=1, include_dashboard=False, **_agent_ports())
            for address in NODES:
                cluster.add_node(wait=False, node_ip_address=address, num_cpus=2, **_agent_ports())
            ray.init(address=cluster.address, log_to_driver=False, _node_ip_address=HEAD)
            wait_until(lambda: len([node for node in ray.nodes() if node["Alive"]]) == 3, 240, "three nodes")
            yield
        finally:
            ray.shutdown()
            cluster.shutdown()
            Cluster(mark, place).end()
            shutil.rmtree(place, ignore_errors=True)
    wait_until(lambda: not Cluster(mark, place).processes(), 120, "no process of the cluster left")


def _agent_ports() -> dict[str, int]:
    """Ray gives an agent that finds a port by itself 15 seconds to say which."""
    names = ("dashboard_agent_listen_port", "runtime_env_agent_port", "metrics_agent_port", "metrics_export_port")
    return {name: free_port() for name in names}


@pytest.fixture
def args(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Namespace]:
    """slime's namespace with an engine behind a router that names one engine on each node."""
    from t1cli.embedded.server_process import inference_server

    small = ("rollout.batch_size=6", "rollout.max_turns=2", "rollout.context_tokens=256", "sandbox.capacity=4")
    spec = load_experiment(Path("quickstart"), [*small, *EVALUATION, f"tasks.path={TASKS}", "engine.kind=slime"]).spec
    ours = session_settings(spec, tmp_path / "runs/quickstart/attempt_1")
    monkeypatch.syspath_prepend(str(DOUBLE))
    with inference_server(weights, "--max-batch", "8") as server, _router(server.url) as port:
        sizes = {"n_samples_per_prompt": 1, "rollout_batch_size": 6, "global_batch_size": 6, "save": None, "load": None}
        yield Namespace(t1=ours, sglang_router_ip="127.0.0.1", sglang_router_port=port, **sizes)
    for name in [name for name in sys.modules if name == "slime" or name.startswith("slime.")]:
        del sys.modules[name]


class _router:
    """Lists an engine on every node, and passes everything else on to the one that there is."""

    def __init__(self, engine_url: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/workers":
                    listed = {"workers": [{"url": f"http://{address}:30000"} for address in NODES]}
                    self._answer(200, json.dumps(listed).encode())
                else:
                    self._pass_on(None)

            def do_POST(self) -> None:
                self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

            def _pass_on(self, body: bytes | None) -> None:
                request = urllib.request.Request(engine_url + self.path, body, {"Content-Type": "application/json"})
                try:
                    with urllib.request.urlopen(request, timeout=600) as found:
                        self._answer(found.status, found.read())
                except urllib.error.HTTPError as refused:
                    self._answer(refused.code, refused.read())

            def _answer(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    def __enter__(self) -> int:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return int(self._server.server_address[1])

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _worker_pids() -> dict[str, int]:
    """The process of each node's worker."""
    from ray._private.state import actors

    workers = [actor for actor in actors().values() if actor["State"] == "ALIVE"]
    assert sorted(actor["Address"]["IPAddress"] for actor in workers) == list(NODES), "one worker, pinned, per node"
    return {actor["Address"]["IPAddress"]: actor["Pid"] for actor in workers}


@contextmanager
def _killed_mid_trial(pid: int) -> Iterator[list[psutil.Process]]:
    """SIGKILL a worker as soon as one of its sandboxes lives. Yields what it had started by then."""
    worker, over = psutil.Process(pid), threading.Event()
    struck: list[psutil.Process] = []

    def watch() -> None:
        while not over.wait(0.002):
            with suppress(psutil.NoSuchProcess):  # one that ended while we looked
                below = worker.children(recursive=True)
                if any(process.name() == "bwrap" for process in below):
                    struck.extend(below)
                    worker.kill()
                    return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield struck
    finally:
        over.set()
        watcher.join()


@pytest.mark.catalogue("S10")
def test_trials_run_on_the_rollout_nodes_and_a_lost_node_costs_no_sample(two_nodes: None, args, monkeypatch) -> None:
    from slime.ray.rollout import flatten, train_data

    calls: list[tuple[str, str]] = []
    call = NodeActors.call

    async def counted(self: NodeActors, address: str, method: str, *arguments: object) -> Any:
        calls.append((address, method))
        return await call(self, address, method, *arguments)

    monkeypatch.setattr(NodeActors, "call", counted)
    output = hooks.generate_rollout(args, 0, None, evaluation=False)
    samples = flatten(output.samples, 1)
    raw, shaped = hooks.group_rewards(args, samples)
    data = train_data(samples, raw, shaped, replay=True)
    assert len(set(data["group_ids"])) == 6
    rows = load_rows(Path(args.t1["run_dir"]) / "rollouts/rollout_000000.npz")
    assert [sample.tokens for sample in samples] == [row.tokens.tolist() for row in rows]
    assert {address for address, method in calls if method == "play"} == set(NODES)
    pids = _worker_pids()
    assert os.getpid() not in pids.values()

    # One worker's process dies between two rollouts: its trials are repeated elsewhere, and the batch is full.
    os.kill(pids[NODES[0]], signal.SIGKILL)
    calls.clear()
    output = hooks.generate_rollout(args, 1, None, evaluation=False)
    assert output.metrics["terminal/groups"] == 6
    assert output.metrics["terminal/failed_by_cause/worker_lost"] >= 1

    # Before the next one it is started anew.
    calls.clear()
    output = hooks.generate_rollout(args, 2, None, evaluation=False)
    assert output.metrics["terminal/groups"] == 6 and output.metrics["terminal/failed"] == 0
    assert {address for address, method in calls if method == "play"} == set(NODES)

    # One dies in the middle of a trial: nothing of its sandboxes outlives it, and its trials are repeated.
    with _killed_mid_trial(_worker_pids()[NODES[1]]) as sandboxes:
        output = hooks.generate_rollout(args, 3, None, evaluation=False)
    assert sandboxes, "it was killed while a trial had its sandbox"
    assert output.metrics["terminal/groups"] == 6
    assert output.metrics["terminal/failed_by_cause/worker_lost"] >= 1
    wait_until(lambda: not any(process.is_running() for process in sandboxes), 60, "the dead worker's sandboxes gone")

    calls.clear()
    measured = hooks.generate_rollout(args, 3, None, evaluation=True)
    assert measured.metrics["eval/held-out/scored"] == measured.metrics["eval/held-out/scheduled"] == 4
    assert {address for address, method in calls if method == "play"} == set(NODES)
