"""Finished trials of a rollout that is not complete yet, on disk as they end, so that a resume runs only the rest."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput
from t1cli.records import write_json
from t1cli.terminal.harness.agent import TurnNote
from t1cli.terminal.harness.summary import SummaryCounts
from t1cli.terminal.rewards.verdict import RewardResult, Verdict
from t1cli.terminal.rollout.outcome import Outcome, StopReason
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.tasks.task import Task
from t1cli.terminal.trajectory.store import load_rows, save_rows

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Left:
    """What an interrupted session left."""

    trials: tuple[TrialResult, ...]
    """Those that count as they are."""
    stale_tokens: int
    """Sampled for finished trials that do not: other weights than today's finished them, or other rollouts had them."""


class FinishedTrials:
    """One directory per rollout; a trial is there when its record is, which is written last and in one step."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def add(self, rollout_id: int, result: TrialResult) -> None:
        """Keep a scored trial; others have nothing that could be used again."""
        if not result.outcome.scored or not result.rows:
            return
        place = self._of(rollout_id)
        rows = place / f"{result.plan.trial_id}.npz"
        save_rows(rows, result.rows)
        record = {**_record(result), "format_version": FORMAT_VERSION, "rows": rows.name, "digest": _digest(rows)}
        write_json(place / f"{result.plan.trial_id}.json", record)

    def take_up(self, rollout_id: int, tasks: Mapping[int, Task], versions: range) -> Left:
        """What a resumed session goes on with, as `load` finds it; everything else is dropped, and its tokens told."""
        sampled_tokens = sum(map(_tokens, self.directory.glob("rollout_*/*.json")))
        self._keep_only(rollout_id)
        trials = self.load(rollout_id, tasks, versions)
        return Left(trials, sampled_tokens - sum(trial.sampled_tokens + trial.lost_tokens for trial in trials))

    def load(self, rollout_id: int, tasks: Mapping[int, Task], versions: range) -> tuple[TrialResult, ...]:
        """The trials kept of a rollout, bit for bit, by group and sample.

        Only those of the same task in the same group (`tasks`: group id to task) that were sampled by `versions` of the
        weights throughout; what cannot be read is run again.
        """
        found: dict[tuple[int, int], TrialResult] = {}
        for path in sorted(self._of(rollout_id).glob("*.json")):
            result = _read(path, tasks)
            if result is not None and all(v in versions for row in result.rows for v in row.weight_versions):
                found[(result.plan.group_id, result.plan.sample)] = result
        return tuple(found[key] for key in sorted(found))

    def forget(self, rollout_id: int) -> None:
        """Remove what was kept of a rollout, once its rows are on disk as a whole."""
        shutil.rmtree(self._of(rollout_id), ignore_errors=True)

    def _keep_only(self, rollout_id: int) -> None:
        """Remove every other rollout: after a resume they were sampled by weights that are gone."""
        for entry in self.directory.iterdir() if self.directory.is_dir() else ():
            if entry != self._of(rollout_id):
                shutil.rmtree(entry, ignore_errors=True)

    def _of(self, rollout_id: int) -> Path:
        return self.directory / f"rollout_{rollout_id:06d}"


def _tokens(record: Path) -> int:
    """What a kept trial sampled; 0 for a record that says nothing readable."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        return int(found["sampled_tokens"]) + int(found["lost_tokens"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0


def _record(result: TrialResult) -> dict[str, Any]:
    plan = result.plan
    return {
        "trial_id": plan.trial_id,
        "group_id": plan.group_id,
        "sample": plan.sample,
        "attempt": plan.attempt,
        "seed": plan.seed,
        "task": plan.task.name,
        "stop": result.outcome.stop.value,
        "verdict": asdict(result.verdict) if result.verdict else None,
        "reward": asdict(result.reward) if result.reward else None,
        "notes": [asdict(note) for note in result.notes],
        "sampled_tokens": result.sampled_tokens,
        "lost_tokens": result.lost_tokens,
        "held_tokens": result.held_tokens,
        "summaries": asdict(result.summaries),
        "seconds": dict(result.seconds),
        "budget_shortened": result.budget_shortened,
    }


def _read(path: Path, tasks: Mapping[int, Task]) -> TrialResult | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        task = tasks.get(record["group_id"])
        rows = path.with_name(record["rows"])
        if record["format_version"] != FORMAT_VERSION or task is None or task.name != record["task"]:
            return None
        if _digest(rows) != record["digest"]:
            return None
        return _result(record, task, rows)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, BadInput):
        return None


def _result(record: dict[str, Any], task: Task, rows: Path) -> TrialResult:
    names = ("trial_id", "group_id", "sample", "attempt", "seed")
    return TrialResult(
        plan=TrialPlan(task=task, **{name: record[name] for name in names}),
        outcome=Outcome(True, StopReason(record["stop"])),
        rows=load_rows(rows),
        verdict=Verdict(**record["verdict"]) if record["verdict"] else None,
        reward=RewardResult(**record["reward"]) if record["reward"] else None,
        notes=tuple(TurnNote(**note) for note in record["notes"]),
        sampled_tokens=record["sampled_tokens"],
        lost_tokens=record["lost_tokens"],
        held_tokens=record.get("held_tokens", 0),
        # Records of before there were summaries have none.
        summaries=SummaryCounts(**record.get("summaries", {})),
        seconds=record["seconds"],
        budget_shortened=record["budget_shortened"],
    )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
