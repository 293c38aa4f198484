"""The one place where a launch asks the slime room for the command of a session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from t1cli.run.directory import RunDirectory
from t1cli.run.save_directories import save_directories
from t1cli.slime.arguments.check import check_arguments
from t1cli.slime.arguments.problem import Problem
from t1cli.slime.arguments.read import read
from t1cli.slime.arguments.table import load_table
from t1cli.slime.compile.campaign import compile_campaign, evaluation_arguments
from t1cli.slime.compile.places import Places
from t1cli.slime.start_point import StartPoint
from t1cli.spec.engine import SlimeEngine
from t1cli.spec.experiment import ExperimentSpec

_ITERATION: Final = re.compile(r"iter_\d{7}")


@dataclass(frozen=True)
class Compiled:
    """The command of one session."""

    argv: tuple[str, ...]
    """From the entry script on."""
    env: Mapping[str, str]
    role_file: Mapping[str, Any] | None
    evaluation_argv: tuple[str, ...] | None = None
    """The eval-only job that goes first where the entry never evaluates before training; from its entry on."""


def compile_session(spec: ExperimentSpec, run: RunDirectory, start: StartPoint) -> Compiled:
    """Arguments, environment and role file of a session that begins at `start`."""
    engine = spec.engine
    assert isinstance(engine, SlimeEngine)
    directories = save_directories(spec, run)
    critic = None if directories.critic is None else str(directories.critic)
    compiled = compile_campaign(spec, Places(str(directories.actor), critic, start))
    first = compiled.evaluation_argv
    return Compiled(
        argv=(f"{engine.slime_dir}/{compiled.entry}", *compiled.argv),
        env=compiled.environment,
        role_file=compiled.role_file,
        evaluation_argv=None if first is None else (f"{engine.slime_dir}/train.py", *first),
    )


def compile_evaluation(spec: ExperimentSpec, run: RunDirectory, checkpoint: str) -> Compiled:
    """slime's eval-only run of one checkpoint: no rollout, no critic, no save. `spec` has an evaluation block.

    `checkpoint` is a role directory, of which the newest save is taken, or one `iter_N` of it.
    """
    engine = spec.engine
    assert isinstance(engine, SlimeEngine)
    assert spec.evaluation is not None
    compiled = compile_session(spec, run, StartPoint())
    places = Places(str(save_directories(spec, run).actor), None)
    arguments = evaluation_arguments(spec, places, load_flags(checkpoint))
    return Compiled((f"{engine.slime_dir}/train.py", *arguments), compiled.env, role_file=None)


def load_flags(checkpoint: str) -> dict[str, str]:
    """`--load` wants the directory that holds the tracker; an iteration below it is named by its number."""
    path = Path(checkpoint)
    if _ITERATION.fullmatch(path.name):
        return {"--load": str(path.parent), "--ckpt-step": str(int(path.name.removeprefix("iter_")))}
    return {"--load": checkpoint.rstrip("/") or checkpoint}


def evaluation_problems(spec: ExperimentSpec, compiled: Compiled) -> tuple[Problem, ...]:
    """What is wrong with the arguments of an eval-only run, errors first."""
    assert isinstance(spec.engine, SlimeEngine)
    table = load_table(spec.engine.version)
    return check_arguments(read(compiled.argv[1:], table, environment=dict(compiled.env), asynchronous=False))
