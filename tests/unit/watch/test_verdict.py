"""Healthy takes more than silence; people count rollouts from 1; good news is no alarm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.run.state import RunState, Standing
from t1cli.spec.locate import presets_dir
from t1cli.ui.watch_view import Lines, print_alert, print_result
from t1cli.watch.counting import OF_FILE, OF_RUN, Counting
from t1cli.watch.engine import Alert, Engine
from t1cli.watch.packs import load_packs, pack_from
from t1cli.watch.result import RunClock, Verdict, WatchResult, summarize
from t1cli.watch.sources.source import Row

FINISHED = Standing(RunState.FINISHED, "", None, None, None)
LASTING = {"name": "lasting", "metric": "m", "above": 9.0, "for": 6, "settles": True}
AT_ONCE = {"name": "at-once", "metric": "m", "above": 9.0}
BINDS: dict[str, Any] = {
    "name": "binds",
    "healthy": True,
    "signs": [{"metric": "m", "above": 0.5}],
    "advice": "more GPUs",
    "advice_on_one_machine": "as is usual",
}


def watched(rules: list[dict[str, Any]], values: list[float], **more: Any) -> WatchResult:
    engine = Engine([pack_from({"rules": rules, **more}, "test")], variables={})
    for step, value in enumerate(values):
        engine.observe(Row(step, {"m": value}))
    return summarize(engine, "r", RunClock({}), FINISHED)


@pytest.mark.parametrize(("rollouts", "verdict"), [(5, Verdict.TOO_SHORT), (6, Verdict.HEALTHY)])
def test_a_run_is_healthy_once_a_rule_that_settles_could_have_fired(rollouts: int, verdict: Verdict) -> None:
    found = watched([LASTING, AT_ONCE], [1.0] * rollouts)
    assert found.verdict is verdict
    assert found.to_json()["verdict"] == verdict
    assert found.healthy


def test_too_short_counts_the_rules_that_still_need_points() -> None:
    slow = {**LASTING, "name": "slow", "settles": False, "window": 20}
    notice = {**LASTING, "name": "notice", "severity": "notice"}
    unlogged = {**LASTING, "name": "unlogged", "metric": "n"}
    found = watched([LASTING, AT_ONCE, slow, notice, unlogged], [1.0] * 5)
    assert found.words == "too short to judge: 2 of 3 rules still need points"


def test_without_a_rule_that_settles_half_of_them_do() -> None:
    slow = {**AT_ONCE, "name": "slow", "for": 50}
    assert watched([AT_ONCE, slow], [1.0]).verdict is Verdict.HEALTHY
    assert watched([AT_ONCE, slow, {**slow, "name": "slower"}], [1.0]).verdict is Verdict.TOO_SHORT


def test_a_breach_that_could_not_last_long_enough_is_not_called_healthy() -> None:
    found = watched([LASTING], [10.0] * 5)
    assert found.rules[0].standing == "pending: 5 of the 6 breaching points it takes"
    assert found.words.startswith("too short to judge")
    assert watched([LASTING], [10.0] * 6).words == "NOT healthy"


def test_a_rule_out_of_its_season_could_not_have_fired() -> None:
    assert not watched([{**AT_ONCE, "after": 8}], [1.0] * 8).rules[0].could_fire
    assert watched([{**AT_ONCE, "after": 8}], [1.0] * 9).rules[0].could_fire


def test_a_run_that_logs_nothing_a_rule_reads_is_not_called_healthy() -> None:
    assert watched([{**AT_ONCE, "metric": "n"}], [1.0]).words.startswith("nothing to judge by")


def test_what_is_pending_says_whose_points_it_counts() -> None:
    rule = {"name": "r", "metric": "m", "above": 3.0, "window": 2, "for": 3, "baseline": {"of": "prior", "points": 6}}
    warming = watched([rule], [1.0] * 7).rules[0]
    assert warming.standing == "warming: 7 of 8 points"
    assert watched([rule], [1.0] * 7 + [9.0]).rules[0].standing == "pending: 1 of the 3 breaching points it takes"
    some = {"name": "r", "metric": "m", "above": 3.0, "for": 3, "of": 5}
    assert watched([some], [9.0, 1.0]).rules[0].standing == "pending: 1 of the 3 breaching points it takes, among 5"


def test_a_warming_rule_counts_window_and_baseline_together() -> None:
    rule = {"name": "r", "metric": "m", "above": 3.0, "window": 5, "baseline": {"of": "prior", "points": 10}}
    assert [watched([rule], [1.0] * n).rules[0].standing for n in (3, 9)] == [
        "warming: 3 of 15 points",
        "warming: 9 of 15 points",
    ]


def test_good_news_is_told_once_and_bad_news_each_time() -> None:
    bad = {**BINDS, "name": "bad", "healthy": False}
    engine = Engine([pack_from({"diagnoses": [BINDS, bad]}, "test")], variables={}, one_machine=True)
    told = [alert for step, value in enumerate((1, 0, 1)) for alert in engine.observe(Row(step, {"m": float(value)}))]
    assert [(alert.rule, alert.step, alert.good) for alert in told] == [
        ("diagnosis: binds", 0, True),
        ("diagnosis: bad", 0, False),
        ("diagnosis: bad", 2, False),
    ]
    assert {alert.advice for alert in told} == {"as is usual"}
    assert summarize(engine, "r", RunClock({})).diagnoses[0].advice == "as is usual"


def test_no_shipped_good_news_advises_gpus_to_one_machine() -> None:
    good = [d for pack in load_packs(["terminal", "slime-ppo", "slime-grpo", "invariants"]) for d in pack.diagnoses]
    texts = [diagnosis.advice_on_one_machine for diagnosis in good if diagnosis.healthy and "GPU" in diagnosis.advice]
    assert texts
    assert all(text and "GPU" not in text for text in texts)


def test_good_news_is_printed_without_an_alarm(capsys: pytest.CaptureFixture[str]) -> None:
    alert = Alert("diagnosis: binds", "diagnosis", 19, None, None, "", "m 1 above 0.5", "as is usual", (), good=True)
    print_alert(alert)
    text = capsys.readouterr().out
    assert text.splitlines() == [
        "✓ diagnosis: binds (good news), from rollout 20 on: m 1 above 0.5",
        "  note: as is usual",
    ]


@pytest.mark.parametrize(("counting", "word"), [(OF_RUN, "rollout 20"), (OF_FILE, "step 19")])
def test_a_line_and_an_alert_of_one_rollout_have_one_number(
    counting: Counting, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Lines(None, counting)
    lines.row(Row(19, {"rollout/x": 1.0, "train/y": 1.0, "perf/rollout_time": 5.7, "perf/step_time": 8.3}))
    print_alert(Alert("hot", "warning", 19, None, None, "m", "so", "", ()), counting)
    print_alert(Alert("diagnosis: ill", "diagnosis", 19, None, None, "m", "so", "", ()), counting)
    assert capsys.readouterr().out.splitlines() == [
        f"{word}  rollout s 5.7  step s 8.3",
        f"! warning hot at {word}: so",
        f"! diagnosis: ill at {word}: so",
    ]


def test_the_table_counts_rollouts_of_a_run_from_1_and_json_keeps_steps(capsys: pytest.CaptureFixture[str]) -> None:
    rule = {**AT_ONCE, "severity": "stop", "confirmed": True}
    found = watched([rule], [1.0] * 3 + [10.0], diagnoses=[{**BINDS, "signs": [{"metric": "m", "above": 9}]}])
    print_result(found)
    text = capsys.readouterr().out
    assert "at-once                               4            4  firing" in text
    assert "stop: at-once at rollout 4" in text
    assert "diagnosis: binds (good news), rollout 4\n" in text
    assert found.to_json()["rules"][0]["fired_at"] == (3,)
    assert found.to_json()["diagnoses"][0]["from"] == 3


def test_a_foreign_file_is_quoted_by_its_own_steps(tmp_path: Path) -> None:
    pack = tmp_path / "pack.yaml"
    pack.write_text("rules:\n  - {name: late, metric: train/grad_norm, above: 0, after: 7}\n")
    history = presets_dir() / "watch" / "histories" / "verl_grpo_qwen7b_entropy_collapse.csv"
    outcome = CliRunner().invoke(app, ["watch", str(history), "--replay", "--rules", str(pack)])
    assert "late                                  1            7  firing" in outcome.stdout
    assert OF_FILE.span(3, 5) == "steps 3 to 5"
    assert OF_RUN.several([4]) == "rollout 5"
