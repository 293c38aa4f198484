"""Lag by weight version, per pipeline, and rows that mix versions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from t1cli.errors import T1Error
from t1cli.terminal.trajectory.row import TrainingRow
from t1cli.terminal.trajectory.versions import LagRule, VersionClock


def row(*versions: int) -> TrainingRow:
    return TrainingRow(
        trial_id="trial",
        group_id=0,
        task="task",
        family="made-up",
        tokens=np.zeros(3, np.int32),
        response_start=1,
        loss_mask=np.array([0, 1, 1], np.uint8),
        log_probs=np.zeros(3, np.float32),
        routed_experts=None,
        reward=0.0,
        outcome="scored",
        weight_versions=versions,
    )


def lags(rule: LagRule, first: int, versions: Sequence[int]) -> list[int | None]:
    clock = VersionClock(rule)
    return [clock.lag(first + index, [row(version, version)]) for index, version in enumerate(versions)]


@pytest.mark.parametrize("first", [0, 40], ids=["fresh", "resumed"])
def test_sync_never_lags_and_one_step_lags_by_one_after_the_first(first: int) -> None:
    assert lags(LagRule("sync", 0), first, [1, 2, 3, 4]) == [0, 0, 0, 0]
    assert lags(LagRule("one_step", 1), first, [1, 1, 2, 3]) == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("rule", "versions"),
    [
        (LagRule("sync", 0), [1, 1]),
        (LagRule("sync", 0), [1, 3]),
        (LagRule("one_step", 1), [1, 2]),
        (LagRule("one_step", 1), [1, 1, 1]),
        (LagRule("fully_async", 2), [5, 5, 5, 5]),
    ],
)
def test_another_lag_is_an_error(rule: LagRule, versions: list[int]) -> None:
    with pytest.raises(T1Error, match="weight versions before the trainer's, expected"):
        lags(rule, 0, versions)


def test_fully_async_is_bounded_by_its_staleness() -> None:
    assert lags(LagRule("fully_async", 2), 0, [5, 5, 5, 7, 7]) == [0, 1, 2, 1, 2]


def test_a_row_that_spans_versions_is_an_error_unless_staleness_allows_it() -> None:
    for rule in (LagRule("sync", 0), LagRule("one_step", 1)):
        with pytest.raises(T1Error, match=r"row of trial trial: .* weight versions 3 to 4"):
            VersionClock(rule).lag(0, [row(3, 3, 4)])
        with pytest.raises(T1Error, match=r"batch: .* weight versions 3 to 4"):
            VersionClock(rule).lag(0, [row(3), row(4)])
    assert VersionClock(LagRule("fully_async", 1)).lag(0, [row(3, 4)]) == 0
    with pytest.raises(T1Error, match="fully_async allows 1 apart"):
        VersionClock(LagRule("fully_async", 1)).lag(0, [row(3, 5)])


def test_an_engine_without_a_push_says_nothing() -> None:
    assert lags(LagRule("sync", 0), 0, [-1, 0, 0]) == [None, None, None]
