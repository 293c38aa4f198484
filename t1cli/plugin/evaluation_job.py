"""A job that evaluates one checkpoint and ends: that it is the right one, and how its answer leaves the job."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from t1cli.errors import Refused
from t1cli.launch.slime.compile import load_flags
from t1cli.run.measured import TrialSeen, end_line, of_trials, write_measured
from t1cli.terminal.rollout.evaluate import EvaluationResult
from t1cli.terminal.rollout.result import TrialResult

logger = logging.getLogger(__name__)


def assert_loaded(args: Any, checkpoint: str) -> None:
    """Raises Refused when slime loads something else: it takes the initial weights for a directory without a save.

    slime v0.3.0, `utils/arguments.py:slime_validate_args`: without a tracker below `--load` it becomes `--ref-load`.
    """
    wanted = load_flags(checkpoint)["--load"]
    if getattr(args, "load", None) != wanted:
        raise Refused(
            f"slime loaded {args.load} and not {wanted}: that directory holds no finished Megatron checkpoint",
            where=wanted,
            hint="a role directory with latest_checkpointed_iteration.txt, or one iter_N of it",
        )


def tell(trial: TrialResult) -> None:
    """One line of the job's log."""
    print(_seen(trial).line(), flush=True)


def hand_over(run: Path, result: EvaluationResult) -> None:
    """Into the run directory for whoever shares the disk, and into the log for whoever does not."""
    try:
        write_measured(run, of_trials(result.scheduled, [_seen(trial) for trial in result.trials]))
    except OSError as problem:
        logger.warning("the evaluation stands in the log alone: %s", problem)
    print(end_line(result.scheduled), flush=True)


def _seen(trial: TrialResult) -> TrialSeen:
    name = trial.plan.task.name
    if not trial.outcome.scored or trial.reward is None:
        return TrialSeen(name, None, None, f"{trial.outcome.boundary}/{trial.outcome.cause}")
    return TrialSeen(name, float(trial.reward.binary), trial.reward.value)
