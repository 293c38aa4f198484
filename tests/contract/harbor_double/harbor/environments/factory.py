"""Environments by import path alone."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class EnvironmentFactory:
    @classmethod
    def create_environment_from_config(cls, config: Any, **more: Any) -> Any:
        module, _, name = config.import_path.partition(":")
        return getattr(import_module(module), name)(**config.kwargs, **more)
