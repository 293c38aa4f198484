"""The Python that Harbor's worker is started with, and what it has."""

from __future__ import annotations

from typing import Any


def versions(python: str | None) -> dict[str, Any]:
    """`{"python", "harbor", "problem"}` of the interpreter that the spec names; null asks the one that runs this."""
    from t1cli.terminal.sandbox.harbor.interpreter import ask_versions

    return ask_versions(python)
