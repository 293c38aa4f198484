"""Every word of a rule: k of n, small samples, missing and absent metrics, hysteresis, baselines, expressions."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from t1cli.errors import BadInput
from t1cli.watch.engine import Alert, Engine
from t1cli.watch.expression import Absent, Context, evaluate, parse
from t1cli.watch.history import History
from t1cli.watch.packs import pack_from
from t1cli.watch.rule import Pack
from t1cli.watch.rule_tests import frames_of
from t1cli.watch.sources.source import Row


def engine_of(rule: dict[str, Any], **options: Any) -> Engine:
    more = options.pop("pack", {})
    made = pack_from({"rules": [{"name": "r", **rule}], **more}, "test")
    return Engine([made], variables=options.pop("variables", {}), **options)


def alerts(engine: Engine, **series: str) -> list[Alert]:
    named = {name.replace("__", "/"): text for name, text in series.items()}
    return [alert for frame in frames_of(named) for alert in engine.observe(frame)]


def fired(engine: Engine, **series: str) -> list[int]:
    alerts(engine, **series)
    return engine.rules[0].fired_at


def test_k_of_n_tolerates_a_good_point_and_consecutive_does_not() -> None:
    text = "0x3 1 1 0 1 1 0x5"
    assert fired(engine_of({"metric": "m", "above": 0.5, "for": 4, "of": 5}), m=text) == [8]
    assert fired(engine_of({"metric": "m", "above": 0.5, "for": 4}), m=text) == []


def test_of_must_not_be_smaller_than_for() -> None:
    with pytest.raises(BadInput, match="must not be smaller"):
        engine_of({"metric": "m", "above": 1, "for": 5, "of": 4})


def test_min_points_is_a_warm_up() -> None:
    engine = engine_of({"metric": "m", "above": 0.5, "min_points": 6})
    assert fired(engine, m="1x9") == [5]


def test_points_over_too_few_samples_are_skipped_and_move_no_patience() -> None:
    rule = {"metric": "m", "above": 0.5, "for": 3, "min_n": {"metric": "n", "at_least": 32}}
    assert fired(engine_of(rule), m="1 1 0 1 1", n="64 64 3 64 64") == [3]
    assert fired(engine_of(rule), m="1 1 0 1 1", n="64 64 64 64 64") == []
    assert fired(engine_of(rule), m="1x20", n="3x20") == []


def test_absent_is_measured_on_the_runs_own_clock() -> None:
    rule = {"metric": "accuracy", "absent": True}
    engine = engine_of(rule)
    assert fired(engine, accuracy="0.4x9 _x5", clock="1x14") == [13]
    # A metric that comes every fifth step is not absent between its points.
    sparse = engine_of(rule)
    for step in range(60):
        sparse.observe(Row(step, {"clock": 1.0, **({"accuracy": 0.4} if step % 5 == 0 and step < 30 else {})}))
    assert sparse.rules[0].fired_at == [41]


def test_a_metric_that_never_came_is_absent_after_min_points() -> None:
    assert fired(engine_of({"metric": "never", "absent": True, "min_points": 10}), clock="1x20") == [9]


@pytest.mark.parametrize(
    ("meaning", "fires", "notices"), [("hold", [], 0), ("breach", [10], 0), ("ok", [], 0), ("alert", [], 1)]
)
def test_on_missing_says_what_an_overdue_metric_means(meaning: str, fires: list[int], notices: int) -> None:
    """The point at step 5 breaches; steps 9 and 10 are more than three cadences after it."""
    engine = engine_of({"metric": "m", "above": 0.5, "for": 3, "on_missing": meaning})
    told = alerts(engine, m="0x4 1 _x9", clock="1x20")
    assert engine.rules[0].fired_at == fires
    assert sum(alert.severity == "notice" for alert in told) == notices


def test_hysteresis_keeps_firing_until_the_clear_bound() -> None:
    rule = {"metric": "m", "above": 0.7, "clear": 0.5}
    assert fired(engine_of(rule), m="0.8 0.6 0.8 0.6 0.4 0.8") == [0, 5]
    assert fired(engine_of({"metric": "m", "above": 0.7}), m="0.8 0.6 0.8 0.6 0.4 0.8") == [0, 2, 5]


def test_recover_wants_several_good_points() -> None:
    rule = {"metric": "m", "above": 0.7, "recover": 3}
    assert fired(engine_of(rule), m="1 0 0 1 0 0 0 1") == [0, 7]


def test_relative_and_absolute_bounds_together() -> None:
    rule = {
        "metric": "m",
        "below": 0.1,
        "baseline": {"of": "first", "points": 3},
        "also": [{"metric": "m", "below": 0.05}],
    }
    assert fired(engine_of(rule), m="10 10 10 0.9 0.9 0.04") == [5]


def test_first_baseline_may_skip_what_is_not_normal_yet() -> None:
    rule = {"metric": "m", "below": 0.5, "baseline": {"of": "first", "points": 3, "skip": 2}}
    assert fired(engine_of(rule), m="100 100 1 1 1 0.9 0.4") == [6]


def test_best_baseline_is_the_best_stretch_so_far() -> None:
    rule = {"metric": "m", "window": 2, "below": 0.75, "baseline": {"of": "best", "points": 2}}
    assert fired(engine_of(rule), m="1 1 2 2 1.4 1.4") == [5]


def test_baseline_of_another_run_is_taken_at_the_same_step() -> None:
    other = History()
    for step in range(20):
        other.add(Row(step, {"m": float(step)}))
    rule = {"metric": "m", "above": 2.0, "baseline": {"of": "run", "run": "good", "points": 2, "statistic": "mean"}}
    engine = engine_of(rule, other_runs={"good": other})
    assert fired(engine, m="0 1 2 3 4 9.5") == [5]  # 2 x mean(4, 5) = 9


def test_after_and_until_bound_the_season() -> None:
    assert fired(engine_of({"metric": "m", "above": 0.5, "after": 3}), m="1x9") == [3]
    assert fired(engine_of({"metric": "m", "above": 0.5, "for": 6, "until": 4}), m="1x9") == []


def test_slope_and_share() -> None:
    assert fired(engine_of({"metric": "m", "window": 4, "aggregate": "slope", "above": 0.9}), m="0 0 1+1x6") == [4]
    assert fired(engine_of({"metric": "m", "window": 4, "aggregate": "frac_true", "above": 0.6}), m="0 1 0 1 1 1") == [
        4
    ]


def test_reset_on_resume_forgets_the_frozen_baseline() -> None:
    rule = {"metric": "m", "below": 0.5, "for": 9, "baseline": {"of": "prior", "points": 3}}
    for reset, base in ((False, 1.0), (True, None)):
        engine = engine_of({**rule, "reset_on_resume": reset})
        alerts(engine, m="1x3 0.1 0.1 rewind(5)", clock="1x5")
        assert engine.rules[0].frozen == 1.0
        engine.observe(Row(4, {"m": math.nan}))
        assert engine.segment == 1
        assert engine.rules[0].frozen == base


def test_a_threshold_over_an_unset_variable_has_no_verdict() -> None:
    engine = engine_of({"metric": "m", "above": "rollout_batch_size * 0.9"})
    assert fired(engine, m="99x9") == []
    assert engine.rules[0].note == "rollout_batch_size is not known"


def test_finite_is_no_comparison_with_a_clear_bound() -> None:
    with pytest.raises(BadInput, match="`clear` goes with `above` or `below`"):
        engine_of({"metric": "m", "finite": True, "clear": 1})
    with pytest.raises(ValidationError):
        Pack.model_validate({"rules": [{"name": "r", "metric": "m", "above": 1, "below": 0}]})


def test_derived_metrics_may_build_on_each_other() -> None:
    pack = {"derived": {"live": 'm("len") / (1 - m("lost"))', "twice": 'm("live") * 2'}}
    engine = engine_of({"metric": "twice", "above": 100}, pack=pack)
    assert fired(engine, len="40 40 6", lost="0 0.5 1") == [1]
    series = engine.history.get("live")
    assert series is not None
    assert series.steps == [0, 1]  # absent where it would divide by zero


def test_a_later_pack_overrides_a_rule_of_the_same_name() -> None:
    first = pack_from({"rules": [{"name": "r", "metric": "m", "above": 1}]}, "a")
    second = pack_from({"rules": [{"name": "r", "metric": "m", "above": 5}]}, "b")
    assert [state.rule.above for state in Engine([first, second], variables={}).rules] == [5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rollout_batch_size * 0.9", 14.4),
        ('sum("z/*")', 3.0),
        ('mean("z/*", without="z/b")', 1.0),
        ('m("x") > 4', 1.0),
        ("max(1, 2) - abs(-3)", -1.0),
        ('count("z/*")', 2.0),
    ],
)
def test_expressions(text: str, expected: float) -> None:
    context = Context({"rollout_batch_size": 16.0}, {"z/a": 1.0, "z/b": 2.0, "x": 5.0})
    assert evaluate(text, context) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "x.__class__", "[1]", "lambda: 1", "m('a') if 1 else 2", "1 <", "open('f')", "2 ** 9"]
)
def test_expressions_refuse_everything_else(text: str) -> None:
    with pytest.raises(BadInput, match="cannot read the expression"):
        parse(text)


def test_what_is_missing_is_absent_not_zero() -> None:
    for text in ('m("gone")', "rollout_batch_size", "seconds()", 'mean("gone/*")', "1 / 0"):
        with pytest.raises(Absent):
            evaluate(text, Context())
