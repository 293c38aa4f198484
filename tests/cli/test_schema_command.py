"""`t1 schema`: prints, writes, checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.spec.locate import presets_dir
from t1cli.watch.packs import shipped_packs

runner = CliRunner()


def test_stdout_is_the_schema() -> None:
    result = runner.invoke(app, ["schema"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["title"] == "t1 experiment or preset"


def test_check_agrees_with_the_checkout() -> None:
    result = runner.invoke(app, ["schema", "--check"])
    assert (result.exit_code, result.stdout) == (0, "experiment.schema.json is current\nspec.md is current\n")


def test_check_says_how_to_refresh_a_stale_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    monkeypatch.setattr("t1cli.spec.locate.data_root", lambda: tmp_path)
    monkeypatch.setattr("t1cli.spec.schema.preset_names", lambda: ["model/only"])
    result = runner.invoke(app, ["schema", "--check"])
    assert result.exit_code == 1
    assert "fix: t1 schema --output docs/reference/experiment.schema.json" in result.stderr


def test_output_and_install_write_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        runner.invoke(app, ["schema", "--install"]).stdout == "# yaml-language-server: $schema=experiment.schema.json\n"
    )
    assert runner.invoke(app, ["schema", "--output", "other.json"]).exit_code == 0
    assert Path("other.json").read_text() == Path("experiment.schema.json").read_text()


def test_every_shipped_pack_follows_the_schema_of_rules_and_a_misspelt_key_does_not() -> None:
    rules = json.loads(runner.invoke(app, ["schema", "--rules"]).stdout)
    Draft202012Validator.check_schema(rules)
    validator = Draft202012Validator(rules)
    for name in set(shipped_packs()) - {"postmortem-verbatim"}:
        pack = yaml.safe_load((presets_dir() / "watch" / f"{name}.yaml").read_text())
        assert [error.message for error in validator.iter_errors(pack)] == []
    pack["rules"][0]["treshold"] = 1
    assert "treshold" in next(validator.iter_errors(pack)).message


def test_a_place_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    result = runner.invoke(app, ["schema", "--output", str(tmp_path / "no" / "such" / "folder.json")])
    assert result.exit_code == 2
    assert "No such file or directory" in result.stderr
