"""Actions: told once, delivered after failures, stopped once, called off, paused, pinned, with evidence."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
import urllib.error
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from t1cli.cluster.node_probes import ClusterSaid, NodeSaid
from t1cli.errors import BadInput, CouldNotAsk, Refused
from t1cli.launch.stop import stop_after_next_save
from t1cli.records import read_json, write_json, write_text
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.pins import pinned
from t1cli.run.ray_job import RayJob
from t1cli.watch.actions.evidence import TAIL_BYTES, write_evidence
from t1cli.watch.actions.gpus_left import gpus_left, told
from t1cli.watch.actions.journal import Journal, watch_dir
from t1cli.watch.actions.pause import PauseAction
from t1cli.watch.actions.pin import PinAction
from t1cli.watch.actions.stop import RETRY_SECONDS, StopAction, acknowledge
from t1cli.watch.actions.wandb_alert import WandbAlerts
from t1cli.watch.actions.webhook import webhook
from t1cli.watch.engine import Alert
from t1cli.watch.history import History
from t1cli.watch.result import WatchResult
from t1cli.watch.rule import Rule
from t1cli.watch.sources.source import Row
from t1cli.watch.sources.wandb_log import read_records

STOP = Alert("signal-dead", "stop", 61, 0.9, 0.85, "terminal/non_trainable_ratio", "no signal", "fix the pool", ("L1",))
WARNING = Alert("throughput-halved", "warning", 40, 1.0, 2.0, "watch/trials_per_hour", "half", "", ())
RESULT = WatchResult("r", 0, 61, (), (), None, {}, run_state="stopped")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = RunDirectory(tmp_path / "runs" / "r" / "attempt_1")
    made.path.mkdir(parents=True)
    write_text(made.spec_yaml, "checkpoint: {every_rollouts: 5}\n")
    return made


class Requests:
    """Counts stop requests and leaves the file that the real one leaves."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, run: RunDirectory) -> None:
        self.count += 1
        write_json(run.stop_request, {})


def stopper(run: RunDirectory, requests: Any, now: list[float], **options: Any) -> StopAction:
    return StopAction(run, Journal(run), clock=lambda: now[0], request=requests, **{"allowed": True, **options})


def test_a_stop_waits_for_its_countdown_and_is_asked_for_once_over_restarts(run: RunDirectory) -> None:
    now, requests = [100.0], Requests()
    begun = stopper(run, requests, now, grace_seconds=60).consider(STOP)
    assert begun is not None
    assert begun.at == 160.0
    now[0] = 150.0
    again = stopper(run, requests, now, grace_seconds=60)  # the watcher was restarted and hears of the alert again
    assert again.consider(STOP) is None
    assert again.tick(lambda: RESULT) == ""
    now[0] = 161.0
    assert "asked the run to stop" in stopper(run, requests, now).tick(lambda: RESULT)
    last = stopper(run, requests, now)
    assert last.consider(STOP) is None
    assert last.tick(lambda: RESULT) == ""
    assert requests.count == 1
    assert last.report(RESULT)
    assert not last.report(RESULT)
    report = read_json(watch_dir(run) / "stop_report.json")
    assert report is not None
    assert report["run_state"] == "stopped"


