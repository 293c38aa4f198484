"""Metrics: right values on a known population, and nothing reported that has no population."""

from __future__ import annotations

import asyncio
import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t1cli.terminal.harness.engine import EngineError
from t1cli.terminal.rewards.verdict import RewardResult, Verdict
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.kept import KeepRule, Kept
from t1cli.terminal.rollout.metrics import RolloutPopulation, rollout_metrics
from t1cli.terminal.rollout.plan import RolloutPlan, RolloutResult
from t1cli.terminal.trajectory.audit import ACCOUNTS, TokenLedger
from t1cli.watch.metrics.registry import registry


def test_an_empty_rollout_reports_no_mean() -> None:
    metrics = rollout_metrics(RolloutPopulation((), (), (), TokenLedger(), seconds=1.0))
    assert metrics["terminal/total_samples"] == 0
    assert not {"rollout/raw_reward", "terminal/reward_mean", "terminal/check_rate", "terminal/failed_ratio"} & set(
        metrics
    )


@pytest.mark.catalogue("R12", "S9")
def test_names_and_values_of_a_known_rollout(doubles: SimpleNamespace, tmp_path: Path) -> None:
    """Four trials: 3, 1 and 0 checks by CTRF, and one solved by the fallback; one of them out of turns."""
    commands = {"t0": ["a", "b", "c"], "t1": ["a"], "t2": [], "t3": ["x"] * 9}

    async def grade(task: object, sandbox: object, *, trial_dir: Path, timeout_seconds: float) -> Verdict:
        if task.name == "t3":
            return Verdict(True, "missing", 0, 0, 3, 0.0)
        passed = min(3, len(sandbox.commands))
        return Verdict(passed == 3, "ok", passed, 3, 3, 0.0)

    def reward(verdict: Verdict, *, turns: int, response_tokens: int) -> RewardResult:
        if verdict.ctrf == "missing":
            return RewardResult(1.0, "fallback", 1.0, 1.0)
        return doubles.count_reward(verdict, turns=turns, response_tokens=response_tokens)

    engine = doubles.ScriptedEngine(lambda instruction: commands[instruction])
    world = doubles.make_world(engine, tmp_path, grade=grade, reward=reward)
    tasks = tuple(doubles.task_named(name) for name in commands)
    metrics = asyncio.run(run_rollout(world, RolloutPlan(rollout_id=0, tasks=tasks, accept=4))).metrics
    expected = {
        "rollout/raw_reward": (0.15 + 0.05 + 0 + 1) / 4,
        "rollout/rewards": (0.15 + 0.05 + 0 + 1) / 4,
        "rollout/truncated_ratio": 0.25,
        "rollout/response_len/max": 12.0,
        "rollout/response_len/min": 1.0,
        "terminal/total_samples": 4.0,
        "terminal/completed": 3.0,
        "terminal/truncated": 1.0,
        "terminal/failed": 0.0,
        "terminal/non_trainable_ratio": 0.0,
        "terminal/reward_max": 1.0,
        "terminal/checks_passed_mean": 1.0,
        "terminal/check_rate": (1 + 1 / 3 + 0 + 1) / 4,
        "terminal/solved_rate": 0.5,
        "terminal/fallback_share": 1 / 1.2,
        "terminal/fallback_trials_share": 0.25,
        "terminal/ctrf/ok": 3.0,
        "terminal/ctrf/missing": 1.0,
        "terminal/stop/turns": 1.0,
        "terminal/stop/done": 3.0,
        "terminal/turns_mean": (4 + 2 + 1 + 6) / 4,
        "terminal/sampled_tokens": float(engine.sampled),
        "terminal/trained_tokens": float(engine.sampled),
        "terminal/unaccounted_tokens": 0.0,
        "terminal/drifted_in_loss": 0.0,
        "terminal/strict_share": 1.0,
        "terminal/weight_version_min": 1.0,
        "terminal/groups": 4.0,
        "terminal/cancelled": 0.0,
        "terminal/live_trials": 0.0,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert "terminal/groups_with_variance" not in metrics, "one sample per prompt has no variance within a group"
    assert all(isinstance(value, float) for value in metrics.values())


def test_groups_with_variance_are_counted(doubles: SimpleNamespace, tmp_path: Path) -> None:
    calls: dict[str, int] = {}

    def script(instruction: str) -> list[str]:
        return ["a"]

    async def grade(task: object, sandbox: object, *, trial_dir: Path, timeout_seconds: float) -> Verdict:
        calls[task.name] = calls.get(task.name, 0) + 1
        passed = calls[task.name] if task.name == "t0" else 1
        return Verdict(False, "ok", passed, 3, 3, 0.0)

    world = doubles.make_world(doubles.ScriptedEngine(script), tmp_path, grade=grade)
    tasks = tuple(doubles.task_named(f"t{index}") for index in range(3))
    plan = RolloutPlan(rollout_id=0, tasks=tasks, accept=3, samples_per_prompt=2)
    metrics = asyncio.run(run_rollout(world, plan)).metrics
    assert metrics["terminal/groups"] == 3 and metrics["terminal/groups_with_variance"] == 1


def plain_once(samples: int) -> Any:
    """A filter that drops the plain group, in one of the two rollouts below."""
    return lambda trials: "plain" if samples == 2 and trials[0].plan.task.name == "plain" else None


async def kept_and_closed(world: Any, plan: RolloutPlan) -> RolloutResult:
    kept = Kept()
    result = await run_rollout(world, plan, kept=kept)
    await kept.close("over")
    return result


def test_every_name_that_a_rollout_logs_is_in_the_registry(doubles: SimpleNamespace, tmp_path: Path) -> None:
    """Over rollouts with lost, cancelled, surplus and cut trials, and with siblings; every account of the ledger."""
    known = registry().metrics
    logged: set[str] = set()

    async def fails_twice(instruction: str, turn: int) -> None:
        if instruction == "lost" and next(failures):
            raise EngineError("engine_timeout")
        if instruction == "slow":
            await asyncio.sleep(1000)

    for samples in (1, 2):
        failures = iter([True, True] + [False] * 50)
        engine = doubles.ScriptedEngine(
            lambda instruction: {"long": ["x" * 90], "turns": ["a"] * 9}.get(instruction, ["a"]), before=fails_twice
        )
        tasks = tuple(doubles.task_named(name) for name in ("lost", "long", "turns", "plain", "slow"))
        keep = KeepRule(1, 4) if samples == 1 else None
        # The slow one is surplus in both, the dropped one beside it in the second.
        plan = RolloutPlan(0, tasks, 5 - samples, samples, first_backoff_seconds=0.01, keep=keep)
        world = doubles.replace(doubles.make_world(engine, tmp_path), drops=plain_once(samples))
        logged |= set(asyncio.run(kept_and_closed(world, plan)).metrics)
    ledger = TokenLedger(1, dict.fromkeys(ACCOUNTS, 1))
    logged |= set(rollout_metrics(RolloutPopulation((), (), (), ledger, seconds=1.0)))
    patterns = [name for name in known if "*" in name]
    ours = {name for name in logged if name.startswith(("terminal/", "rollout/dynamic_filter/"))}
    unknown = {n for n in ours if n not in known and not any(fnmatch.fnmatchcase(n, p) for p in patterns)}
    assert unknown == set() and {"terminal/held_trials", "terminal/filter_undone"} < ours
