"""A real Ray head of our own with its job server, and a spec that runs a double of slime on it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from t1cli.cluster.address import ClusterAddress
from t1cli.cluster.guard import MARK, Cluster
from t1cli.cluster.jobs import Jobs
from t1cli.errors import CouldNotAsk
from t1cli.launch.proposal import LaunchOptions, Stages
from t1cli.plan.build import build_plan
from t1cli.preflight.report import PreflightReport
from t1cli.run.record import RunRecord
from t1cli.spec.load import LoadedSpec, load_experiment

ROOT = Path(__file__).parents[3]
DOUBLE = ROOT / "tests/contract/slime_double"
SECRETS = {
    name: f"Zq7planted-{name.lower().replace('_', '-')}-0123456789"
    for name in (
        "WANDB_API_KEY",
        "OPENAI_API_KEY",
        "DAYTONA_API_KEY",
        "MODAL_TOKEN_SECRET",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
    )
}
"""What stands in the environment of the head and of the launch."""
SUITE = "T1_LIVE_SUITE"
"""Environment variable that every process of these tests inherits."""
TASKS = ROOT / "experiments/quickstart/tasks"
EVALUATION = (
    "evaluation.name=held-out",
    f"evaluation.path={TASKS}",
    "evaluation.num_tasks=2",
    "evaluation.repeats=2",
    "evaluation.context_tokens=256",
    "evaluation.max_new_tokens_per_turn=8",
    "evaluation.max_turns=2",
)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_over(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No process of these tests outlives them, whoever started it."""
    mark, places = secrets.token_hex(8), str(tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SUITE, mark)
        yield
    left: dict[int, str] = {}

    def none_left() -> bool:
        left.clear()
        left.update(_of_the_suite(f"{SUITE}={mark}", places))
        return not left

    try:
        wait_until(none_left, 120, "no process of the suite left")
    except AssertionError as late:
        raise AssertionError(f"processes left over: {left}") from late


def _of_the_suite(mark: str, places: str) -> Iterator[tuple[int, str]]:
    """Processes with the mark in their environment, or at work below the tests' own directory."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            marked = mark.encode() in (entry / "environ").read_bytes().split(b"\0")
            if marked or places in command or os.readlink(entry / "cwd").startswith(places):
                yield int(entry.name), command[:200]
        except OSError:
            continue


_AGENT_PORTS = ("dashboard-agent-listen", "dashboard-agent-grpc", "runtime-env-agent", "metrics-export")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Poll a condition with a deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.2)


@dataclass
class Head:
    """One Ray head and its nodes; ended by a mark in their environment, never by name."""

    dashboard_port: int = field(default_factory=free_port)
    port: int = field(default_factory=free_port)
    mark: str = ""
    temp_dir: Path = Path()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.dashboard_port}"

    @property
    def environment(self) -> dict[str, str]:
        # What a user exports before `ray start`: jobs inherit it.
        return {
            **os.environ,
            MARK: self.mark,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            **SECRETS,
            "OMP_NUM_THREADS": "1",
            # A machine that others use too.
            "RAY_raylet_start_wait_time_s": "240",
            "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "240",
            "RAY_health_check_period_ms": "20000",
            "RAY_health_check_timeout_ms": "60000",
            "RAY_agent_register_timeout_ms": "240000",
            "STUB_WEIGHTS": os.environ["STUB_WEIGHTS"],
        }

    def start(self) -> Head:
        self.mark, self.temp_dir = secrets.token_hex(8), Path(tempfile.mkdtemp(prefix="t1-ray-", dir="/tmp"))
        try:
            self._start()
        except BaseException:
            self.kill()
            raise
        return self

    def _start(self) -> None:
        self._ray(
            "--head",
            "--no-monitor",
            f"--ray-client-server-port={free_port()}",
            "--node-ip-address=127.0.0.1",
            f"--port={self.port}",
            "--dashboard-host=127.0.0.1",
            f"--dashboard-port={self.dashboard_port}",
            f"--temp-dir={self.temp_dir}",
        )
        jobs: list[Jobs] = []

        def answers() -> bool:
            try:
                jobs.append(Jobs.open(ClusterAddress(self.url, "test"), call_seconds=10))
                return jobs[-1].living({}) == ()
            except CouldNotAsk:
                return False

        wait_until(answers, 480, "the job server")

    def add_node(self) -> None:
        self._ray(f"--address=127.0.0.1:{self.port}", "--node-ip-address=127.0.0.1")

    def kill(self) -> int:
        """SIGKILL every process of it."""
        ended = Cluster(self.mark, self.temp_dir).end()
        shutil.rmtree(self.temp_dir, ignore_errors=True)
        return ended

    def processes(self) -> list[int]:
        return Cluster(self.mark, self.temp_dir).processes()

    def jobs(self) -> Jobs:
        return Jobs.open(ClusterAddress(self.url, "test"))

    def _ray(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=4", "--num-gpus=0"]
        # Defaults are taken wherever a second Ray runs on the machine, and no job is accepted then. And Ray gives an
        # agent that finds a port by itself 15 seconds to say which.
        command += [f"--{name}-port={free_port()}" for name in _AGENT_PORTS]
        # Not through a pipe: Ray's daemons would keep it open.
        with tempfile.TemporaryFile() as output:
            ended = subprocess.run([*command, *arguments], env=self.environment, stdout=output, stderr=output)
            output.seek(0)
            assert ended.returncode == 0, output.read().decode(errors="replace")


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """First weights of the tiny model, as they come."""
    import torch

    from t1cli.embedded.model import TinyMoE, TinyMoEConfig
    from t1cli.embedded.weights import save_weights

    torch.manual_seed(0)
    spec = load_experiment(Path("quickstart")).spec
    config = TinyMoEConfig.from_architecture(spec.model.architecture)
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    save_weights(path, TinyMoE(config).state_dict(), config)
    os.environ["STUB_WEIGHTS"] = str(path)
    return path


@pytest.fixture(scope="module")
def head(weights: Path) -> Iterator[Head]:
    started = Head().start()
    yield started
    started.kill()
    wait_until(lambda: not started.processes(), 120, "no process of the head left")


@pytest.fixture(autouse=True)
def surroundings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick polls and planted secrets; the job that reads limits runs where a test asks for `real_limits` alone."""
    monkeypatch.setenv("T1_FOLLOW_POLL_SECONDS", "0.2")
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    if "real_limits" not in request.fixturenames:
        monkeypatch.setattr("t1cli.launch.slime.submit.refuse_low_limits", lambda *_, **__: None)


