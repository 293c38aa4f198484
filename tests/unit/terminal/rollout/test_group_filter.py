"""`rollout.dynamic_filter`: whole groups dropped, their tokens in the ledger's account, a batch that still fills."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from t1cli.errors import Refused, T1Error
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.group_filter import group_filter, neutral_samples
from t1cli.terminal.rollout.plan import RolloutPlan, RolloutResult

REWARDS_DIFFER = "t1cli.terminal.rollout.group_filter.rewards_differ"


def run(doubles: SimpleNamespace, tmp_path: Path, why_dropped: Any, *, accept: int, samples: int = 1) -> RolloutResult:
    """Groups a to e; the second of two trials of `a`, `c` and `e` runs one command more than the first."""
    calls: dict[str, int] = {}

    def script(instruction: str) -> list[str]:
        return ["x"] * (1 + calls.get(instruction, 0))

    async def grade(task: Any, sandbox: Any, **more: Any) -> Any:
        calls[task.name] = calls.get(task.name, 0) + (task.name in "ace")
        return await doubles.grade_by_commands(task, sandbox, **more)

    # One after the other, so that a trial finds what the one before it left.
    slots = doubles.Slots(1)
    engine = doubles.ScriptedEngine(script)
    world = replace(doubles.make_world(engine, tmp_path, grade=grade, slots=slots), drops=why_dropped)
    tasks = tuple(doubles.task_named(name) for name in "abcde")
    result = asyncio.run(run_rollout(world, RolloutPlan(0, tasks, accept=accept, samples_per_prompt=samples)))
    assert result.ledger.unaccounted == 0 and result.ledger.sampled == engine.sampled
    return result


def names(result: RolloutResult) -> list[str]:
    return sorted({trial.plan.task.name for trial in result.accepted})


def by_name(*dropped: str) -> Any:
    """Drops groups of these tasks, as `t1cli.terminal.rollout.group_filter.GroupFilter`."""
    return lambda trials: "named" if trials[0].plan.task.name in dropped else None


def test_a_dropped_group_is_replaced_from_the_surplus_and_its_tokens_are_booked(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    result = run(doubles, tmp_path, by_name("a", "c"), accept=3)
    assert names(result) == ["b", "d", "e"]
    dropped = [trial for trial in result.trials if trial.plan.task.name in "ac"]
    assert result.ledger.accounts["filter"] == sum(trial.sampled_tokens for trial in dropped) > 0
    assert result.metrics["rollout/dynamic_filter/drop_named"] == 2 and result.metrics["terminal/filter_undone"] == 0
    assert result.metrics["terminal/masked_tokens/filter"] == result.ledger.accounts["filter"]


def test_a_batch_that_would_not_fill_takes_dropped_groups_back_the_earliest_first(
    doubles: SimpleNamespace, tmp_path: Path
) -> None:
    result = run(doubles, tmp_path, by_name("a", "b", "c"), accept=4)
    assert names(result) == ["a", "b", "d", "e"] and not result.short
    metrics = result.metrics
    assert metrics["terminal/filter_undone"] == 2 and metrics["rollout/dynamic_filter/drop_named"] == 1
    (dropped,) = (trial for trial in result.trials if trial.plan.task.name == "c")
    assert result.ledger.accounts["filter"] == dropped.sampled_tokens


def test_groups_of_equal_rewards_are_dropped_by_the_shipped_filter(doubles: SimpleNamespace, tmp_path: Path) -> None:
    differ = group_filter(REWARDS_DIFFER, samples_of=neutral_samples)
    result = run(doubles, tmp_path, differ, accept=2, samples=2)
    assert names(result) == ["a", "c"]
    assert result.metrics["rollout/dynamic_filter/drop_equal_0.1"] == 1


def test_without_a_filter_nothing_is_said_of_one(doubles: SimpleNamespace, tmp_path: Path) -> None:
    metrics = run(doubles, tmp_path, None, accept=3).metrics
    assert not [name for name in metrics if "filter" in name]


@pytest.fixture
def own_filters(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A user's module of filters, each in one of the ways that slime reads."""
    module = ModuleType("own_filters")
    seen: list[Any] = []

    def as_bool(args: Any, samples: Sequence[Any], **more: Any) -> bool:
        seen.append((args, samples))
        return bool(samples[0].get_reward_value(args) > 0)

    def as_object(args: Any, samples: Sequence[Any]) -> SimpleNamespace:
        return SimpleNamespace(keep=False, reason="never")

    def without_reason(args: Any, samples: Sequence[Any]) -> SimpleNamespace:
        return SimpleNamespace(keep=False, reason=None)

    def fails(args: Any, samples: Sequence[Any]) -> bool:
        raise KeyError("mine")

    vars(module).update(as_bool=as_bool, as_object=as_object, without_reason=without_reason, fails=fails, seen=seen)
    module.number = 3
    monkeypatch.setitem(sys.modules, "own_filters", module)
    return module


@pytest.mark.parametrize(
    ("name", "reason"), [("as_bool", None), ("as_object", "never"), ("without_reason", "dynamic_filter")]
)
def test_every_answer_that_slime_reads_is_read(
    doubles: SimpleNamespace, tmp_path: Path, own_filters: ModuleType, name: str, reason: str | None
) -> None:
    trials = run(doubles, tmp_path, None, accept=1).accepted
    found = group_filter(f"own_filters.{name}", args="slime's", samples_of=neutral_samples)
    assert found(trials) == reason
    for args, (sample,) in own_filters.seen:
        assert args == "slime's" and sample.metadata["task"] == "a" and sample.response_length > 0


def test_a_filter_that_fails_ends_the_rollout_and_says_why(
    doubles: SimpleNamespace, tmp_path: Path, own_filters: ModuleType
) -> None:
    with pytest.raises(T1Error, match=r"own_filters\.fails raised KeyError: 'mine'"):
        run(doubles, tmp_path, group_filter("own_filters.fails", samples_of=neutral_samples), accept=3)


@pytest.mark.parametrize("path", ["own_filters.absent", "own_filters.number", "not_there.at_all"])
def test_what_is_no_function_is_refused_before_anything_runs(own_filters: ModuleType, path: str) -> None:
    with pytest.raises(Refused) as refused:
        group_filter(path, samples_of=neutral_samples)
    (said,) = refused.value.diagnostics
    assert path in said.message and said.where == "rollout.dynamic_filter"
