"""Every shipped experiment plans: known failures are refused for the right reason, the others are accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.plan.diff import flatten
from t1cli.spec.locate import data_root, experiment_names

REFUSED_BY = {
    "qwen3-4b-grpo-starved": {"S1"},
    "qwen3-8b-grpo-starved": {"S1"},
    "t1-56gpu-crash": {"M1", "M2"},
}
REFERENCE_PAGE = data_root() / "docs" / "reference" / "plan-json.md"


def plan_json(name: str) -> tuple[int, dict[str, object]]:
    result = CliRunner().invoke(app, ["plan", name, "--json"])
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize("name", experiment_names())
def test_verdict_and_exit_code_agree(name: str) -> None:
    exit_code, plan = plan_json(name)
    errors = {finding["id"] for finding in plan["findings"] if finding["severity"] == "error"}
    assert errors == REFUSED_BY.get(name, set())
    assert exit_code == (1 if errors or plan["verdict"] == "OOM" else 0)
    assert plan["accepted"] == (exit_code == 0)
    assert (plan["verdict"] == "NOT_APPLICABLE") == (plan["engine"] == "embedded")
    stages = [stage for role in plan["memory"]["roles"].values() for stage in role["stages"]]
    assert bool(stages) == (plan["engine"] == "slime")
    for stage in stages:
        assert stage["low_gib"] <= stage["peak_gib"] <= stage["high_gib"]
        assert sum(stage["terms"].values()) == pytest.approx(stage["peak_gib"], rel=1e-6)
    assert sum(plan["parameters"]["per_stage"]) == plan["parameters"]["total"]


@pytest.mark.parametrize("name", experiment_names())
def test_every_finding_points_at_a_real_line(name: str) -> None:
    for finding in plan_json(name)[1]["findings"]:
        file, _, line = finding["where"].partition(":")
        assert (Path.cwd() / file).is_file(), finding
        assert not line or 0 < int(line) <= len((Path.cwd() / file).read_text().splitlines())
        assert finding["message"] and finding["fix"]


def test_the_keys_that_scripts_rely_on_are_there_and_documented() -> None:
    page = REFERENCE_PAGE.read_text(encoding="utf-8")
    for key in flatten(plan_json("t1-56gpu-crash")[1]):
        parts = [part for part in key.split(".") if not part.isdigit()]
        if parts[:2] == ["memory", "roles"]:
            parts = ["memory", "roles", "<role>", *parts[3:]]
        for by_name in {"terms", "coefficients"} & set(parts):
            parts = parts[: parts.index(by_name) + 1]
        assert f"`{'.'.join(parts)}`" in page, f"{key} is not in {REFERENCE_PAGE.name}"
