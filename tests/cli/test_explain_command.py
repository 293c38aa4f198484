"""`t1 explain`: by ID, by the name of what told it, and what it says of names that it does not know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.catalogue.entry import entries
from t1cli.cli.app import app

GOLDEN = Path(__file__).parent / "golden" / "explain_R6.txt"


def t1(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["explain", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_text_word_for_word() -> None:
    assert t1("R6") == (0, GOLDEN.read_text(encoding="utf-8"), "")


def test_several_at_once_each_once_and_in_any_case() -> None:
    code, out, _ = t1("s4", "M2", "S4")
    assert code == 0
    assert [line[:2] for line in out.splitlines() if line[:1] in "MS" and line[:1]] == ["S4", "M2"]


@pytest.mark.parametrize(("name", "ids"), [("signal-dead", ["L1"]), ("host.swap", ["M8"]), ("cuda_oom", ["M1"])])
def test_what_told_it_leads_to_it(name: str, ids: list[str]) -> None:
    _, out, _ = t1(name, "--json")
    assert [row["id"] for row in json.loads(out)["failure_modes"]] == ids


def test_json_is_one_object_with_every_row() -> None:
    _, out, _ = t1("--json")
    answer = json.loads(out)
    assert answer["format_version"] == 1
    assert [row["id"] for row in answer["failure_modes"]] == list(entries())
    assert {"symptom", "first_guess", "mechanism", "fix", "catchers", "tests"} <= answer["failure_modes"][0].keys()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("S44", "did you mean `S4`"),
        ("signal-ded", "did you mean `signal-dead`?"),
        ("rollout.context_tokens", "`t1 plan SPEC --explain rollout.context_tokens`"),
        ("T-batch", "outside the catalogue"),
        ("gradient-dead", "belongs to no row of the catalogue; it says: "),
        ("network.ports", "it says: The ports that the spec fixes are free"),
        ("rollout binds", "it says: training waits for rollouts"),
        ("?", "`t1 explain` lists every failure mode"),
    ],
)
def test_an_unknown_name_is_bad_input_with_the_way_on(name: str, hint: str) -> None:
    code, out, err = t1(name)
    assert (code, out) == (2, "")
    assert hint in err


def test_all_unknown_names_are_told_at_once() -> None:
    assert t1("nothing", "M1", "neither")[2].endswith("2 errors\n")


def test_without_a_name_every_row_is_listed() -> None:
    _, out, _ = t1()
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert listed == list(entries())


def test_plan_explain_of_a_failure_mode_points_here() -> None:
    result = CliRunner().invoke(app, ["plan", "quickstart", "--explain", "S4"])
    assert result.exit_code == 2
    assert "`t1 explain S4`" in result.stderr
