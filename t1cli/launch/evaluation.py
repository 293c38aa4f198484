"""`t1 eval`: what an evaluation of one checkpoint found."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput
from t1cli.run.measured import Measured
from t1cli.spec.command_line import command_line
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec

FORMAT_VERSION = 1


@dataclass(frozen=True)
class EvaluationAnswer:
    """One checkpoint on one task set. A mean is over scored trials; read it only beside scored and scheduled.

    (catalogue C10 at report)
    """

    name: str
    checkpoint: str
    scheduled: int
    scored: int
    solved: int
    mean_reward: float | None
    solved_rate: float | None
    """Mean over tasks of a task's share of solved trials."""
    spread: float | None
    """Standard deviation of the solved rate over repeats; None with one repeat."""
    interval: tuple[float, float] | None
    """95 %: mean ± 1.96 standard errors over tasks, which are the independent draws; repeats of a task are not."""

    @property
    def complete(self) -> bool:
        return self.scored == self.scheduled

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        return {"format_version": FORMAT_VERSION, **asdict(self), "complete": self.complete}


def summarise(name: str, checkpoint: str, found: Measured) -> EvaluationAnswer:
    """What is told of the trials."""
    every = [value for values in found.solved.values() for value in values]
    means = [statistics.fmean(values) for values in found.solved.values()]
    rate = statistics.fmean(means) if means else None
    return EvaluationAnswer(
        name=name,
        checkpoint=checkpoint,
        scheduled=found.scheduled,
        scored=len(every),
        solved=round(sum(every)),
        mean_reward=statistics.fmean(found.rewards) if found.rewards else None,
        solved_rate=rate,
        spread=_spread(list(found.solved.values())),
        interval=_interval(means),
    )


def nothing_to_measure_by(
    loaded: LoadedSpec, asked: Sequence[str], overrides: Sequence[str], runs_dir: Path | None
) -> BadInput:
    """What a spec without an evaluation block is told: the same command with the keys of the block."""
    rollout = loaded.spec.rollout
    keys = {
        "name": "held-out",
        "path": "DIRECTORY",
        "num_tasks": "NUMBER",
        "context_tokens": rollout.context_tokens,
        "max_new_tokens_per_turn": rollout.max_new_tokens_per_turn,
        "max_turns": rollout.max_turns,
    }
    settings = [*overrides, *(f"evaluation.{key}={value}" for key, value in keys.items())]
    return BadInput(
        "the spec has no `evaluation` block: there is nothing to measure by",
        where=str(loaded.path),
        hint="write these keys under `evaluation:`, with tasks that are not trained on, or give them here: "
        f"`{command_line(*asked, overrides=settings, runs_dir=runs_dir)}`",
    )


def evaluate_here(
    spec: ExperimentSpec, checkpoint: Path, on_line: Callable[[str], None] = lambda line: None
) -> EvaluationAnswer:
    """On the embedded engine. Raises BadInput without an evaluation block or weights."""
    from t1cli.launch.embedded_backend import evaluate_embedded

    if spec.evaluation is None:
        raise BadInput("the spec has no `evaluation` block: there is nothing to measure by")
    return summarise(spec.evaluation.name, str(checkpoint), evaluate_embedded(spec, checkpoint, on_line))


def _spread(by_task: Sequence[Sequence[float]]) -> float | None:
    repeats = min((len(values) for values in by_task), default=0)
    if repeats < 2:
        return None
    return statistics.stdev(statistics.fmean(values[i] for values in by_task) for i in range(repeats))


def _interval(means: Sequence[float]) -> tuple[float, float] | None:
    if len(means) < 2:
        return None
    middle, half = statistics.fmean(means), 1.96 * statistics.stdev(means) / math.sqrt(len(means))
    return max(0.0, middle - half), min(1.0, middle + half)
