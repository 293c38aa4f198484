"""A spec as slime's command: entry, arguments, role file and environment, each checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from t1cli.slime.arguments.changes import FILLED
from t1cli.slime.arguments.check import check_arguments
from t1cli.slime.arguments.problem import Problem
from t1cli.slime.arguments.read import read
from t1cli.slime.arguments.table import Table, load_table
from t1cli.slime.compile import environment as environment_rules
from t1cli.slime.compile.environment import environment
from t1cli.slime.compile.escape import escape_problems, escaped_pairs
from t1cli.slime.compile.hooks import (
    COUNT_FLIPS,
    EXPLAIN_VARIANCE,
    GENERATE_ROLLOUT,
    GROUP_REWARDS,
    MEASURE_MISMATCH,
    SPLIT_DELTANET,
    START_TRAINER,
    TASK_SOURCE,
)
from t1cli.slime.compile.places import ROLE_FILE, SETTINGS_FILE, Places, unplaced
from t1cli.slime.compile.roles import role_file
from t1cli.slime.compile.row import Pair, View
from t1cli.slime.compile.rows_model import splits_deltanet
from t1cli.slime.compile.table import OWNER, TABLE
from t1cli.slime.start_point import base_arguments
from t1cli.spec.experiment import ExperimentSpec

Argv = tuple[str, ...]


@dataclass(frozen=True)
class Compiled:
    """The command of one session of a campaign."""

    entry: str
    """`train.py` or `train_async.py` of slime's checkout."""
    argv: tuple[str, ...]
    """Arguments after the entry."""
    environment: Mapping[str, str]
    role_file: Mapping[str, Any] | None
    problems: tuple[Problem, ...]
    """What is wrong with the arguments, errors first."""
    evaluation_argv: tuple[str, ...] | None
    """Arguments of `train.py` for an evaluation before the first step, where the entry never makes one."""


def compile_campaign(spec: ExperimentSpec, places: Places) -> Compiled:
    """Arguments, environment and role file of a session. Raises BadInput for a slime version without a table."""
    engine = spec.engine
    assert engine.kind == "slime"
    table = load_table(engine.version)
    pairs = campaign_pairs(spec, places)
    argv = flattened([*pairs, *escaped_pairs(spec)])
    asynchronous = spec.rollout.pipeline != "sync"
    roles = role_file(spec, places) if not engine.from_script else None
    arguments = read(argv, table, environment=dict(engine.env), asynchronous=asynchronous)
    variables = environment(spec, arguments)
    arguments = read(argv, table, environment=variables, asynchronous=asynchronous)
    problems = [*_own_problems(spec, table, pairs), *check_arguments(arguments, roles)]
    if not engine.from_script:
        problems = [problem for problem in problems if not _of_t1_itself(problem)]
    problems += _placeholders(argv, variables)
    return Compiled(
        entry="train_async.py" if asynchronous else "train.py",
        argv=argv,
        environment=variables,
        role_file=roles,
        problems=tuple(sorted(problems, key=lambda problem: problem.severity != "error")),
        evaluation_argv=_evaluation_argv(spec, places) if asynchronous else None,
    )


def _of_t1_itself(problem: Problem) -> bool:
    """What is said of scripts alone: t1's settings file holds nothing of slime's, and keys left out have defaults."""
    return problem.flag == "--custom-config-path" or problem.id == FILLED


def campaign_pairs(spec: ExperimentSpec, places: Places) -> list[Pair]:
    """The table's arguments and t1's own, before `slime_args`; the last of two equal flags stays."""
    view = View(spec, places)
    found: dict[str, tuple[str, ...]] = {}
    for row in TABLE:
        found |= dict(row.pairs(view))
    if not view.from_script:
        found |= dict(_hooks(view)) | dict(_session(places))
    left_out = set(spec.engine.leave_out) if spec.engine.kind == "slime" else set()
    return [(flag, words) for flag, words in found.items() if flag not in left_out]


