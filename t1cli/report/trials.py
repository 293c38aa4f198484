"""Trials as a run has recorded them, and which of them are worth reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from t1cli.launch.run_directory import RunDirectory
from t1cli.records import read_lines

READ_ROLLOUTS = 400
"""Newest rollouts whose trials are read; a page about a thousand would not open."""


@dataclass(frozen=True)
class Turn:
    """One reply and what came back."""

    reply: str
    kind: str
    observation: str
    exit_code: int | None
    sampled_tokens: int


@dataclass(frozen=True)
class Trial:
    """One agent on one task."""

    rollout: int
    trial_id: str
    task: str
    family: str
    outcome: str
    """`scored`, or the cause that lost it."""
    stop: str
    reward: float | None
    solved: bool
    passed: int | None
    total: int | None
    sampled_tokens: int
    lost_tokens: int
    instruction: str
    turns: tuple[Turn, ...]


def read_trials(run: RunDirectory) -> tuple[Trial, ...]:
    """Every trial of the newest rollouts, in the order in which they ended; what cannot be read is passed over."""
    files = sorted(run.trials.glob("rollout_*.jsonl"))[-READ_ROLLOUTS:] if run.trials.is_dir() else []
    return tuple(
        trial
        for path in files
        for line in read_lines(path)
        if (trial := _trial(line, int(path.stem.removeprefix("rollout_")))) is not None
    )


def worth_reading(trials: Sequence[Trial], limit: int = 12) -> tuple[tuple[str, Trial], ...]:
    """Why, and which: first and last solved, best, worst, longest, cut off, and one for each cause of loss."""
    scored = [trial for trial in trials if trial.reward is not None]
    wanted: list[tuple[str, Trial]] = []
    if scored:
        wanted += [
            ("highest reward", max(scored, key=lambda t: t.reward or 0.0)),
            ("lowest reward", min(scored, key=lambda t: t.reward or 0.0)),
            ("most turns", max(scored, key=lambda t: len(t.turns))),
            ("newest", scored[-1]),
            ("oldest", scored[0]),
        ]
        solved = [trial for trial in scored if trial.solved]
        if solved:
            wanted.append(("solved with the fewest tokens", min(solved, key=lambda t: t.sampled_tokens)))
        wanted += [(f"ended by {stop}", _first(scored, stop)) for stop in sorted({t.stop for t in scored} - {"done"})]
    for cause in sorted({t.outcome for t in trials} - {"scored"}):
        wanted.append((f"lost: {cause}", next(t for t in trials if t.outcome == cause)))
    reasons: dict[str, list[str]] = {}
    for reason, trial in wanted:
        reasons.setdefault(trial.trial_id, []).append(reason)
    by_id = {trial.trial_id: trial for _, trial in wanted}
    return tuple((", ".join(why), by_id[trial_id]) for trial_id, why in reasons.items())[:limit]


def _first(trials: Sequence[Trial], stop: str) -> Trial:
    return next(trial for trial in trials if trial.stop == stop)


def _trial(found: Mapping[str, Any], rollout: int) -> Trial | None:
    reward, verdict = found.get("reward") or {}, found.get("verdict") or {}
    try:
        scored = bool(found["scored"])
        return Trial(
            rollout=rollout,
            trial_id=str(found["trial_id"]),
            task=str(found.get("task", "")),
            family=str(found.get("family", "")),
            outcome="scored" if scored else str(found.get("cause") or found.get("boundary") or "lost"),
            stop=str(found.get("stop", "")),
            reward=float(reward["value"]) if reward else None,
            solved=bool(verdict.get("solved")),
            passed=verdict.get("passed"),
            total=verdict.get("total"),
            sampled_tokens=int(found.get("sampled_tokens", 0)),
            lost_tokens=int(found.get("lost_tokens", 0)),
            instruction=str(found.get("instruction", "")),
            turns=tuple(_turn(turn) for turn in found.get("turns", ())),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _turn(found: Mapping[str, Any]) -> Turn:
    return Turn(
        str(found.get("reply", "")),
        str(found.get("kind", "")),
        str(found.get("observation", "")),
        found.get("exit_code"),
        int(found.get("sampled_tokens", 0)),
    )
