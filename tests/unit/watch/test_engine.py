"""Rules: windows, patience, baselines, second signs, NaN, rewinds; the same alerts however the stream is cut."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from t1cli.errors import BadInput
from t1cli.watch.engine import Engine
from t1cli.watch.rule import Pack
from t1cli.watch.sources.source import Row


def pack(*rules: dict[str, Any], **more: Any) -> Pack:
    named = [{"name": f"r{i}", "severity": "warning", "says": "so", **rule} for i, rule in enumerate(rules)]
    return Pack.model_validate({"about": "test", "rules": named, **more})


def fired(made: Pack, values: list[float], metric: str = "m", **options: Any) -> list[int]:
    engine = Engine([made], variables=options.pop("variables", {}), **options)
    for step, value in enumerate(values):
        engine.observe(Row(step, {metric: value}))
    return engine.rules[0].fired_at


def test_window_mean_and_patience_are_different_things() -> None:
    values = [0.0] * 5 + [1.0] * 10
    assert fired(pack({"metric": "m", "window": 4, "above": 0.7}), values) == [7]
    assert fired(pack({"metric": "m", "for": 4, "above": 0.7}), values) == [8]


def test_fires_once_and_again_only_after_recovery() -> None:
    assert fired(pack({"metric": "m", "above": 0.5}), [1, 1, 0, 1, 1]) == [0, 3]


def test_relative_baseline_is_frozen_while_pending() -> None:
    slow_fall = [1.0] * 10 + [0.4] * 20
    rule = {"metric": "m", "below": 0.5, "for": 15, "baseline": {"of": "prior", "points": 5}}
    # With a baseline that followed the fall, the breach would clear after five points and never reach 15.
    assert fired(pack(rule), slow_fall) == [24]


def test_no_verdict_before_the_baseline_is_full() -> None:
    rule = {"metric": "m", "above": 3.0, "window": 2, "baseline": {"of": "prior", "points": 6}}
    engine = Engine([pack(rule)], variables={})
    for step in range(7):
        engine.observe(Row(step, {"m": 1.0}))
    assert engine.rules[0].state == "warming"
    assert "7 of 8 points" in engine.rules[0].note


def test_nan_neither_breaches_nor_clears() -> None:
    rule = pack({"metric": "m", "above": 0.5, "for": 3})
    assert fired(rule, [1, math.nan, 1, math.nan, 1]) == [4]
    assert fired(rule, [math.nan] * 9) == []


def test_finite_rule_sees_nan_and_infinity() -> None:
    assert fired(pack({"metric": "m", "finite": True, "for": 2}), [1, math.nan, math.inf, 1]) == [2]


def test_a_stop_rule_waits_for_its_second_sign() -> None:
    rule = {"metric": "m", "above": 0.5, "severity": "stop", "second_sign": [{"metric": "n", "below": 1.0}]}
    engine = Engine([pack(rule)], variables={})
    engine.observe(Row(0, {"n": 2.0}))
    assert engine.observe(Row(1, {"m": 1.0})) == ()
    assert engine.rules[0].note == "waiting for a second sign"
    alerts = engine.observe(Row(2, {"n": 0.5, "m": 1.0}))
    assert [alert.rule for alert in alerts] == ["r0"]


def test_a_stop_rule_without_second_sign_must_be_confirmed() -> None:
    with pytest.raises(ValidationError, match="second_sign"):
        pack({"metric": "m", "above": 0.5, "severity": "stop"})


def test_no_stop_before_the_protected_rollouts_are_over() -> None:
    rule = pack({"metric": "m", "above": 0.5, "severity": "stop", "confirmed": True})
    assert fired(rule, [1.0] * 6, protect=4) == [4]


def test_windows_scale_to_short_runs() -> None:
    assert fired(pack({"metric": "m", "window": 30, "above": 0.5}), [1.0] * 10, window_scale=0.2) == [5]


def test_thresholds_may_name_a_variable() -> None:
    rule = pack({"metric": "m", "above": "rollout_batch_size * 0.9"})
    assert fired(rule, [14, 15], variables={"rollout_batch_size": 16.0}) == [1]
    with pytest.raises(BadInput, match="rollout_size"):
        fired(pack({"metric": "m", "above": "rollout_size"}), [1.0])


def test_derived_sum_counts_absent_as_zero() -> None:
    made = pack(
        {"metric": "zero", "above": 2.5},
        derived={"zero": {"expression": 'sum("rollout/zero_std/count_*")', "needs": "rollout/*"}},
    )
    engine = Engine([made], variables={})
    engine.observe(Row(0, {"rollout/raw_reward": 1.0}))
    engine.observe(Row(1, {"rollout/zero_std/count_0.0": 1.0, "rollout/zero_std/count_1.0": 2.0}))
    engine.observe(Row(2, {"train/grad_norm": 1.0}))
    series = engine.history.get("zero")
    assert series is not None
    assert (series.steps, series.values) == ([0, 1], [0.0, 3.0])
    assert engine.rules[0].fired_at == [1]


def test_a_rewind_restarts_patience_and_rewrites_the_curve() -> None:
    rule = pack({"metric": "m", "above": 0.5, "for": 3})
    engine = Engine([rule], variables={})
    for step, value in ((0, 0), (1, 1), (2, 1), (1, 1), (2, 1)):
        engine.observe(Row(step, {"m": float(value)}))
    assert engine.rules[0].fired_at == []
    engine.observe(Row(3, {"m": 1.0}))
    assert engine.rules[0].fired_at == [3]
    series = engine.history.get("m")
    assert series is not None
    assert series.steps == [0, 1, 2, 3]


def test_diagnosis_needs_all_signs_and_no_absent_sign() -> None:
    made = pack(
        diagnoses=[
            {
                "name": "collapse",
                "signs": [{"metric": "length", "below": 10}],
                "absent_signs": [{"metric": "lost", "above": 0.5}],
                "advice": "go back",
            }
        ]
    )
    engine = Engine([made], variables={})
    engine.observe(Row(0, {"lost": 0.9, "length": 5}))
    assert engine.diagnoses[0].first is None
    engine.observe(Row(1, {"lost": 0.1, "length": 5}))
    assert (engine.diagnoses[0].first, engine.diagnoses[0].evidence) == (1, ("length 5 below 10",))


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(st.one_of(st.floats(-2, 2), st.just(math.nan)), max_size=60),
    window=st.integers(1, 5),
    patience=st.integers(1, 5),
)
def test_engine_agrees_with_a_plain_reference(values: list[float], window: int, patience: int) -> None:
    """The definition, written out without state: a streak of breaching windows over the finite values."""
    made = pack({"metric": "m", "window": window, "for": patience, "above": 0.5})
    finite: list[float] = []
    streak, firing, expected = 0, False, []
    for step, value in enumerate(values):
        if math.isnan(value):
            continue
        finite.append(value)
        if len(finite) < window:
            continue
        if sum(finite[-window:]) / window > 0.5:
            streak += 1
            if streak >= patience and not firing:
                expected.append(step)
                firing = True
        else:
            streak, firing = 0, False
    assert fired(made, values) == expected
