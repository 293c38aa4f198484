"""The one place where a launch asks the slime room for the command of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from t1cli.launch.run_directory import RunDirectory
from t1cli.launch.save_directories import save_directories
from t1cli.slime.compile.campaign import compile_campaign
from t1cli.slime.compile.places import Places
from t1cli.slime.start_point import StartPoint
from t1cli.spec.engine import SlimeEngine
from t1cli.spec.experiment import ExperimentSpec


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
    """slime's eval-only run of one checkpoint: no rollout, no save. `spec` has an evaluation block."""
    assert spec.evaluation is not None
    evaluation = spec.evaluation.model_copy(update={"before_training": True})
    compiled = compile_session(spec.model_copy(update={"evaluation": evaluation}), run, StartPoint())
    argv = compiled.evaluation_argv
    assert argv is not None
    return replace(compiled, argv=(*_without(argv, "--load"), "--load", checkpoint), evaluation_argv=None)


def _without(argv: tuple[str, ...], flag: str) -> tuple[str, ...]:
    """An argument list without one flag and its value."""
    if flag not in argv:
        return argv
    at = argv.index(flag)
    return (*argv[:at], *argv[at + 2 :])
