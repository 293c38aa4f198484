"""What a slime session is submitted as: the command, its files, its environment, and what the dashboard may show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

import t1cli
from t1cli.cluster import entry
from t1cli.launch.slime.compile import Compiled
from t1cli.records import write_json, write_text
from t1cli.run.directory import RunDirectory
from t1cli.run.ray_job import job_directory
from t1cli.run.redaction import Redactor
from t1cli.run.save_directories import save_directories
from t1cli.spec.experiment import ExperimentSpec

ENTRYPOINT: Final = "python3 t1_entry.py"
"""A constant: Ray gives it to a shell."""
ROLE_FILE, SETTINGS_FILE = "roles.yaml", "t1.yaml"
SETUP_HOOK: Final = "t1cli.plugin.hooks.set_up_worker"


@dataclass(frozen=True)
class SessionPlace:
    """Which session of which attempt."""

    run: RunDirectory
    session: int
    family: str
    digest: str
    checkpoint: str | None = None
    """What an evaluation job loads; None for a job that trains."""


def settings(spec: ExperimentSpec, place: SessionPlace) -> dict[str, Any]:
    """Content of slime's custom config file: one key, so that nothing of slime's namespace is touched."""
    directories = save_directories(spec, place.run)
    return {
        "t1": {
            "spec": Redactor.of_environment().json(spec.model_dump(mode="json")),
            "run_dir": str(place.run.path),
            "family": place.family,
            "session": place.session,
            "actor_dir": str(directories.actor),
            "critic_dir": None if directories.critic is None else str(directories.critic),
            **({} if place.checkpoint is None else {"checkpoint": place.checkpoint}),
        }
    }


def job_json(spec: ExperimentSpec, place: SessionPlace, compiled: Compiled) -> dict[str, Any]:
    """What the job server is given, apart from the job's ID. It is shown in the dashboard: no secret is in it."""
    return {
        "entrypoint": ENTRYPOINT,
        "runtime_env": {
            "working_dir": str(job_directory(place.run, place.session)),
            "py_modules": [str(Path(t1cli.__file__).resolve().parent)],
            "excludes": ["**/__pycache__/**", "**/.git/**"],
            "env_vars": dict(compiled.env),
            "worker_process_setup_hook": SETUP_HOOK,
        },
        "metadata": {
            "t1_campaign": spec.name,
            "t1_attempt": str(place.run.attempt),
            "t1_session": str(place.session),
            "t1_run_dir": str(place.run.path),
            "t1_digest": place.digest,
        },
    }


def commands(compiled: Compiled, place: SessionPlace) -> list[list[str]]:
    """What the job runs, one after the other."""
    return [["python3", *argv] for argv in (evaluation_before(compiled, place), compiled.argv) if argv is not None]


def evaluation_before(compiled: Compiled, place: SessionPlace) -> tuple[str, ...] | None:
    """The evaluation of step 0, which goes before the training of a campaign's first session alone."""
    return compiled.evaluation_argv if place.session == 1 else None


def write_job_files(spec: ExperimentSpec, place: SessionPlace, compiled: Compiled) -> Path:
    """The job's working directory: what Ray uploads, and what a reviewer reads afterwards."""
    directory = job_directory(place.run, place.session)
    directory.mkdir(parents=True, exist_ok=True)
    write_text(directory / "t1_entry.py", Path(entry.__file__).read_text(encoding="utf-8"))
    write_text(directory / "argv.json", json.dumps(commands(compiled, place), indent=1) + "\n")
    write_text(directory / SETTINGS_FILE, _yaml(settings(spec, place)))
    if compiled.role_file is not None:
        write_text(directory / ROLE_FILE, _yaml(compiled.role_file))
    write_json(directory / "job.json", job_json(spec, place, compiled))
    return directory


def _yaml(value: Mapping[str, Any]) -> str:
    return yaml.safe_dump(json.loads(json.dumps(value)), sort_keys=False, allow_unicode=True, width=100)
