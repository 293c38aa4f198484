"""The conversion that slime's own tool makes: its command, and a run of a double of it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.slime.arguments.table import load_table
from t1cli.slime.compile.conversion import pipeline_stages
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import experiment_names

ON_SLIME = [name for name in experiment_names() if load_experiment(Path(name)).spec.engine.kind == "slime"]
TOOL = """
import argparse, os, pathlib, sys
parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--hf-checkpoint", required=True)
parser.add_argument("--save", required=True)
parser.add_argument("--num-layers", type=int, required=True)
args, rest = parser.parse_known_args()
assert int(os.environ["WORLD_SIZE"]) <= args.num_layers and "--ref-load" not in rest
print("converting", args.hf_checkpoint)
if "BREAK" in os.environ:
    sys.exit(3)
(pathlib.Path(args.save) / "release").mkdir(parents=True)
(pathlib.Path(args.save) / "latest_checkpointed_iteration.txt").write_text("release")
"""
TORCHRUN = """#!/bin/sh
test "$1" = --nproc-per-node && WORLD_SIZE=$2 && export WORLD_SIZE && shift 2 && exec python3 "$@"
"""


@pytest.mark.parametrize("name", ON_SLIME)
def test_the_command_has_megatrons_arguments_alone(name: str) -> None:
    said = CliRunner().invoke(app, ["checkpoint", "convert", name, "--json"])
    assert said.exit_code == 0, said.output
    argv = json.loads(said.stdout)["argv"]
    assert argv[:2] == ["torchrun", "--nproc-per-node"] and argv[3].endswith("tools/convert_hf_to_torch_dist.py")
    table = load_table("0.3.0")
    flags = [word for word in argv[4:] if word.startswith("--")]
    foreign = [flag for flag in flags if (found := table.find(flag)) is None or found.origin != "megatron"]
    assert foreign == ["--hf-checkpoint", "--save"], "its own, and Megatron's in slime's words"
    assert {"--num-layers", "--vocab-size", "--save"} <= set(flags)


@given(st.integers(1, 128), st.integers(1, 64))
def test_every_stage_gets_a_layer(layers: int, gpus: int) -> None:
    stages = pipeline_stages(layers, gpus)
    if gpus > layers:
        assert stages is None
    elif stages is not None:
        assert gpus % stages == 0 and layers - -(-layers // stages) * (stages - 1) > 0
    else:
        assert layers - -(-layers // gpus) * (gpus - 1) <= 0


@pytest.mark.parametrize("gpus", [7, 64])
def test_gpus_that_the_tool_cannot_use_are_refused(gpus: int) -> None:
    said = CliRunner().invoke(app, ["checkpoint", "convert", "qwen3-8b-grpo", "--gpus", str(gpus)])
    # Seven stages of six layers leave none for the last.
    assert said.exit_code == 2 and f"36 layers over {gpus} GPUs" in said.output and "6, 8," in said.output


@pytest.fixture
def slime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A checkout with a double of the tool, a torchrun, and weights."""
    tool = tmp_path / "slime/tools/convert_hf_to_torch_dist.py"
    tool.parent.mkdir(parents=True)
    tool.write_text(TOOL)
    torchrun = tmp_path / "bin/torchrun"
    torchrun.parent.mkdir()
    torchrun.write_text(TORCHRUN)
    torchrun.chmod(torchrun.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{torchrun.parent}:{os.environ['PATH']}")
    (tmp_path / "hf").mkdir()
    places = {"engine.slime_dir": "slime", "model.checkpoints.hf": "hf", "model.checkpoints.torch_dist": "torch_dist"}
    return [word for key, name in places.items() for word in ("--set", f"{key}={tmp_path / name}")]


def test_a_run_converts_once(slime: list[str], tmp_path: Path) -> None:
    arguments = ["checkpoint", "convert", "qwen3-8b-grpo", "--run", "--json", *slime]
    said = CliRunner().invoke(app, arguments)
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["converted"] is True and (tmp_path / "torch_dist/release").is_dir()
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 1 and "there already" in again.output


def test_a_failing_tool_is_no_success(slime: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAK", "1")
    said = CliRunner().invoke(app, ["checkpoint", "convert", "qwen3-8b-grpo", "--run", *slime])
    assert said.exit_code == 1 and "ended with status 3" in said.output


def test_a_machine_without_the_tool_gets_the_command(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["checkpoint", "convert", "qwen3-8b-grpo", "--run"])
    assert said.exit_code == 1 and "not on this machine" in said.output
