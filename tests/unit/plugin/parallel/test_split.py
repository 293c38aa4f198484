"""Real processes over gloo: the split layer gives the unsplit result, and does not without the state."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "verify/split_gated_delta_net.py"


@pytest.fixture(scope="module")
def worlds() -> ModuleType:
    spec = importlib.util.spec_from_file_location("split_gated_delta_net", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def hold(reports: list[dict[str, Any]]) -> None:
    by_case = {report["case"]: report for report in reports}
    control = by_case.pop("control: no state passed")
    assert control["output_error"] > 0.01 and control["input_gradient_error"] > 0.01
    assert len(by_case) == 6
    for name, report in by_case.items():
        if name.startswith(("padded", "one")):
            assert report["output_equal"], report
        assert report["output_error"] <= 1e-6, report
        assert report["input_gradient_error"] <= 1e-6 and report["weight_gradient_error"] <= 1e-6, report


def test_two_ranks(worlds: ModuleType) -> None:
    hold(worlds.run_world(ranks=2))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_more_tokens(worlds: ModuleType, ranks: int) -> None:
    hold(worlds.run_world("--scale", "4", ranks=ranks))


@pytest.mark.slow
def test_four_ranks_need_a_quarter_of_the_memory(worlds: ModuleType) -> None:
    (alone,), (quarter,) = (worlds.run_world("--memory", "--tokens", "4096", ranks=ranks) for ranks in (1, 4))
    assert alone["peak_bytes"] / quarter["peak_bytes"] >= 3.8
