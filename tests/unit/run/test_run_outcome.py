"""What a run came to, for people: what changed, whether anything could be learnt, how often it was resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from t1cli.records import write_text
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventKind, EventWriter
from t1cli.run.metric_names import CHECK_RATE
from t1cli.run.metrics_writer import MetricsWriter
from t1cli.run.reward_signal import rollouts_without_signal
from t1cli.run.summary import Resumed, summarize
from t1cli.run.what_changed import what_changed
from t1cli.ui.runs_view import print_runs
from t1cli.ui.status_view import print_outcome, print_status


class Written:
    """A run directory that is written by hand, with a clock of its own."""

    def __init__(self, path: Path) -> None:
        self.run = RunDirectory(path / "own" / "attempt_1")
        self.run.path.mkdir(parents=True)
        self.now = 1000.0
        self._events = EventWriter(self.run.events_jsonl, clock=lambda: self.now)
        self._metrics = MetricsWriter(self.run.metrics_jsonl, clock=lambda: self.now)

    def event(self, at: float, kind: EventKind, **fields: Any) -> None:
        self.now = at
        self._events.write(kind, **fields)

    def rollouts(self, *rates: float) -> None:
        for rollout, rate in enumerate(rates):
            self._metrics.rollout(rollout, {CHECK_RATE: rate})

    def trials(self, rollout: int, rewards: dict[str, list[float]], *, scored: bool = True) -> None:
        lines = [
            {"task": task, "scored": scored, "reward": {"value": value}}
            for task, all_ in rewards.items()
            for value in all_
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        write_text(self.run.trials / f"rollout_{rollout:06d}.jsonl", text)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "runs")


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        (
            [0.4] * 5 + [0.5] * 9 + [0.6] * 5,
            "check rate rose from 0.400 (first 5 rollouts) to 0.600 (last 5), on the tasks",
        ),
        ([0.6] * 5 + [0.4] * 5, "check rate fell from 0.600 (first 5 rollouts) to 0.400 (last 5), on the tasks"),
        ([0.17] * 8, "check rate stayed at 0.170 (first and last 5 rollouts, which overlap), on the tasks"),
        ([0.4, 0.6], ""),
        ([0.4], ""),
        ([], ""),
    ],
)
def test_what_changed_is_one_sentence_with_its_caveat(written: Written, rates: list[float], said: str) -> None:
    written.rollouts(*rates)
    found = what_changed(summarize(written.run))
    assert found.startswith(said)
    assert not said or found.endswith("only an evaluation tells about others")


def test_where_every_trial_of_a_task_earns_the_same_nothing_can_be_learnt(written: Written) -> None:
    for rollout in range(8):
        written.trials(rollout, {"a": [0.05] * 3, "b": [0.0] * 3})
    assert rollouts_without_signal(written.run) == 5
    written.trials(6, {"a": [0.05, 0.0, 0.05]})
    assert rollouts_without_signal(written.run) == 0


def test_one_reward_everywhere_is_told_even_where_no_task_comes_twice(written: Written) -> None:
    written.trials(0, {"a": [0.0], "b": [0.0]})
    assert rollouts_without_signal(written.run) == 1
    written.trials(1, {"c": [1.0], "d": [0.0]})
    assert rollouts_without_signal(written.run) == 0, "tasks that differ from each other say nothing about their trials"


def test_lost_trials_and_runs_without_any_say_nothing(written: Written) -> None:
    assert rollouts_without_signal(written.run) == 0
    written.trials(0, {"a": [0.0] * 4}, scored=False)
    assert rollouts_without_signal(written.run) == 0


def test_a_resumed_run_keeps_its_first_beginning_and_says_when_it_was_resumed(
    written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    written.event(1000, EventKind.LAUNCHED, session=1, resumed=False)
    written.event(1300, EventKind.ROLLOUT_ENDED, rollout=0)
    written.event(9000, EventKind.LAUNCHED, session=2, resumed=True, resumed_from_rollout=8)
    written.event(9100, EventKind.ENDED, outcome="finished", detail="")
    found = summarize(written.run)
    assert (found.began, found.session_began, found.ended) == (1000, 9000, 9100)
    assert found.resumed == (Resumed(9000, 8),)
    assert found.earlier_seconds == 300, "the hours in which nothing ran are not the run's"
    print_runs([found], written.run.path.parent.parent)
    print_status(found)
    table, status = capsys.readouterr().out.split("own attempt 1", 1)
    assert table.splitlines()[0].split() == ["run", "attempt", "state", "rollouts", "reward", "began", "resumed"]
    assert "1×, last " in table
    assert "resumed 1 time, last " in status and " at rollout 9\n" in status


def test_a_finished_run_proposes_three_commands_other_than_the_one_asked(
    written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    written.rollouts(*[0.4] * 5, *[0.6] * 5)
    written.trials(0, {"a": [0.0] * 3})
    written.event(1000, EventKind.LAUNCHED, session=1, resumed=False)
    written.event(1100, EventKind.ENDED, outcome="finished", detail="")
    summary = summarize(written.run, trials=True)

    def proposed(asked: str) -> list[str]:
        print_outcome(summary, asked=asked)
        out = capsys.readouterr().out
        assert "check rate rose" in out and "nothing can be learnt from them" in out
        return [line[6:].split()[1] for line in out[out.index("Next:") :].splitlines()]

    assert proposed("status") == ["report", "audit", "watch"]
    assert proposed("watch") == ["report", "audit", "status"]
    write_text(written.run.spec_yaml, "evaluation: {name: held-out}\n")
    summary = summarize(written.run, trials=True)
    assert proposed("status") == ["report", "audit", "eval"]
    assert summary.next_command.endswith("--replay")
