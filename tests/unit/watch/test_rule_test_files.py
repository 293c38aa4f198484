"""`t1 watch test`: the notation, and that a rule with a wrong figure fails its own tests."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.errors import BadInput
from t1cli.spec.locate import presets_dir
from t1cli.watch.packs import load_packs, shipped_packs
from t1cli.watch.rule_tests import frames_of, read_tests
from t1cli.watch.series_notation import expand

SHIPPED = presets_dir() / "watch" / "tests" / "shipped.yaml"
RED_FLAGS = SHIPPED.with_name("red-flags.yaml")


def values(text: str, seed: int = 0) -> list[float | None]:
    return [point.value for point in expand(text, seed)]


def test_notation() -> None:
    assert values("0.4 1x2 1+0.5x2 1-1x1 _ _x2 inf -inf") == [
        0.4, 1, 1, 1, 1, 1.5, 2, 1, 0, None, None, None, math.inf, -math.inf,
    ]  # fmt: skip
    assert math.isnan(values("nan")[0] or 0)
    assert values("~N(0.4, 0.1)x5", seed=1) == values("~N(0.4,0.1)x5", seed=1)
    assert values("~N(0.4,0.1)x5", seed=1) != values("~N(0.4,0.1)x5", seed=2)
    assert [(p.step, p.session) for p in expand("1x2 rewind(1) 5")] == [(0, 0), (1, 0), (2, 0), (1, 1)]


@pytest.mark.parametrize("text", ["one", "1xx2", "~N(1)x3", "rewind()"])
def test_what_is_no_notation_is_quoted_back(text: str) -> None:
    with pytest.raises(BadInput, match="cannot read"):
        expand(text)


def test_shipped_rule_tests_pass() -> None:
    result = CliRunner().invoke(app, ["watch", "test", str(SHIPPED), str(RED_FLAGS)])
    assert result.exit_code == 0, result.stdout
    assert " 0 failed" in result.stdout


def test_every_shipped_rule_and_diagnosis_comes_true_in_a_shipped_test() -> None:
    packs = load_packs([name for name in shipped_packs() if name != "postmortem-verbatim"])
    names = {one.name for pack in packs for one in (*pack.rules, *pack.diagnoses)}
    tests = [test for path in (SHIPPED, RED_FLAGS) for test in read_tests(path).tests]
    wanted = [(name, said) for test in tests for name, said in (*test.expect.items(), *test.diagnoses.items())]
    assert names - {name for name, said in wanted if said != "never"} == set()


def test_a_pace_may_be_a_series() -> None:
    rows = frames_of({"a": "1x4"}, seconds_per_step="60 300 10")
    assert [row.time for row in rows] == [0, 60, 360, 370, 380]


def test_a_number_that_yaml_made_of_a_series_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("rules: [terminal]\ntests:\n  - {name: x, series: {a: 0x40}}\n")
    with pytest.raises(BadInput, match="a: YAML read a number; quote it"):
        read_tests(path)


@pytest.mark.parametrize(
    ("pack", "rule", "key", "wrong"),
    [
        ("slime-grpo", "signal-starvation", "above", 0.9),
        ("slime-grpo", "signal-dead", "above", 0.95),
        ("slime-grpo", "gradient-gone", "below", 0.9),
        ("slime-grpo", "policy-drift", "above", 5),
        ("slime-grpo", "groups-constant", "second_sign", [{"metric": "terminal/non_trainable_ratio", "above": -1}]),
        ("slime-ppo", "critic-worse-than-mean", "after", 0),
        ("terminal", "rollout-straggles", "window", 1),
        ("invariants", "gap-reducer-bug", "above", 500.0),
    ],
)
def test_a_wrong_figure_fails_the_tests(tmp_path: Path, pack: str, rule: str, key: str, wrong: object) -> None:
    found = yaml.safe_load((presets_dir() / "watch" / f"{pack}.yaml").read_text(encoding="utf-8"))
    (written,) = [entry for entry in found["rules"] if entry["name"] == rule]
    written[key] = wrong
    (tmp_path / "mutant.yaml").write_text(yaml.safe_dump(found), encoding="utf-8")
    tests = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    tests["tests"] = [test for test in tests["tests"] if rule in test.get("expect", {})]
    tests["rules"].append("mutant.yaml")  # a later pack's rule replaces the one before it
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests), encoding="utf-8")
    result = CliRunner().invoke(app, ["watch", "test", str(tmp_path / "tests.yaml")])
    assert result.exit_code == 1, result.stdout
    assert f"rule {rule}" in result.stdout


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: os.symlink(path, path)], ids=["pipe", "dir", "loop"]
)
def test_what_is_no_file_is_not_waited_for(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "tests.yaml")
    with pytest.raises(BadInput, match="no file"):
        read_tests(tmp_path / "tests.yaml")


def test_a_bad_test_file_is_located(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("rules: [terminal]\ntests:\n  - {name: x, series: {}, expekt: {}}\n")
    result = CliRunner().invoke(app, ["watch", "test", str(path)])
    assert result.exit_code == 2
    assert "unknown key `expekt` in test `x`" in result.stderr
    assert "did you mean `expect`?" in result.stderr


def test_what_is_wrong_in_a_test_file_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "tests.yaml"
    path.write_text("rules: [slime-grpo]\ntests:\n  - name: one\n    seed: often\n    sereis: {}\n")
    with pytest.raises(BadInput) as error:
        read_tests(path)
    assert {problem.where for problem in error.value.diagnostics} == {f"{path}:{line}:5" for line in (3, 4, 5)}
