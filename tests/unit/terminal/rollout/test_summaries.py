"""Summaries of a whole rollout: counted, exactly accounted for, kept over a resume, and absent where none was made."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.terminal.harness.limits import SummaryLimits
from t1cli.terminal.harness.summary import SummaryCounts
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.finished import FinishedTrials
from t1cli.terminal.rollout.plan import RolloutPlan, RolloutResult, group_tasks
from t1cli.terminal.rollout.trial_log import append_trial

LONG = "a" * 1500
REPLIES = {
    "full": [LONG, "what was done"],
    "short": [LONG, "s" * 500],
    "silent": [LONG, ""],
    "brief": ["b"],
}
"""By task: its commands, and what follows the request for a summary. The chat after it says at once that it is done."""


def rollout_of(doubles: SimpleNamespace, directory: Path, *names: str) -> tuple[RolloutResult, RolloutPlan]:
    engine = doubles.ScriptedEngine(lambda instruction: REPLIES.get(instruction, []))
    limits = doubles.replace(
        doubles.LIMITS, max_new_tokens_per_turn=1510, summary=SummaryLimits(trigger_tokens=1600, max_new_tokens=200)
    )
    world = doubles.make_world(engine, directory, limits=limits)
    plan = RolloutPlan(3, tuple(doubles.task_named(name) for name in names), accept=len(names))
    result = asyncio.run(run_rollout(world, plan))
    assert result.metrics["terminal/sampled_tokens"] == engine.sampled
    return result, plan


@pytest.mark.catalogue("R9")
def test_a_rollout_says_what_became_of_its_summaries(doubles: SimpleNamespace, tmp_path: Path) -> None:
    result, _ = rollout_of(doubles, tmp_path, *REPLIES)
    expected = {
        "terminal/summary_tried": 3.0,
        "terminal/summary_full": 1.0,
        "terminal/summary_short": 1.0,
        "terminal/summary_fallback": 1.0,
        "terminal/summary_fallback_ratio": 1 / 3,
        "terminal/unaccounted_tokens": 0.0,
        "terminal/drifted_in_loss": 0.0,
        "terminal/rows": 7.0,
        "terminal/relation/split": 3.0,
        "terminal/trained_tokens": result.metrics["terminal/sampled_tokens"],
    }
    assert {name: result.metrics.get(name) for name in expected} == pytest.approx(expected)
    assert len({(row.trial_id, row.group_id) for row in result.rows}) == 4, "a trial's rows are of one group"


def test_where_no_summary_was_tried_nothing_is_said(doubles: SimpleNamespace, tmp_path: Path) -> None:
    result, _ = rollout_of(doubles, tmp_path, "brief")
    assert [name for name in result.metrics if "summary" in name] == []


def test_counts_are_kept_over_a_resume_and_written_to_the_trial_log(doubles: SimpleNamespace, tmp_path: Path) -> None:
    result, plan = rollout_of(doubles, tmp_path, "full", "brief")
    store, log = FinishedTrials(tmp_path / "finished"), tmp_path / "log.jsonl"
    for trial in result.accepted:
        store.add(3, trial)
        append_trial(log, trial)
    kept = store.load(3, group_tasks(plan), range(1, 2))
    assert {t.plan.task.name: t.summaries for t in kept} == {"full": SummaryCounts(full=1), "brief": SummaryCounts()}
    logged = {line["task"]: line for line in map(json.loads, log.read_text().splitlines())}
    assert logged["full"]["summaries"] == {"full": 1, "short": 0, "fallback": 0}
    assert logged["brief"]["summaries"] is None
    assert [turn["kind"] for turn in logged["full"]["turns"]] == ["command", "summary", "done"]
