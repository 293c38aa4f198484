"""Reading back what `trial_log` writes: the trials of a run's rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from t1cli.records import read_lines
from t1cli.terminal.rewards.verdict import Verdict


@dataclass(frozen=True)
class RecordedTurn:
    """One reply and what came back."""

    reply: str
    kind: str
    observation: str
    exit_code: int | None
    sampled_tokens: int


@dataclass(frozen=True)
class RecordedTrial:
    """One agent on one task."""

    rollout: int
    trial_id: str
    task: str
    family: str
    scored: bool
    cause: str
    """What lost it; empty for a scored one."""
    stop: str
    reward: float | None
    verdict: Verdict | None
    sampled_tokens: int
    lost_tokens: int
    instruction: str
    turns: tuple[RecordedTurn, ...]

    @property
    def outcome(self) -> str:
        """`scored`, or what lost it."""
        return "scored" if self.scored else self.cause

    @property
    def solved(self) -> bool:
        return self.verdict is not None and self.verdict.solved


def read_trials(trials_dir: Path, *, newest: int | None = None) -> Iterator[RecordedTrial]:
    """Every trial of the `newest` rollouts (null: of all), in the order in which they ended.

    What cannot be read is passed over; a file is read a line at a time.
    """
    found = trials_dir.glob("rollout_*.jsonl") if trials_dir.is_dir() else ()
    logs = sorted((int(number), path) for path in found if (number := path.stem.removeprefix("rollout_")).isdecimal())
    for rollout, path in logs if newest is None else logs[-newest:]:
        for line in read_lines(path):
            trial = _trial(line, rollout)
            if trial is not None:
                yield trial


def _trial(found: Mapping[str, Any], rollout: int) -> RecordedTrial | None:
    reward = found.get("reward")
    try:
        scored = bool(found["scored"])
        return RecordedTrial(
            rollout=rollout,
            trial_id=str(found["trial_id"]),
            task=str(found.get("task", "")),
            family=str(found.get("family", "")),
            scored=scored,
            cause="" if scored else str(found.get("cause") or found.get("boundary") or "lost"),
            stop=str(found.get("stop", "")),
            reward=float(reward["value"]) if reward else None,
            verdict=_verdict(found.get("verdict")),
            sampled_tokens=int(found.get("sampled_tokens", 0)),
            lost_tokens=int(found.get("lost_tokens", 0)),
            instruction=str(found.get("instruction", "")),
            turns=tuple(_turn(turn) for turn in found.get("turns", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _verdict(found: Mapping[str, Any] | None) -> Verdict | None:
    known = {field.name for field in fields(Verdict)}
    return Verdict(**{name: value for name, value in found.items() if name in known}) if found else None


def _turn(found: Mapping[str, Any]) -> RecordedTurn:
    return RecordedTurn(
        str(found.get("reply", "")),
        str(found.get("kind", "")),
        str(found.get("observation", "")),
        found.get("exit_code"),
        int(found.get("sampled_tokens", 0)),
    )
