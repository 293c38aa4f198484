"""Harbor environments from tasks, through Harbor's public API (0.26.0). Worker's side: the only importer of Harbor."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from t1cli.terminal.sandbox.harbor.machine import Users
from t1cli.terminal.sandbox.harbor.settings import WorkerSettings

_RECORD: Final = "environment.json"
_DEFINITIONS: Final = ("Dockerfile", "docker-compose.yaml")


def trial_directory(settings: WorkerSettings, name: str) -> Path:
    """Where Harbor keeps what belongs to one environment while it lives."""
    return Path(settings.directory) / "live" / name


def write_record(settings: WorkerSettings, name: str, task: str | None) -> None:
    """Keep what an environment is made of, so that another worker can name it again."""
    directory = trial_directory(settings, name)
    directory.mkdir(parents=True)
    (directory / _RECORD).write_text(json.dumps({"task": task}), encoding="utf-8")


def read_record(settings: WorkerSettings, name: str) -> str | None:
    """The task of an environment on record. Raises FileNotFoundError when nothing of it is left."""
    found = json.loads((trial_directory(settings, name) / _RECORD).read_text(encoding="utf-8"))
    return None if found["task"] is None else str(found["task"])


def defines_image(task: Path) -> bool:
    """Whether a task's environment directory says how its image is built, its files included."""
    return any((task / "environment" / name).is_file() for name in _DEFINITIONS)


def build_environment(settings: WorkerSettings, name: str, task: Path | None) -> tuple[Any, Users]:
    """An environment that has not been started, and who runs commands in it. Raises what Harbor raises."""
    config = _task_config(task)
    place = config.environment
    directory = trial_directory(settings, name)
    more: dict[str, Any] = {}
    if task is None or not (defines_image(task) or place.docker_image):
        place.docker_image = settings.image
        # Its loose files are placed by whoever plays the trial.
        more["enable_environment_dir_upload"] = False
    paths = import_module("harbor.models.trial.paths").TrialPaths(directory)
    paths.mkdir()
    environment = import_module("harbor.environments.factory").EnvironmentFactory.create_environment_from_config(
        config=_environment_config(settings),
        environment_dir=_environment_directory(task, directory),
        environment_name="t1" if task is None else task.name,
        session_id=f"{name}__env",
        trial_paths=paths,
        task_env_config=place,
        network_policy=place.resolve_baseline(),
        **more,
    )
    users = Users(config.agent.user, config.verifier.user)
    return environment, users


def _task_config(task: Path | None) -> Any:
    config = import_module("harbor.models.task.config").TaskConfig
    if task is None or not (task / "task.toml").is_file():
        return config()
    return config.model_validate_toml((task / "task.toml").read_text(encoding="utf-8"))


def _environment_config(settings: WorkerSettings) -> Any:
    config = import_module("harbor.models.trial.config").EnvironmentConfig
    kind = "import_path" if ":" in settings.environment else "type"
    return config(**{kind: settings.environment}, kwargs=dict(settings.options))


def _environment_directory(task: Path | None, directory: Path) -> Path:
    if task is not None and (task / "environment").is_dir():
        return task / "environment"
    empty = directory / "environment"
    empty.mkdir(exist_ok=True)
    return empty
