"""Writes what a launch leaves in its run directory, and reads the spec back for a process started on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import yaml

from t1cli.plan.memory_overlay import is_file_name, overlay_path
from t1cli.plan.plan import Plan
from t1cli.preflight.report import PreflightReport
from t1cli.records import read_regular, write_json, write_text
from t1cli.run.directory import RunDirectory
from t1cli.run.redaction import Redactor
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec
from t1cli.spec.yaml_reader import MAX_BYTES

_HEADER: Final = "# The resolved spec of this run: presets, file and --set merged. Complete; loads by itself.\n"


def grounded_spec(loaded: LoadedSpec) -> ExperimentSpec:
    """The spec with the paths of this machine made absolute, so that it means the same from any directory."""
    spec = _with_overlay(loaded)
    if spec.engine.kind != "embedded":
        return spec
    tasks = spec.tasks.model_copy(update={"path": str(loaded.resolve_path(spec.tasks.path))})
    changes: dict[str, Any] = {"tasks": tasks, "checkpoint": _grounded_checkpoint(loaded), "engine": _engine(loaded)}
    critic = spec.model.checkpoints.warm_critic
    if critic is not None and critic != "shipped":
        checkpoints = spec.model.checkpoints.model_copy(update={"warm_critic": str(loaded.resolve_path(critic))})
        changes["model"] = spec.model.model_copy(update={"checkpoints": checkpoints})
    if spec.evaluation is not None:
        path = str(loaded.resolve_path(spec.evaluation.path))
        changes["evaluation"] = spec.evaluation.model_copy(update={"path": path})
    return spec.model_copy(update=changes)


def write_run_files(
    run: RunDirectory, loaded: LoadedSpec, *, plan: Plan, preflight: PreflightReport, redactor: Redactor
) -> None:
    """spec.resolved.yaml, origins.json, plan.json and preflight.json, without secrets."""
    spec = redactor.json(grounded_spec(loaded).model_dump(mode="json"))
    write_text(run.spec_yaml, _HEADER + yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=100))
    origins = {key: asdict(origin) for key, origin in loaded.origins.items()}
    write_json(run.origins_json, redactor.json(origins))
    write_json(run.plan_json, redactor.json(plan.to_json()))
    write_json(run.preflight_json, redactor.json(preflight.to_json()))


def set_aside_for_resume(run: RunDirectory, session: int) -> None:
    """Before session N resumes: keep the former spec, and give trials a fresh directory (catalogue R4)."""
    for path in (run.spec_yaml, run.origins_json, run.plan_json, run.preflight_json, run.trials):
        if path.exists():
            path.rename(_aside(path, session))
    run.stop_request.unlink(missing_ok=True)


def spec_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = ""
) -> dict[str, tuple[Any, Any]]:
    """Dotted keys whose values differ, each with old and new value."""
    different: dict[str, tuple[Any, Any]] = {}
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            different |= spec_differences(old, new, f"{prefix}{key}.")
        elif old != new:
            different[f"{prefix}{key}"] = (old, new)
    return different


def saved_spec(run: RunDirectory) -> dict[str, Any]:
    """The plain content of spec.resolved.yaml; empty when there is none."""
    try:
        content = yaml.safe_load((read_regular(run.spec_yaml, MAX_BYTES) or b"").decode("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):  # torn, foreign, or no spec at all
        return {}
    return content if isinstance(content, dict) else {}


def _aside(path: Path, session: int) -> Path:
    """`trials` of session 2 becomes `trials.session_2`; a name that is taken gets a number."""
    wanted = path.with_name(f"{path.stem}.session_{session}{path.suffix}")
    number = 2
    while wanted.exists():
        wanted = path.with_name(f"{path.stem}.session_{session}.{number}{path.suffix}")
        number += 1
    return wanted


def _with_overlay(loaded: LoadedSpec) -> ExperimentSpec:
    """The spec with its memory overlay by an absolute path, unless it is a shipped one."""
    name = loaded.spec.trainer.memory_overlay
    if name is None or not is_file_name(name):
        return loaded.spec
    trainer = loaded.spec.trainer.model_copy(update={"memory_overlay": str(overlay_path(loaded, name).resolve())})
    return loaded.spec.model_copy(update={"trainer": trainer})


def _grounded_checkpoint(loaded: LoadedSpec) -> Any:
    checkpoint = loaded.spec.checkpoint
    named = {key: getattr(checkpoint, key) for key in ("actor_dir", "critic_dir")}
    absolute = {key: str(loaded.resolve_path(value)) for key, value in named.items() if value}
    return checkpoint.model_copy(update=absolute)


def _engine(loaded: LoadedSpec) -> Any:
    engine = loaded.spec.engine
    if engine.kind != "embedded" or not engine.warm_start.endswith(".safetensors"):
        return engine
    return engine.model_copy(update={"warm_start": str(loaded.resolve_path(engine.warm_start))})