@pytest.fixture
def real_limits() -> None:
    """The limits of the running Ray are asked for, as in every launch of a user."""


@pytest.fixture
def values(head: Head) -> Callable[..., list[str]]:
    """`--set` values: the quickstart's tasks on the double, four small rollouts, a save every two."""

    def chosen(name: str, *overrides: str) -> list[str]:
        return [
            f"name={name}",
            "engine.kind=slime",
            f"engine.slime_dir={DOUBLE}",
            "engine.megatron_dir=/nonexistent/megatron",
            f"engine.ray_address={head.url}",
            f"tasks.path={TASKS}",
            "rollout.num_rollouts=4",
            "rollout.batch_size=2",
            "rollout.max_turns=2",
            "rollout.context_tokens=256",
            "rollout.max_new_tokens_per_turn=8",
            "checkpoint.every_rollouts=2",
            "algorithm.critic.critic_only_steps=0",
            "model.checkpoints.warm_critic=null",
            # Named for the checks; the double has no such weights.
            "model.checkpoints.hf=/nonexistent/hf",
            "model.checkpoints.torch_dist=/nonexistent/torch_dist",
            "sandbox.capacity=2",
            *overrides,
        ]

    return chosen


@pytest.fixture
def load(values: Callable[..., list[str]]) -> Callable[..., LoadedSpec]:
    """The same as a loaded spec."""
    return lambda name, *overrides: load_experiment(Path("quickstart"), values(name, *overrides))


@dataclass
class Listener:
    """A dialogue that says yes and records what it hears."""

    records: list[RunRecord] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def can_ask(self) -> bool:
        return True

    def ask(self, proposal: object) -> bool:
        return True

    def started(self, record: RunRecord) -> None:
        self.records.append(record)

    def progress(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def stages() -> Stages:
    """The real backend; a preflight that has nothing to say (no GPU stands here)."""

    def no_preflight(*_: object) -> PreflightReport:
        return PreflightReport("x", "0" * 12, ())

    return Stages(plan=_plan, preflight=no_preflight)


def _plan(loaded: LoadedSpec) -> object:
    from dataclasses import replace

    plan = build_plan(loaded)
    return replace(plan, findings=(), verdict="FITS")


@pytest.fixture
def options(tmp_path: Path) -> LaunchOptions:
    return LaunchOptions(tmp_path / "runs", "t1 launch SPEC", assume_yes=True)
