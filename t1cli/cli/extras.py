"""Packages that a base install does not have, and the extra that brings each."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Final

from t1cli.errors import CouldNotAsk

EXTRA_OF: Final[Mapping[str, str]] = {
    "httpx": "audit",
    "hyperscan": "watch",
    "jinja2": "chat",
    "matplotlib": "report",
    "megatron": "oracle",
    "numpy": "audit",
    "ray": "cluster",
    "safetensors": "embedded",
    "tensorboard": "tracking",
    "tokenizers": "chat",
    "torch": "embedded",
    "transformers": "oracle",
    "tree_sitter": "convert",
    "tree_sitter_bash": "convert",
    "uvicorn": "pool",
    "wandb": "tracking",
}
"""By the name that is imported."""
ENGINE_EXTRA: Final = "embedded"


def missing_package(problem: ModuleNotFoundError) -> CouldNotAsk | None:
    """What a command without one of these packages says; None when what is missing is a module of ours."""
    package = (problem.name or "").partition(".")[0]
    if package not in EXTRA_OF:
        return None
    rooms = {str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(problem.__traceback__)}
    # The engine needs several packages: its extra brings them at once.
    extra = ENGINE_EXTRA if any(room.startswith("t1cli.embedded.") for room in rooms) else EXTRA_OF[package]
    return CouldNotAsk(f"this needs {package}, which is not installed", hint=f"pip install 't1cli[{extra}]'")
