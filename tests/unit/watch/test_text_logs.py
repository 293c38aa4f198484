"""Stdout of five trainers, line shapes as their sources print them, under Ray's prefixes; what logs add to steps."""

# ruff: noqa: E501 - lines of logs are as long as they are

from __future__ import annotations

import math
from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.launch.slime.job_log import JobLog
from t1cli.run.directory import RunDirectory
from t1cli.run.metrics_writer import MetricsWriter
from t1cli.watch.sources.beside_logs import BesideLogs
from t1cli.watch.sources.metrics_file import MetricsFile
from t1cli.watch.sources.source import Row
from t1cli.watch.sources.text_log import TextLog
from t1cli.watch.sources.trainer_state import TrainerState

SLIME = """\
(RolloutManager pid=812, ip=10.0.0.2) [2026-08-21 10:00:00] rollout.py:480 - rollout 0: {'rollout/raw_reward': 0.25, 'rollout/zero_std/count_0.0': 3}
(RolloutManager pid=812, ip=10.0.0.2) [2026-08-21 10:00:00] rollout.py:490 - perf 0: {'perf/rollout_time': 61.2}
\x1b[36m(MegatronTrainRayActor pid=99)\x1b[0m [2026-08-21 10:01:00] data.py:210 - step 0: {'train/grad_norm': nan, 'train/kl_loss': 1e-05, 'train/step': 0}
(MegatronTrainRayActor pid=99) [2026-08-21 10:01:30] data.py:210 - step 1: {'train/grad_norm': 0.5, 'train/step': 1}
(RolloutManager pid=812) [2026-08-21 10:02:00] generate.py:63 - [task=1 uid=2] env.allocate failed (HTTPStatusError): Client error '429 Too Many Requests' for url 'x' [repeated 3x across cluster]
(RolloutManager pid=812) [2026-08-21 10:03:00] rollout.py:480 - rollout 1: {'rollout/raw_reward': 0.5}
"""
VERL = "(TaskRunner pid=7) step:59 - actor/kl_loss:nan - actor/entropy:np.float64(0.5) - critic/score/mean:0.25 - perf/throughput:1.2e+03"
OPENRLHF = (
    "Train epoch [1/1]:  10%|#  | 1/10 [00:01<00:09, 1.0s/it, policy_loss=-0.1, kl=0.106, reward=1.93]\r"
    "Train epoch [1/1]:  10%|#  | 1/10 [00:01<00:09, 1.0s/it, policy_loss=-0.115, kl=0.106, reward=1.93, return=-1.98e-9]\r"
    "Train epoch [1/1]:  20%|## | 2/10 [00:02<00:08, 1.0s/it, policy_loss=nan, kl=0.2, reward=2]\n"
)
TRL = "{'loss': 0.0123, 'grad_norm': 0.5, 'reward': 0.25, 'kl': nan, 'epoch': 0.01}\n{'loss': 0.0, 'reward': 0.5, 'epoch': 0.02}\n"
PRIME = (
    "12:00:01   INFO Step 3 |   1.2m | Loss 0.0123 | Entropy 0.5 | Mismatch KL 0.0012 | Grad. Norm 0.05 | LR 1.00e-06\n"
)


def rows_of(tmp_path: Path, text: str, **options: int) -> list[Row]:
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8", newline="")
    return list(TextLog(path, **options).poll())


def test_slime_lines_join_both_axes_and_count_collapsed_retries(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, SLIME, steps_per_rollout=2)
    assert [row.step for row in rows] == [0, 0, 0, 0, 1]
    assert rows[0].values == {"rollout/raw_reward": 0.25, "rollout/zero_std/count_0.0": 3.0}
    assert rows[0].time == 1787306400.0
    assert math.isnan(rows[2].values["train/grad_norm"])
    assert rows[2].values["train/kl_loss"] == 1e-05
    assert "train/step" not in rows[2].values
    assert rows[4].values == {"rollout/raw_reward": 0.5, "log/allocate_429": 4.0}


def test_a_run_and_a_mere_log_of_it_read_the_same_metrics(tmp_path: Path) -> None:
    """Ray passes long lines on in pieces, and slime prints more kinds than two."""
    ray = "\x1b[36m(RolloutManager pid=4)\x1b[0m "
    lines = [
        ray + "[2026-08-21 10:00:00] x.py:1 - perf 3: {'perf/a': 1.0, 'terminal/total_s",
        "(Trainer pid=5) [2026-08-21 10:00:00] x.py:1 - step 7: {'train/loss': 1.0, 'train/ok': True}",
        ray + "amples': 2.0, 'b'",
        ray + ": tensor(3.5)}",
        ray + "multi_turn 3: {'multi_turn/turns': 4.0}",
        "passrate 3: {'passrate/p1': 0.5}",
        "eval 3: {'eval/tb': 0.25}",
        "a footstep 9: {'a': 1}",
    ]
    text = "\n".join(lines) + "\n"
    watched = [(row.step, row.values, row.time is None) for row in rows_of(tmp_path, text, steps_per_rollout=2)]
    assert watched == [
        (3, {"train/loss": 1.0, "train/ok": 1.0}, False),
        (3, {"perf/a": 1.0, "terminal/total_samples": 2.0, "b": 3.5}, False),
        (3, {"multi_turn/turns": 4.0}, True),
        (3, {"passrate/p1": 0.5}, True),
        (3, {"eval/tb": 0.25}, True),
    ]
    run = RunDirectory(tmp_path / "attempt_1")
    log = JobLog(run, "job", MetricsWriter(run.metrics_jsonl), on_save=lambda save: None)
    log.write(text)
    log.close()
    recorded = MetricsFile(run.metrics_jsonl, steps_per_rollout=2).poll()
    assert [row.values for row in recorded] == [values for _, values, _ in watched]


