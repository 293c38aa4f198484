"""A real Megatron-core model keeps what the formulas say (the `oracle` extra, no GPU)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("megatron.core", reason="the oracle extra is not installed")


@pytest.mark.slow
def test_formulas_are_within_3_percent_of_the_trace() -> None:
    """In a process of its own: the shims change torch.cuda for good."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "memory_model.oracle", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    shapes = json.loads(done.stdout)["shapes"]
    assert len(shapes) >= 6
    for shape in shapes:
        assert abs(shape["difference_pct"]) <= 3, shape["name"]
        assert shape["head_formula_mib"] == pytest.approx(shape["head_traced_mib"], rel=0.001), shape["name"]
