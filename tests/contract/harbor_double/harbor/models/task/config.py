"""A task's own configuration, read as far as it is used."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any


class TaskConfig:
    def __init__(self, found: dict[str, Any] | None = None) -> None:
        sections = found or {}
        place = sections.get("environment", {})
        self.environment = SimpleNamespace(
            docker_image=place.get("docker_image"),
            memory_mb=place.get("memory_mb"),
            storage_mb=place.get("storage_mb"),
            resolve_baseline=lambda: None,
        )
        self.agent = SimpleNamespace(user=sections.get("agent", {}).get("user"))
        self.verifier = SimpleNamespace(user=sections.get("verifier", {}).get("user"))

    @classmethod
    def model_validate_toml(cls, text: str) -> TaskConfig:
        return cls(tomllib.loads(text))
