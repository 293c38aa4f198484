"""A follower against a cluster that does what a cluster can do: end, fail, vanish, come back, save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from t1cli.cluster.jobs import JobState, Status
from t1cli.errors import BadInput, CouldNotAsk
from t1cli.launch.slime.backend import SlimeBackend, detached_follower
from t1cli.launch.slime.follow import Followed, FollowTimes, JobFailed, follow
from t1cli.launch.slime.job_log import JobLog
from t1cli.launch.slime.saves import Saves
from t1cli.records import write_json
from t1cli.run.checkpoint_manifest import TRACKER, Owner, iteration_directory
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter, read_events
from t1cli.run.metrics_reader import read_metrics, series
from t1cli.run.metrics_writer import MetricsWriter
from t1cli.run.ray_job import RayJob
from t1cli.spec.load import load_experiment


@dataclass
class Cluster:
    """Plays one job: each question takes the next step."""

    steps: list[Callable[[], Status | None]]
    text: str = ""
    stopped: bool = False
    taken: int = 0
    skipped: list[int] = field(default_factory=list)

    def state(self, job_id: str) -> JobState:
        if self.stopped:
            return JobState(job_id, "STOPPED")
        status = self.steps.pop(0)() if len(self.steps) > 1 else self.steps[0]()
        if status is None:
            raise CouldNotAsk("away")
        return JobState(job_id, status, "because")

    def stop(self, job_id: str, *, wait_seconds: float) -> JobState:
        self.stopped = True
        return JobState(job_id, "STOPPED")

    def tail(self, job_id: str, *, skip_characters: int = 0) -> Cluster:
        self.skipped.append(skip_characters)
        self.taken = skip_characters
        return self

    def take(self) -> str:
        new, self.taken = self.text[self.taken :], len(self.text)
        return new

    def drain(self, *, wait_seconds: float) -> str:
        return self.take()

    def close(self) -> None: ...


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "c" / "attempt_1")


def followed(run: RunDirectory, cluster: Cluster, **times: float) -> Followed:
    roles = {"actor": run.actor_checkpoints, "critic": run.critic_checkpoints}
    owners = {path: Owner("c", "f", str(run.path), role) for role, path in roles.items()}
    events = EventWriter(run.events_jsonl)
    saves = Saves(owners, events)
    log = JobLog(run, "t1-c", MetricsWriter(run.metrics_jsonl), on_save=saves.logged)
    limits = FollowTimes(**{"poll_seconds": 0.0, "patience_seconds": 0.0, "drain_seconds": 0.0, **times})
    job = RayJob("t1-c", "http://head:8265", "test", 1, 0.0)
    return Followed(run, cluster, job, saves, events, log, lambda line: None, limits)


def save(run: RunDirectory, rollout: int) -> Callable[[], Status | None]:
    def step() -> Status | None:
        for directory in (run.actor_checkpoints, run.critic_checkpoints):
            place = iteration_directory(directory, rollout)
            place.mkdir(parents=True)
            (place / "weights").write_bytes(b"x")
            (directory / TRACKER).write_text(str(rollout))
        return "RUNNING"

    return step


def status(value: Status | None) -> Callable[[], Status | None]:
    return lambda: value


def jobs_of(run: RunDirectory) -> list[str]:
    return [event.text("status") for event in read_events(run.events_jsonl) if event.kind is EventKind.JOB]


def test_log_metrics_saves_and_states_go_on_record(run: RunDirectory) -> None:
    cluster = Cluster([status("PENDING"), status("RUNNING"), save(run, 1), status("SUCCEEDED")])
    cluster.text = "hello\nrollout 0: {'rollout/raw_reward': 0.5}\nstep 0: {'train/loss': nan}\nunfinished"
    assert follow(followed(run, cluster)) == "finished"
    assert (run.logs / "job.log").read_text() == cluster.text + "\n"
    assert series(read_metrics(run.metrics_jsonl), "rollout/raw_reward") == {0: 0.5}
    assert jobs_of(run) == ["PENDING", "RUNNING", "SUCCEEDED"]
    saves = {e.text("role"): e.number("rollout") for e in read_events(run.events_jsonl) if e.text("role")}
    assert saves == {"actor": 2, "critic": 2}
    assert (iteration_directory(run.critic_checkpoints, 1) / "manifest.json").exists(), "the last save is sealed"


def test_a_new_follower_goes_on_where_the_record_ends(run: RunDirectory) -> None:
    cluster = Cluster([status(None)], text="one\nrollout 0: {'rollout/raw_reward': 1.0}\n")
    with pytest.raises(CouldNotAsk):
        follow(followed(run, cluster))
    cluster.steps, cluster.text = [status("SUCCEEDED")], cluster.text + "two\n"
    assert follow(followed(run, cluster)) == "finished"
    assert (run.logs / "job.log").read_text().split("\n").count("one") == 1
    assert (run.logs / "job.log").read_text().endswith("two\n")


def test_a_stop_request_takes_effect_at_the_first_save_that_every_role_has(run: RunDirectory) -> None:
    def only_the_critic() -> Status:
        place = iteration_directory(run.critic_checkpoints, 1)
        place.mkdir(parents=True)
        (run.critic_checkpoints / TRACKER).write_text("1")
        return "RUNNING"

    cluster = Cluster([status("RUNNING"), only_the_critic, status("RUNNING"), save(run, 3), status("RUNNING")])
    write_json(run.stop_request, {})
    assert follow(followed(run, cluster)) == "stopped"
    assert (run.actor_checkpoints / TRACKER).read_text() == "3"


def test_a_save_from_before_the_request_does_not_count(run: RunDirectory) -> None:
    save(run, 1)()
    write_json(run.stop_request, {})
    cluster = Cluster([status("RUNNING"), status("RUNNING"), status("SUCCEEDED")])
    assert follow(followed(run, cluster)) == "finished" and not cluster.stopped


@pytest.mark.parametrize(
    ("ended", "error", "says"),
    [
        ("FAILED", JobFailed, "because"),
        ("ABSENT", JobFailed, "no longer knows job"),
        ("STOPPED", KeyboardInterrupt, None),
    ],
)
def test_other_ends_are_said(run: RunDirectory, ended: Status, error: type[BaseException], says: str | None) -> None:
    with pytest.raises(error, match=says):
        follow(followed(run, Cluster([status("RUNNING"), status(ended)])))


def test_a_cluster_that_comes_back_within_patience_is_followed_on(run: RunDirectory) -> None:
    away = [status("RUNNING"), status(None), status(None), status("RUNNING"), status("SUCCEEDED")]
    assert follow(followed(run, Cluster(away), patience_seconds=60.0)) == "finished"
    assert jobs_of(run) == ["RUNNING", "UNREACHABLE", "RUNNING", "SUCCEEDED"]


def test_secrets_of_this_environment_do_not_reach_the_log(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "Zq7planted0123456789")
    cluster = Cluster([status("SUCCEEDED")], text="key Zq7planted0123456789 and hf_abcdefghijklmnopqrstuvwx\n")
    follow(followed(run, cluster))
    assert (run.logs / "job.log").read_text() == "key <redacted> and <redacted>\n"


@pytest.mark.parametrize("variable", ["T1_FOLLOW_POLL_SECONDS", "T1_FOLLOW_PATIENCE_SECONDS"])
@pytest.mark.parametrize("text", ["10m", "nan", "-1", "inf"])
def test_a_mistyped_wait_is_told_before_a_job_is_submitted(
    variable: str, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(BadInput, match=f"{variable} is '{text}', expected seconds"):
        SlimeBackend().refusals(load_experiment(Path("t1-strategy15k")))
    with pytest.raises(BadInput, match=variable):
        detached_follower(RunDirectory(tmp_path / "attempt_1"))
    assert list(tmp_path.iterdir()) == [], "no follower was started"
    monkeypatch.setenv(variable, "12.5")
    assert 12.5 in (FollowTimes.of_environment().poll_seconds, FollowTimes.of_environment().patience_seconds)
