"""The base class: keyword names as in Harbor."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class BaseEnvironment:
    def __init__(
        self,
        environment_dir: Path,
        environment_name: str,
        session_id: str,
        trial_paths: Any,
        task_env_config: Any,
        network_policy: Any = None,
        *,
        enable_environment_dir_upload: bool = True,
    ) -> None:
        self.environment_dir, self.trial_paths, self.task_env_config = environment_dir, trial_paths, task_env_config
        self._validate_definition()

    def _validate_definition(self) -> None:
        raise NotImplementedError

    def _resolve_user(self, user: str | int | None) -> str | int | None:
        return user

    def _merge_env(self, env: dict[str, str] | None) -> dict[str, str] | None:
        return env

    async def run_healthcheck(self) -> None:
        return None
