"""Readings out of real log lines, and a fit that moves only what the data sees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from memory_model import DEFAULT, Device, Layout, Loss, Recompute, Workload, model
from memory_model.calibration import Observation, calibrate, expected
from memory_model.joining import join
from memory_model.overlay import read_overlay, write_overlay
from memory_model.readings import read_logs

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 632.00 MiB. GPU 0 has a total capacity of 95.00 GiB "
    "of which 419.06 MiB is free. Process 4242 has 3.24 GiB memory in use. Including non-PyTorch memory, this process "
    "has 90.56 GiB memory in use. Of the allocated memory 84.50 GiB is allocated by PyTorch, and 2.06 GiB is reserved "
    "by PyTorch but unallocated."
)
MEGATRON = (
    "[Rank 3] (after 2 iterations) memory (MB) | allocated: 12358.0 | max allocated: 26855.4 | reserved: 28000.0 | "
    "max reserved: 28672.0"
)
SLIME = "[Rank 0] Memory-Usage after train: {'gpu': '0', 'total_GB': 139.8, 'free_GB': 20.1, 'used_GB': 119.7, " + (
    "'allocated_GB': 101.25, 'reserved_GB': 108.5}"
)
SMI = "| N/A   34C    P0   117W / 700W |  67541MiB / 81559MiB |      0%      Default |"
ROW = '{"step": 3, "terminal/memory/max_allocated_gib": 61.5}'


def test_every_kind_of_line(tmp_path: Path) -> None:
    log = tmp_path / "trainer.log"
    log.write_text("\n".join((OOM, "nothing here", MEGATRON, SLIME, SMI)))
    (tmp_path / "metrics.jsonl").write_text(ROW + "\n{broken\n")
    found = {(item.instrument, round(item.gib, 2)) for item in read_logs([tmp_path])}
    assert found == {
        ("in_use", 91.18),
        ("allocated", 85.12),
        ("non_pytorch", 4.0),
        ("other_process", 3.24),
        ("allocated", 26.23),
        ("reserved", 28.0),
        ("device", 119.7),
        ("allocated", 101.25),
        ("reserved", 108.5),
        ("device", 65.96),
        ("allocated", 61.5),
    }
    (rank,) = {item.rank for item in read_logs([log]) if item.source.endswith(":3")}
    assert rank == 3


STEP = Workload(
    max_tokens_per_gpu=8192,
    longest_sample_tokens=30_000,
    recompute=Recompute("uniform"),
    loss=Loss("slime_rl"),
    roles=("actor", "critic"),
)
BASE = Observation("", "device", 0.0, model("Qwen3-30B-A3B"), Layout(16, tp=2, pp=2, ep=4), STEP, Device("card", 95.0))


def _observations(truth: object) -> list[Observation]:
    layouts = (BASE.layout, replace(BASE.layout, cp=2))
    made = []
    for layout in layouts:
        for instrument in ("allocated", "reserved", "device"):
            item = replace(BASE, label=f"{layout} {instrument}", instrument=instrument, layout=layout)
            made.append(replace(item, gib=expected(item, truth)))  # type: ignore[arg-type]
    return made


def test_a_fit_finds_the_coefficients_that_made_the_readings() -> None:
    truth = replace(DEFAULT, reserved_over_allocated=1.06, communicator_gib=0.4, activation_scale=1.3)
    fit = calibrate(_observations(truth), ("reserved_over_allocated", "communicator_gib", "activation_scale"))
    assert fit.coefficients.reserved_over_allocated == pytest.approx(1.06, abs=0.005)
    assert fit.coefficients.activation_scale == pytest.approx(1.3, abs=0.15)
    assert max(map(abs, fit.errors_after_gib.values())) < 0.3
    assert fit.held_out_after_gib is not None
    assert fit.held_out_after_gib < 0.3 * fit.held_out_before_gib


def test_what_no_reading_sees_does_not_move() -> None:
    item = replace(BASE, label="one", instrument="allocated")
    fit = calibrate([replace(item, gib=expected(item, DEFAULT) + 1.0)])
    assert fit.coefficients.communicator_gib == pytest.approx(DEFAULT.communicator_gib)
    assert fit.coefficients.deltanet_scale == pytest.approx(DEFAULT.deltanet_scale)
    assert fit.held_out_after_gib is None


def test_only_physical_unknowns_can_be_fitted() -> None:
    with pytest.raises(ValueError, match="not a physical unknown"):
        calibrate([replace(BASE, gib=1.0)], ("cuda_context_gib",))


def test_an_overlay_survives_the_disk(tmp_path: Path) -> None:
    fit = calibrate(_observations(replace(DEFAULT, communicator_gib=0.4))[:3], ("communicator_gib",))
    write_overlay(tmp_path / "mine.json", fit, about="a test")
    again = read_overlay(tmp_path / "mine.json")
    for change in fit.changes:
        assert getattr(again, change.name) == pytest.approx(change.after, abs=1e-3)
    (tmp_path / "bad.json").write_text('{"format_version": 1, "coefficients": {"fudge": 2}}')
    with pytest.raises(ValueError, match="unknown coefficients"):
        read_overlay(tmp_path / "bad.json")


def test_readings_find_their_stage_and_move_the_plan_towards_them(tmp_path: Path) -> None:
    stages = [round(1024 * expected(replace(BASE, instrument="allocated", stage=stage), DEFAULT)) for stage in (0, 1)]
    megatron = ((0, stages[0] - 90), (3, stages[0] + 700), (9, stages[1] + 900), (15, stages[1] - 50))
    lines = [
        f"[Rank {rank}] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: {allocated}.0 | "
        f"reserved: 1.0 | max reserved: {allocated * 1.07:.1f}"
        for rank, allocated in megatron
    ]
    (tmp_path / "train.log").write_text("\n".join(lines))
    found = join(read_logs([tmp_path]), arch=BASE.arch, layout=BASE.layout, workload=BASE.workload, device=BASE.device)
    peaks = {(item.instrument, item.stage): round(item.gib * 1024) for item in found if item.instrument == "allocated"}
    assert peaks == {("allocated", 0): stages[0] + 700, ("allocated", 1): stages[1] + 900}
    assert {item.stage for item in found if item.instrument == "reserved"} == {0, 1}
    fit = calibrate(found)
    assert fit.coefficients.reserved_over_allocated == pytest.approx(1.07, abs=0.012)
    assert sum(map(abs, fit.errors_after_gib.values())) < 0.5 * sum(map(abs, fit.errors_before_gib.values()))
