"""What the launch tells the plugin: the spec and the run, through slime's custom config file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput
from t1cli.run.directory import RunDirectory
from t1cli.spec.experiment import ExperimentSpec

KEY = "t1"
"""Attribute of slime's namespace that holds the settings."""


@dataclass(frozen=True)
class Settings:
    """One session of one attempt, as the job sees it."""

    spec: ExperimentSpec
    run: RunDirectory
    family: str
    """Digest of what makes two sessions the same campaign; checkpoints carry it."""
    session: int
    actor_dir: Path
    critic_dir: Path | None
    checkpoint: str | None = None
    """What this job evaluates and nothing else; None for a job that trains."""

    @property
    def owner(self) -> str:
        """Owner of every sandbox, for the reaper."""
        return f"{self.run.name}-attempt_{self.run.attempt}"


def settings_of(args: Any) -> Settings:
    """The settings in slime's namespace. Raises BadInput when slime was started without them."""
    return parse_settings(settings_text(args))


def settings_text(args: Any) -> str:
    """The settings as JSON text: what another process is given, and what a cache is keyed by."""
    value = getattr(args, KEY, None)
    if not isinstance(value, Mapping):
        raise BadInput(
            "slime was started without t1's settings: its namespace has no key `t1`",
            hint="`t1 launch` passes them by --custom-config-path",
        )
    return json.dumps(value, sort_keys=True)


@lru_cache(maxsize=4)
def parse_settings(text: str) -> Settings:
    """Settings from their JSON text, as another process is given them."""
    value = json.loads(text)
    spec = ExperimentSpec.model_validate_json(json.dumps(value["spec"]))
    return Settings(
        spec=spec,
        run=RunDirectory(Path(value["run_dir"])),
        family=value["family"],
        session=int(value["session"]),
        actor_dir=Path(value["actor_dir"]),
        critic_dir=Path(value["critic_dir"]) if value.get("critic_dir") else None,
        checkpoint=value.get("checkpoint"),
    )
