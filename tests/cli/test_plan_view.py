"""The text of `t1 plan`, word for word, for one plan that fits, one that does not, and one without a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from t1cli.errors import ExitCode
from t1cli.plan.plan import (
    DiskPlan,
    Finding,
    HostPlan,
    MemoryPlan,
    Parameters,
    Plan,
    PoolPlan,
    RoleMemory,
    Schedule,
    StageMemory,
)
from t1cli.ui.plan_view import plan_lines

GOLDEN = Path(__file__).parent / "golden"

LAST_STAGE = StageMemory(
    stage=1,
    peak_gib=84.2,
    low_gib=80.0,
    high_gib=88.4,
    phase="train forward and loss",
    terms={"optimizer": 21.9, "gradients": 22.2, "weights": 11.1, "logits": 14.9, "allocator reserve": 14.1},
)
FIRST_STAGE = StageMemory(
    stage=0,
    peak_gib=79.4,
    low_gib=75.5,
    high_gib=83.4,
    phase="train backward",
    terms={"optimizer": 21.9, "gradients": 22.2, "weights": 11.1, "recomputed layer": 5.1, "NCCL communicators": 19.1},
)
FITS = Plan(
    name="t1-dense",
    digest="ebf42897aa1b",
    verdict="FITS",
    memory=MemoryPlan(
        95.0,
        {"critic": RoleMemory((FIRST_STAGE,)), "actor": RoleMemory((FIRST_STAGE, LAST_STAGE))},
        band="band -5% to +5%",
        tokens_per_micro_batch=21_504,
    ),
    host=HostPlan(2265.0, 812.5, {"offloaded_train_state": 700.5, "routing_rows": 112.0}),
    disk=DiskPlan(40_000.0, 454.9, 3184.3, 6),
    schedule=Schedule(
        optimizer_steps=112,
        rollouts=112,
        epochs_seen=3.8229,
        tasks_skipped_per_epoch=152,
        sandbox_ramp_seconds=93.3,
        routing_bytes_per_token=1536,
        routing_bytes_per_step=67_645_734_912,
        step_seconds=3600.0,
        binding_side="rollout",
        gpu_hours=14_336.0,
        gpu_hours_per_step=128.0,
        gpu_hours_per_day=3072.0,
        epochs_drawn=4.18,
        samples_per_step=512,
    ),
    pool=PoolPlan(560, 640, 0.875, granted=560),
    parameters=Parameters(122_111_526_912, (61_055_762_432, 61_055_764_480)),
    findings=(
        Finding(
            "M3",
            "warning",
            "ep 16 where 32 is legal: expert weights and gradients take 10.1 GiB more per GPU",
            "presets/topology/t1.yaml:12",
            "--set topology.ep=32",
        ),
        Finding("C8", "notice", "a crash means restart, not resume", "experiment.yaml:40", "full saves"),
    ),
    title="PPO · one_step · 64 + 64 H200",
    source="experiments/t1-dense",
)
STARVED = replace(
    FITS,
    verdict="OOM",
    findings=(
        Finding(
            "S1",
            "error",
            "1 server × 8 tasks × 4 runs = 32 leases, one rollout wants 16 prompts × 8 samples = 128 (4.0×)",
            "sandbox.yaml:7",
            "one of:\nA: one server of 16 tasks × 8 runs: holds all 128; 32 GiB RAM, 205 GiB disk in all (--set "
            "sandbox.max_tasks=16 --set sandbox.max_runs_per_task=8)\nD: batch 4 × 8: still refuses 4 of 8",
        ),
    ),
)
EMBEDDED = replace(
    FITS,
    engine="embedded",
    verdict="NOT_APPLICABLE",
    memory=MemoryPlan(0.0, {}),
    host=HostPlan(8.0, 2.7, {"ray": 0.6, "torch_processes": 2.1}),
    disk=DiskPlan(10.0, 0.044, 0.22, 4),
    schedule=replace(FITS.schedule, routing_bytes_per_token=0, step_seconds=None, sandbox_ramp_seconds=0.0),
    parameters=Parameters(1_971_328, (1_971_328,)),
    findings=(),
    title="PPO · sync · this machine",
    source="quickstart",
)


@pytest.mark.parametrize(
    ("name", "plan", "exit_code"),
    [("fits", FITS, ExitCode.YES), ("starved", STARVED, ExitCode.NO), ("embedded", EMBEDDED, ExitCode.YES)],
)
def test_text_is_the_golden_text(name, plan, exit_code):
    text = "\n".join(plan_lines(plan, width=80, exit_code=exit_code)) + "\n"
    assert text == (GOLDEN / f"plan_{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("plan", [FITS, EMBEDDED])
def test_no_line_is_wider_than_the_screen(plan):
    assert max(map(len, plan_lines(plan, width=80, exit_code=ExitCode.YES))) <= 80
