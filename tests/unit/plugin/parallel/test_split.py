"""Real processes over gloo: the split layer gives the unsplit result, and does not without the state."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

World = Callable[..., list[dict[str, Any]]]
OURS, SLIME, MEGATRON = "split_gated_delta_net.py", "split_slime_layers.py", "megatron_gated_delta_net.py"
PATIENT = pytest.mark.timeout(1800)


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


@PATIENT
@pytest.mark.catalogue("M6")
def test_two_ranks(world: World) -> None:
    hold(world(OURS, ranks=2))


@PATIENT
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_more_tokens(world: World, ranks: int) -> None:
    hold(world(OURS, "--scale", "4", ranks=ranks))


@PATIENT
@pytest.mark.slow
def test_four_ranks_need_a_quarter_of_the_memory(world: World) -> None:
    (alone,), (quarter,) = (world(OURS, "--memory", "--tokens", "4096", ranks=ranks) for ranks in (1, 4))
    assert alone["peak_bytes"] / quarter["peak_bytes"] >= 3.8


@PATIENT
@pytest.mark.slow
@pytest.mark.parametrize("ranks,tensor", [(2, 1), (4, 1), (4, 2)])
def test_slimes_layers(world: World, ranks: int, tensor: int) -> None:
    pytest.importorskip("megatron.core")
    checkout = os.environ.get("T1_SLIME")
    where = ("--slime", checkout) if checkout else ()
    for report in world(SLIME, "--tensor", str(tensor), *where, ranks=ranks):
        assert report["output_error"] <= 1e-6, report
        assert report["input_gradient_error"] <= 1e-6 and report["weight_gradient_error"] <= 1e-6, report


@PATIENT
@pytest.mark.slow
def test_megatrons_own_module(world: World) -> None:
    pytest.importorskip("megatron.core")
    (report,) = world(MEGATRON, ranks=2)
    assert report["output_error"] <= 1e-6 and report["input_gradient_error"] <= 1e-6, report