def flattened(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """An argument list."""
    return tuple(word for flag, words in pairs for word in (flag, *words))


def key_of(flag: str) -> str:
    """The spec key behind a flag, for messages; `slime_args.<name>` for one without a field."""
    return OWNER.get(flag, f"slime_args.{flag.removeprefix('--')}")


def _hooks(view: View) -> Iterator[Pair]:
    yield "--data-source-path", (TASK_SOURCE,)
    if view.spec.evaluation is not None:
        yield "--eval-function-path", (GENERATE_ROLLOUT,)
    yield "--custom-megatron-init-path", (START_TRAINER,)
    yield "--custom-config-path", (SETTINGS_FILE,)
    if view.ppo:
        yield "--rollout-data-postprocess-path", (EXPLAIN_VARIANCE,)
        yield "--megatron-config-path", (ROLE_FILE,)
    else:
        yield "--custom-reward-post-process-path", (GROUP_REWARDS,)
        yield "--rollout-data-postprocess-path", (MEASURE_MISMATCH,)
    if view.by_slime and view.spec.rollout.unfinished == "repeat":
        # slime gives aborted groups back to the data source then; ours draws them anew.
        yield "--partial-rollout", ()
    if view.moe and view.spec.rollout.routing_replay:
        yield "--custom-megatron-before-log-prob-hook-path", (COUNT_FLIPS,)


def _session(places: Places) -> Iterator[Pair]:
    for flag, value in base_arguments(places.start, actor_dir=places.actor_dir).items():
        yield flag, () if value is True else (str(value),)


def evaluation_arguments(spec: ExperimentSpec, places: Places, checkpoint: Mapping[str, str] | None = None) -> Argv:
    """Arguments of `train.py` for an evaluation and nothing else, of `checkpoint` (flags of a load) or of the start.

    `train.py` evaluates and ends when there is no rollout (slime v0.3.0, `train.py`).
    """
    found = dict(campaign_pairs(spec, places)) | dict(escaped_pairs(spec))
    for flag in _TRAINING_ONLY:
        found.pop(flag, None)
    # No critic: it would be built, loaded and put to sleep for nothing.
    changed: dict[str, tuple[str, ...]] = {"--advantage-estimator": ("grpo",), "--num-rollout": ("0",)}
    # The schedule's length is taken from the rollouts, and Megatron asserts that it is above 0.
    changed["--lr-decay-iters"] = ("1",)
    if checkpoint is not None:
        found.pop("--ckpt-step", None)
        # Weights alone: another schedule than the checkpoint's would be refused, and what is not saved cannot load.
        changed |= {flag: (value,) for flag, value in checkpoint.items()} | {"--no-load-optim": (), "--no-load-rng": ()}
    return flattened([*(found | changed).items()])


def _evaluation_argv(spec: ExperimentSpec, places: Places) -> Argv | None:
    """The evaluation of step 0, which `train_async.py` itself never makes."""
    evaluation = spec.evaluation
    from_script = spec.engine.kind == "slime" and spec.engine.from_script
    if evaluation is None or not evaluation.before_training or places.start.kind != "fresh" or from_script:
        return None
    return evaluation_arguments(spec, places)


_TRAINING_ONLY: Final = (
    "--save",
    "--save-interval",
    "--no-save-optim",
    "--keep-old-actor",
    "--update-weights-interval",
    "--num-critic-only-steps",
    "--value-clip",
    "--megatron-config-path",
    "--rollout-data-postprocess-path",
    "--custom-megatron-before-log-prob-hook-path",
    "--skip-eval-before-train",
)


_PLACEHOLDER: Final = re.compile(r"<[^<>\s]+>")


def _placeholders(argv: Sequence[str], variables: Mapping[str, str]) -> Iterator[Problem]:
    """Names that a converted script left for people to fill in."""
    found = [(word, flag) for flag, words in _by_flag(argv) for word in words if _PLACEHOLDER.search(word)]
    found += [(value, "engine.env") for value in variables.values() if _PLACEHOLDER.search(value)]
    for name, flag in {name: flag for text, flag in found for name in _PLACEHOLDER.findall(text)}.items():
        message = f"{name} is a placeholder for a value that the script takes from outside"
        variable = name.strip("<>")
        given = f"--set {variable}=VALUE when the script is converted or planned, or "
        fix = f"{given if variable.isidentifier() else ''}replace it in the spec"
        yield Problem("T-blank", "error", flag, message, fix)


def _by_flag(argv: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    flag, words = "", list[str]()
    for word in argv:
        if word.startswith("--"):
            yield flag, words
            flag, words = word, []
        else:
            words.append(word)
    yield flag, words


def _own_problems(spec: ExperimentSpec, table: Table, pairs: Sequence[Pair]) -> Iterator[Problem]:
    yield from escape_problems(spec, table, pairs)
    engine = spec.engine
    assert engine.kind == "slime"
    for name in engine.env if not engine.from_script else ():
        if name in environment_rules.OWNED:
            message = f"engine.env.{name} is set by t1 itself"
            yield Problem("T-owned", "error", "engine.env", message, "leave it out")
    yield from _no_split_layer(spec)
    known = {flag for row in TABLE for flag in row.flags}
    for flag in engine.leave_out:
        if flag not in known:
            message = f"engine.leave_out names {flag}, which no key gives"
            yield Problem("T-left", "error", "engine.leave_out", message, "remove it from the list")
        elif not engine.from_script:
            message = f"{flag} is not passed: slime's own default applies instead of the key's value"
            yield Problem("T-left", "warning", "engine.leave_out", message, "remove it from the list")


def _no_split_layer(spec: ExperimentSpec) -> Iterator[Problem]:
    """The plan counts GatedDeltaNet split; without a layer that does it, the sequence would be gathered."""
    given = tuple(spec.model.megatron.spec)
    if not splits_deltanet(View(spec, unplaced(spec))) or given in SPLIT_DELTANET:
        return
    known = " or ".join(" ".join(words) for words in SPLIT_DELTANET)
    yield Problem(
        "M6",
        "error",
        "--spec",
        f"trainer.gdn_context_parallel is native, and no layer of t1 splits what `{' '.join(given)}` builds",
        f"model.megatron.spec {known}, or trainer.gdn_context_parallel none",
    )
