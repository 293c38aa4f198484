"""What an evaluation measured, on its way from a job to whoever asked: a file on a shared disk, else the log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from t1cli.records import number_in, read_json, write_json

TRIAL_MARK: Final = "T1-TRIAL "
END_MARK: Final = "T1-EVALUATION "
FILE: Final = "evaluation.json"


@dataclass(frozen=True)
class Measured:
    """The trials of one evaluation."""

    scheduled: int
    solved: Mapping[str, Sequence[float]]
    """1 or 0 per scored trial, by task."""
    rewards: Sequence[float]


@dataclass(frozen=True)
class TrialSeen:
    """One trial, as a line of a job's log."""

    task: str
    solved: float | None
    """None for a trial that the infrastructure lost."""
    reward: float | None
    lost: str = ""
    """Boundary and cause of a lost trial."""

    def line(self) -> str:
        """As it is printed; short, so that Ray passes it on in one piece."""
        return TRIAL_MARK + json.dumps(asdict(self))

    @property
    def told(self) -> str:
        """As people read it."""
        return f"{self.task}  lost: {self.lost}" if self.reward is None else f"{self.task}  reward {self.reward:.3f}"


def end_line(scheduled: int) -> str:
    """The last line of an evaluation's log."""
    return END_MARK + json.dumps({"scheduled": scheduled})


def trial_in(line: str) -> TrialSeen | None:
    """The trial that a line of a log tells of."""
    value = _object_behind(TRIAL_MARK, line)
    if value is None or not isinstance(value.get("task"), str):
        return None
    solved, reward = value.get("solved"), value.get("reward")
    if solved is None or reward is None:
        return TrialSeen(value["task"], None, None, str(value.get("lost", "")))
    return TrialSeen(value["task"], number_in(solved), number_in(reward))


def of_trials(scheduled: int, trials: Sequence[TrialSeen]) -> Measured:
    """Lost trials count as scheduled alone."""
    solved: dict[str, list[float]] = {}
    for trial in trials:
        if trial.solved is not None:
            solved.setdefault(trial.task, []).append(trial.solved)
    return Measured(scheduled, solved, [trial.reward for trial in trials if trial.reward is not None])


def write_measured(run: Path, found: Measured) -> None:
    """Leave it in the run directory."""
    write_json(run / FILE, asdict(found))


def read_measured(run: Path, log: Path) -> Measured | None:
    """From the run directory, else from the job's log; None when neither holds all of it."""
    value = read_json(run / FILE)
    return _measured(value) if value is not None else _in_log(log)


def _measured(value: Mapping[str, Any]) -> Measured | None:
    try:
        solved = {str(task): [float(one) for one in every] for task, every in value["solved"].items()}
        return Measured(int(value["scheduled"]), solved, [float(one) for one in value["rewards"]])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _in_log(log: Path) -> Measured | None:
    trials: list[TrialSeen] = []
    scheduled: int | None = None
    if not log.is_file():
        return None
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if (trial := trial_in(line)) is not None:
                trials.append(trial)
            elif (end := _object_behind(END_MARK, line)) is not None:
                scheduled = int(number_in(end.get("scheduled")))
    # A log whose middle was lost would make a smaller, better looking evaluation.
    return of_trials(scheduled, trials) if scheduled is not None and scheduled == len(trials) else None


def _object_behind(mark: str, line: str) -> dict[str, Any] | None:
    _, found, text = line.partition(mark)
    if not found:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
