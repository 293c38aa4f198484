"""The scripts of tests/verify that start worlds of real processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

VERIFY = Path(__file__).parents[3] / "verify"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Run a script's world: what its rank 0 reports."""
    monkeypatch.syspath_prepend(str(VERIFY))
    from gloo_worlds import run_world

    def run(script: str, *arguments: str, ranks: int) -> list[dict[str, Any]]:
        return run_world(str(VERIFY / script), *arguments, ranks=ranks, timeout=1800)

    return run