def test_verl_line(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, VERL + "\n")
    assert row.step == 59
    assert math.isnan(row.values.pop("actor/kl_loss"))  # type: ignore[attr-defined]
    assert row.values == {"actor/entropy": 0.5, "critic/score/mean": 0.25, "perf/throughput": 1200.0}


def test_openrlhf_bar_is_split_on_carriage_returns(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, OPENRLHF)
    assert [row.step for row in rows] == [0, 0, 1]
    assert rows[1].values == {"policy_loss": -0.115, "kl": 0.106, "reward": 1.93, "return": -1.98e-9}
    assert math.isnan(rows[2].values["policy_loss"])


def test_trl_lines_are_counted(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, TRL)
    assert [row.step for row in rows] == [0, 1]
    assert rows[0].values["grad_norm"] == 0.5
    assert math.isnan(rows[0].values["kl"])


def test_prime_rl_line(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, PRIME)
    assert (row.step, row.values) == (
        3,
        {"loss/mean": 0.0123, "entropy/mean": 0.5, "mismatch_kl/mean": 0.0012, "optim/grad_norm": 0.05},
    )


@pytest.mark.parametrize("text", [SLIME, VERL + "\n", OPENRLHF, TRL, PRIME])
def test_a_growing_log_gives_the_same_rows(tmp_path: Path, text: str) -> None:
    whole = rows_of(tmp_path, text)
    path = tmp_path / "growing.log"
    path.write_bytes(b"")
    done = [False]
    source, raw, seen = TextLog(path, is_finished=lambda: done[0]), text.encode(), []
    for start in range(0, len(raw), 37):
        with path.open("ab") as file:
            file.write(raw[start : start + 37])
        done[0] = start + 37 >= len(raw)
        seen += source.poll()
    assert repr(seen) == repr(whole)  # repr, because NaN is not equal to itself
    assert source.finished


def test_verl_jsonl_null_is_nan_and_a_restart_truncates(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"step": 3, "data": {"actor/grad_norm": null, "actor/entropy": 0.5}}\n' * 2)
    source = MetricsFile(path)
    rows = source.poll()
    assert [row.step for row in rows] == [3, 3]
    assert math.isnan(rows[0].values["actor/grad_norm"])
    path.write_bytes(b'{"step": 0, "data": {"actor/entropy": 0.5}}\n')
    assert [row.step for row in source.poll()] == [0]


def test_prime_rl_jsonl_has_several_rows_a_step(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(
        b'{"step": 1, "time": 5.5, "optim/grad_norm": 0.1}\n{"step": 1, "time": 6, "entropy/all/mean": 0.2}\n'
    )
    rows = MetricsFile(path).poll()
    assert [(row.step, row.time) for row in rows] == [(1, 5.5), (1, 6.0)]


def test_null_in_our_own_file_is_no_value_unless_it_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"rollout/step": 1, "a": null, "b": null, "nan": ["b"]}\n')
    (row,) = MetricsFile(path).poll()
    assert list(row.values) == ["b"]
    assert math.isnan(row.values["b"])


def test_trainer_state_is_rewritten_at_every_save(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text('{"log_history": ["no object", {"loss": NaN, "step": 10}]}')
    source = TrainerState(path)
    (row,) = source.poll()
    assert (row.step, math.isnan(row.values["loss"])) == (10, True)
    path.write_text('{"log_history": ["no object", {"loss": NaN, "step": 10}, {"loss": 1.0, "step": 20}]}')
    assert [row.step for row in source.poll()] == [20]


@pytest.mark.parametrize("content", ["[]", "{}", '{"log_history": 5}', "{", "[" * 100_000, '{"log_history": {}}'])
def test_what_is_no_trainer_state_is_said_so(content: str, tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text(content)
    with pytest.raises(BadInput, match="no list `log_history`"):
        TrainerState(path).poll()


def test_a_trainer_state_without_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trainer_state.json"
    with path.open("wb") as stream:
        stream.truncate(1 << 36)
    monkeypatch.setattr("t1cli.watch.sources.trainer_state.MAX_BYTES", 1 << 20)
    with pytest.raises(BadInput, match="more than 1,048,576 bytes"):
        TrainerState(path).poll()


def test_log_lines_join_the_step_in_which_they_were_written(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    failed = "[1970-01-01 00:{:02d}:00] health_monitor.py:88 - Health check failed for rollout engine 3 (ray timeout)\n"
    (logs / "engine.log").write_text(failed.format(1) + failed.format(1) + failed.format(9))
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"rollout/step": {s}, "time": {t}, "a": 1}}\n' for s, t in ((0, 30), (1, 90), (2, 999))))
    rows = BesideLogs(MetricsFile(path), logs).poll()
    assert [row.values.get("log/engine_health_failed") for row in rows] == [0.0, 2.0, 1.0]
