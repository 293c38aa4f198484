"""`t1 preflight` on the command line: what is shown, which options it takes, and its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from t1cli.cli.app import app


def preflight(*arguments: str, runs: Path) -> Result:
    return CliRunner().invoke(app, ["preflight", "quickstart", *arguments, "--runs-dir", str(runs)])


def test_checks_that_do_not_apply_are_one_line_unless_asked_for(tmp_path: Path) -> None:
    only = ("--skip", "sandboxes", "--skip", "tasks", "--skip", "host", "--skip", "storage")
    short = preflight(*only, runs=tmp_path)
    assert short.exit_code == 0, short.output
    assert re.search(r"- skipped \d+ checks \(", short.output) and "gpus.present" not in short.output
    assert "Next: t1 launch quickstart" in short.output
    whole = preflight(*only, "--all", runs=tmp_path)
    assert "- skipped gpus.present" in whole.output
    assert list(tmp_path.iterdir()) == [], "nothing was written"


def test_a_campaign_whose_cluster_is_not_named_is_asked_for_it(tmp_path: Path) -> None:
    arguments = ["preflight", "t1-strategy15k", "--skip", "sandboxes", "--runs-dir", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "could not be asked: this machine is not a node of the campaign's cluster" in done.output
    last = done.output.splitlines()[-1]
    assert last.startswith("Next: t1 preflight t1-strategy15k") and "engine.ray_address=http://HEAD:8265" in last


def test_json_is_one_object_with_every_check_once(tmp_path: Path) -> None:
    done = preflight("--only", "storage", "--only", "security.runs_directory", "--json", runs=tmp_path)
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and next(iter(found)) == "format_version"
    assert [check["id"].split(".")[0] for check in found["checks"]] == ["storage"] * 4 + ["security"]
    assert {"catalogue", "status", "found", "wanted", "fix", "seconds", "age_seconds", "nodes"} <= set(
        found["checks"][0]
    )


def test_a_failed_check_is_exit_1_and_names_the_command(tmp_path: Path) -> None:
    done = preflight("--only", "tasks.pool", "--set", f"tasks.path={tmp_path / 'absent'}", runs=tmp_path)
    assert done.exit_code == 1
    again = f"t1 preflight quickstart --set tasks.path={tmp_path / 'absent'} --runs-dir {tmp_path} --only tasks.pool"
    assert "✗ fail    tasks.pool" in done.output and f"Next: {again}\n" in done.output


def test_strict_takes_a_warning_for_a_failure(tmp_path: Path) -> None:
    arguments = ("--only", "tasks.pool", "--set", "tasks.card.num_tasks=61")
    assert preflight(*arguments, runs=tmp_path).exit_code == 0
    assert preflight(*arguments, "--strict", runs=tmp_path).exit_code == 1


def test_watch_ends_at_once_when_nothing_fails(tmp_path: Path) -> None:
    done = preflight("--only", "storage.writable", "--watch", "--json", runs=tmp_path)
    assert done.exit_code == 0 and json.loads(done.stdout)["ready"] is True


@pytest.mark.parametrize(("option", "near"), [("--only", "storage.disk"), ("--skip", "storage.disk")])
def test_unknown_names_are_bad_input_with_near_ones(tmp_path: Path, option: str, near: str) -> None:
    done = preflight(option, "storage.disc", option, "nonesuch", runs=tmp_path)
    assert done.exit_code == 2
    assert "no check or family named storage.disc" in done.stderr and near in done.stderr
    assert "no check or family named nonesuch" in done.stderr, "all at once"


@pytest.mark.parametrize("command", ["plan", "preflight", "launch"])
def test_rules_of_the_watch_are_read_before_anything_starts(tmp_path: Path, command: str) -> None:
    experiment = tmp_path / "experiment.yaml"
    source = Path(__file__).parents[2] / "experiments/quickstart/experiment.yaml"
    watch = "watch:\n  packs: [nonesuch]\n  rules:\n    - {name: x, metrc: a}\n"
    experiment.write_text(source.read_text() + watch)
    done = CliRunner().invoke(app, [command, str(experiment)])
    assert done.exit_code == 2, done.output
    line = source.read_text().count("\n") + 2
    assert f"experiment.yaml:{line}" in done.stderr and "no rule pack 'nonesuch'" in done.stderr
    assert "unknown key `metrc` in rule `x`" in done.stderr and "did you mean `metric`?" in done.stderr


def test_an_unknown_id_cannot_be_accepted(tmp_path: Path) -> None:
    arguments = ["launch", "quickstart", "--runs-dir", str(tmp_path), "--dry-run"]
    done = CliRunner().invoke(app, [*arguments, "--accept", "m33", "--accept", "host.memori"])
    assert done.exit_code == 2
    assert "nothing refuses under 'm33'" in done.stderr and "did you mean host.memory" in done.stderr
    assert CliRunner().invoke(app, [*arguments, "--accept", "T-lifetime", "--accept", "C2"]).exit_code == 0