def test_gpus_are_asked_for_on_every_node_of_the_job(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def node(name: str, *processes: dict[str, Any], used_mib: float = 0.0) -> NodeSaid:
        gpu = {"index": 0, "used_mib": used_mib}
        value = {"problem": "", "gpus": [gpu], "processes": list(processes)}
        return NodeSaid(name, name, False, {}, {"gpus": {"value": value}})

    answers = [node("a"), node("b", {"name": "sglang", "pid": 7}, used_mib=9e4), node("c", used_mib=9e4)]
    answers.append(NodeSaid("d", "d", False, {}, {"gpus": {"problem": "no answer within 60 s"}}))
    monkeypatch.setattr("t1cli.watch.actions.gpus_left.read_ray_job", lambda run: object())
    monkeypatch.setattr("t1cli.watch.actions.gpus_left.open_jobs", lambda job: object())
    monkeypatch.setattr("t1cli.cluster.node_probes.ask_nodes", lambda *_, **__: ClusterSaid("2", tuple(answers), {}))
    left = gpus_left(run)
    assert left == {
        "a": [], "b": ["sglang (pid 7)"], "c": ["GPU 0 90000 MiB"], "d": "not known: no answer within 60 s",
    }  # fmt: skip
    assert told(left) == "GPUs are still held, b: sglang (pid 7); c: GPU 0 90000 MiB"
    assert told({"a": [], "b": []}) == "GPUs of a, b are free"
    assert told({"a": [], "d": "not known: x"}) == "GPUs: d not known: x"


def test_grace_is_two_usual_rollouts_and_at_most_five_minutes(run: RunDirectory) -> None:
    for usual, expected in ((4.0, 8.0), (900.0, 300.0)):
        action = stopper(run, Requests(), [0.0])
        begun = action.consider(STOP, usual)
        assert begun is not None
        assert begun.at == expected
        (watch_dir(run) / "countdown.json").unlink()


def test_nothing_stops_unless_it_is_allowed_and_only_stop_rules_do(run: RunDirectory) -> None:
    assert stopper(run, Requests(), [0.0], allowed=False).consider(STOP) is None
    assert stopper(run, Requests(), [0.0]).consider(WARNING) is None


def test_a_run_without_saves_is_not_stopped(run: RunDirectory) -> None:
    write_text(run.spec_yaml, "checkpoint: {every_rollouts: 0}\n")
    assert stopper(run, Requests(), [0.0]).consider(STOP) is None


def test_a_person_calls_it_off_for_good(run: RunDirectory) -> None:
    now, requests = [0.0], Requests()
    stopper(run, requests, now, grace_seconds=10).consider(STOP)
    assert acknowledge(run) == "stop by signal-dead"
    now[0] = 11.0
    assert "called off" in stopper(run, requests, now).tick(lambda: RESULT)
    assert stopper(run, requests, now).consider(STOP) is None
    assert requests.count == 0
    assert acknowledge(run) == ""


def test_a_run_that_has_ended_meanwhile_is_told_not_raised(run: RunDirectory) -> None:
    def refuse(_: RunDirectory) -> None:
        raise Refused("campaign `r` is not running")

    action = stopper(run, refuse, [0.0], grace_seconds=0)
    action.consider(STOP)
    assert "not possible: campaign `r` is not running" in action.tick(lambda: RESULT)
    assert action.countdown is None


def test_a_cluster_that_is_away_for_a_moment_calls_no_stop_off(run: RunDirectory) -> None:
    now, requests, away = [0.0], Requests(), [True]

    def ask(of: RunDirectory) -> None:
        if away[0]:
            raise CouldNotAsk("no Ray head answers at http://head:8265")
        requests(of)

    action = stopper(run, ask, now, grace_seconds=0)
    action.consider(STOP)
    said = action.tick(lambda: RESULT)
    assert said == "stop by signal-dead is tried again: no Ray head answers at http://head:8265"
    assert action.tick(lambda: RESULT) == "", "not with every tick"
    now[0] += RETRY_SECONDS
    assert action.tick(lambda: RESULT) == "", "and the same trouble is told once"
    away[0] = False
    now[0] += RETRY_SECONDS
    assert "asked the run to stop" in stopper(run, ask, now).tick(lambda: RESULT), "by a watcher that was restarted"
    assert requests.count == 1 and Journal(run).keys("stop") == {STOP.key}


def test_a_stop_while_nobody_knows_whether_the_job_runs_says_so(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead follower, a job without an end on record, and a head that does not answer: not `not running`."""
    RayJob("t1-r-1", "http://127.0.0.1:1", "a test", 1, 0.0).save(run)
    events = EventWriter(run.events_jsonl)
    events.write(EventKind.LAUNCHED, session=1, pid=1, resumed=False)
    events.close()

    def no_answer(*_: object) -> None:
        raise CouldNotAsk("no Ray head answers")

    monkeypatch.setattr("t1cli.launch.slime.occupation.Jobs.open", no_answer)
    with pytest.raises(CouldNotAsk, match="no Ray head answers"):
        stop_after_next_save(run.path.parent)
    assert not run.stop_request.exists()


def test_journal_is_read_by_the_next_watcher(run: RunDirectory) -> None:
    Journal(run).note("told", STOP.key)
    assert Journal(run).keys("told") == {STOP.key}
    assert not Journal(run).has("told", WARNING.key)


def test_webhook_keeps_order_retries_and_never_repeats(run: RunDirectory) -> None:
    sent: list[str] = []
    down = [True]

    def send(url: str, body: bytes) -> None:
        if down[0]:
            raise urllib.error.URLError(f"cannot reach {url}")
        sent.append(json.loads(body)["rule"])

    hook = webhook("http://secret.example/token", "r", Journal(run), send=send)
    hook.consider(WARNING)
    hook.consider(STOP)
    assert sent == []
    assert hook.trouble
    assert "token" not in hook.trouble
    down[0] = False
    hook.deliver()
    assert sent == ["throughput-halved", "signal-dead"]
    webhook("http://x", "r", Journal(run), send=send).consider(STOP)
    assert sent == ["throughput-halved", "signal-dead"]
    notice = Alert("n", "notice", 1, None, None, "m", "", "", ())
    hook.consider(notice)
    assert len(sent) == 2


def test_webhook_posts_json_over_http(run: RunDirectory) -> None:
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    webhook(f"http://127.0.0.1:{server.server_port}/hook", "r", Journal(run)).consider(STOP)
    server.shutdown()
    server.server_close()
    assert got[0]["text"] == "r: stop signal-dead at rollout 62: no signal"
    assert got[0]["step"] == 61
    assert got[0]["format_version"] == 1


@pytest.mark.catalogue("S4")
def test_pause_holds_the_next_rollout_once(run: RunDirectory) -> None:
    rule = Rule(name="throughput-halved", metric="m", below=1, actions=("pause",))
    action = PauseAction(run, Journal(run), {rule.name: rule}, allowed=True)
    assert action.consider(WARNING)
    assert run.pause_request.exists()
    assert acknowledge(run) == "pause"
    assert not run.pause_request.exists()
    assert not PauseAction(run, Journal(run), {rule.name: rule}, allowed=True).consider(WARNING)
    assert not PauseAction(run, Journal(run), {rule.name: rule}, allowed=False).consider(STOP)


def save(run: RunDirectory, rollout: int) -> Path:
    folder = run.actor_checkpoints / f"iter_{rollout:07d}"
    (folder / "shards").mkdir(parents=True)
    (folder / "shards" / "weights").write_text(f"weights of {rollout}")
    events = EventWriter(run.events_jsonl)
    events.write(EventKind.CHECKPOINT, rollout=rollout, role="actor", path=str(folder), bytes=1)
    events.close()
    return folder


def pins(run: RunDirectory) -> list[str]:
    return sorted(path.name for path in run.actor_checkpoints.glob("*.pinned"))


def scored(*means: float) -> History:
    """A history of ten rollouts at each mean in turn."""
    history = History()
    for step in range(10 * len(means)):
        history.add(Row(step, {"m": means[step // 10]}))
    return history


@pytest.mark.catalogue("C3")
def test_the_best_save_is_pinned_and_outlives_its_retention(run: RunDirectory) -> None:
    assert PinAction(run, "m").tick(History()) == ""
    history = scored(0.3, 0.45, 0.3)
    for rollout in (10, 20, 30):
        save(run, rollout)
    assert PinAction(run, "m").tick(history) == "pinned the save after rollout 20: m 0.450"
    assert pins(run) == ["iter_0000020.pinned"] and pinned([run.actor_checkpoints]) == {20}
    # A watcher that has just begun reads what is pinned from the disk.
    assert PinAction(run, "m").tick(history) == "" and pins(run) == ["iter_0000020.pinned"]


@pytest.mark.parametrize(("first", "second", "kept"), [(0.0, -0.5, 10), (-2.0, -1.0, 20), (-1.0, 0.0, 20)])
def test_signed_rewards_are_compared_as_they_are(run: RunDirectory, first: float, second: float, kept: int) -> None:
    pin, history = PinAction(run, "m"), scored(first, second)
    save(run, 10)
    assert pin.tick(history)
    save(run, 20)
    pin.tick(history)
    assert pins(run) == [f"iter_{kept:07d}.pinned"], "one pin at a time: the former is given back"


def test_what_a_person_pinned_is_never_given_back(run: RunDirectory) -> None:
    history = scored(0.1, 0.2)
    (save(run, 10).parent / "iter_0000010.pinned").touch()
    pin = PinAction(run, "m")
    assert pin.tick(history)
    save(run, 20)
    assert pin.tick(history)
    assert pins(run) == ["iter_0000010.pinned", "iter_0000020.pinned"]


@pytest.mark.parametrize("fatal_write", [1, 2])
def test_killed_while_pinning_the_next_watcher_pins_it(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, fatal_write: int
) -> None:
    history = scored(0.1, 0.2)
    save(run, 10)
    PinAction(run, "m").tick(history)
    save(run, 20)
    writes = iter(range(1, 9))
    rename = Path.replace

    def dying(path: Path, target: Path) -> Path:
        if next(writes) == fatal_write:
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", dying)
        PinAction(run, "m").tick(history)
    assert "iter_0000010.pinned" in pins(run), "the former best stays until the new one is on record"
    assert PinAction(run, "m").tick(history) == "pinned the save after rollout 20: m 0.200"
    assert pins(run) == ["iter_0000020.pinned"]


def test_a_full_disk_is_told_once_and_tried_again(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    history, pin = scored(0.1), PinAction(run, "m")
    save(run, 10)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert pin.tick(history) == "no save could be pinned: No space left on device"
        assert pin.tick(history) == ""
    assert pin.tick(history) == "pinned the save after rollout 10: m 0.100"


def test_a_damaged_record_and_another_metric_do_not_end_the_watcher(run: RunDirectory) -> None:
    history = scored(0.1, 0.2)
    save(run, 10)
    write_text(watch_dir(run) / "pinned.json", "{torn")
    assert PinAction(run, "m").tick(history)
    for step in range(10):
        history.add(Row(step, {"other": -3.0}))
    assert PinAction(run, "other").tick(history) == "pinned the save after rollout 10: other -3.000"
    assert pins(run) == ["iter_0000010.pinned"]


def test_evidence_holds_tails_and_causes_and_no_secret(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567")
    write_text(run.metrics_jsonl, '{"rollout/step": 0, "a": 1}\n')
    write_text(
        run.logs / "trainer.log",
        "key 0123456789abcdef0123456789abcdef01234567\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 13.91 GiB.\n",
    )
    folder = write_evidence(run, STOP.key, RESULT)
    assert {path.name for path in folder.iterdir()} == {
        "watch.json", "logs.json", "metrics.jsonl", "trainer.log", "spec.resolved.yaml",
    }  # fmt: skip
    logs = read_json(folder / "logs.json")
    assert logs is not None
    assert logs["trainer.log"]["first_cause"]["signature"] == "cuda_oom"
    assert "0123456789abcdef" not in "".join(path.read_text() for path in folder.iterdir())


@pytest.mark.parametrize("into_the_key", [10, 60, 130])
def test_evidence_that_begins_inside_a_private_key_shows_nothing_of_it(run: RunDirectory, into_the_key: int) -> None:
    body = [f"{number:02}Zq7planted" + "A" * 40 for number in range(8)]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----"])
    filler = "an ordinary line\n" * (TAIL_BYTES // 17 + 1)
    after = filler[-(TAIL_BYTES - len(key) + into_the_key - 1) :]
    write_text(run.logs / "trainer.log", "first line\n" * 9 + key + "\n" + after)
    said = (write_evidence(run, STOP.key, RESULT) / "trainer.log").read_text()
    assert "Zq7planted" not in said and said.endswith("an ordinary line\n") and "first line" not in said


def test_alerts_go_through_the_real_wandb_once_over_restarts(run: RunDirectory) -> None:
    write_text(run.spec_yaml, "tracking: {wandb: {project: p, mode: offline}}\n")
    for _ in range(2):
        alerts = WandbAlerts(run, Journal(run))
        alerts.delivery.consider(STOP)
        alerts.delivery.consider(WARNING)
        assert alerts.delivery.trouble == ""
        alerts.close()
    (file,) = watch_dir(run).rglob("*.wandb")
    # W&B's service goes on writing after `finish` has returned.
    told, deadline = b"", time.monotonic() + 120
    while b"r: throughput-halved" not in told and time.monotonic() < deadline:
        time.sleep(0.05)
        told = b"".join(record.data for record in read_records(file))
    assert told.count(b"r: signal-dead") == told.count(b"r: throughput-halved") == 1
    assert b"ERROR" in told and b"WARN" in told


def test_a_run_without_wandb_has_nowhere_to_alert(run: RunDirectory) -> None:
    with pytest.raises(BadInput, match="nowhere to alert"):
        WandbAlerts(run, Journal(run))
