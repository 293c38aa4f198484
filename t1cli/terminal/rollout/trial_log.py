"""One JSON line per finished trial, so that a person can read what happened turn by turn."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from t1cli.records import append_line
from t1cli.terminal.rollout.result import TrialResult

TEXT_LIMIT = 4000
"""Characters kept of one reply or observation."""


def log_path(trials_dir: Path, rollout_id: int) -> Path:
    """The log of one rollout's trials."""
    return trials_dir / f"rollout_{rollout_id:06d}.jsonl"


def append_trial(path: Path, result: TrialResult) -> None:
    """Add one trial as one line."""
    append_line(path, trial_json(result))


def trial_json(result: TrialResult) -> dict[str, Any]:
    """A trial as JSON: what was asked, every turn, how it ended, what it was worth, where the time went."""
    plan = result.plan
    return {
        "trial_id": plan.trial_id,
        "group_id": plan.group_id,
        "sample": plan.sample,
        "attempt": plan.attempt,
        "task": plan.task.name,
        "family": plan.task.family,
        "difficulty": plan.task.difficulty,
        "scored": result.outcome.scored,
        "stop": result.outcome.stop.value,
        "boundary": result.outcome.boundary.value if result.outcome.boundary else None,
        "cause": result.outcome.cause,
        "detail": result.outcome.detail[:TEXT_LIMIT],
        "reward": asdict(result.reward) if result.reward else None,
        "verdict": asdict(result.verdict) if result.verdict else None,
        "sampled_tokens": result.sampled_tokens,
        "lost_tokens": result.lost_tokens,
        "summaries": asdict(result.summaries) if result.summaries.tried else None,
        "seconds": {part: round(seconds, 4) for part, seconds in result.seconds.items()},
        "budget_shortened": result.budget_shortened,
        "close_problem": result.close_problem,
        "instruction": plan.task.instruction[:TEXT_LIMIT],
        "turns": [
            asdict(note) | {"reply": note.reply[:TEXT_LIMIT], "observation": note.observation[:TEXT_LIMIT]}
            for note in result.notes
        ],
    }
