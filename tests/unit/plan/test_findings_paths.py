"""T-path: a path of this machine that is not there is refused by the plan, with its line and the near name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from t1cli.plan.build import build_plan
from t1cli.plan.plan import Finding
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import experiment_names

ROOT = Path(__file__).parents[3]


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    file = tmp_path / "mine" / "experiment.yaml"
    file.parent.mkdir()
    shutil.copyfile(ROOT / "experiments/quickstart/experiment.yaml", file)
    (file.parent / "tasks").mkdir()
    return file


def missing(file: Path, *overrides: str) -> list[Finding]:
    return [found for found in build_plan(load_experiment(file, overrides)).findings if found.id == "T-path"]


def test_nothing_is_missing_in_what_ships() -> None:
    assert {name: missing(Path(name)) for name in experiment_names()} == {name: [] for name in experiment_names()}


@pytest.mark.parametrize("typo", ["taskz", "./taskz", "../mine/taskz", "ABSOLUTE/taskz"])
def test_a_typo_is_refused_at_its_line_with_the_near_name(typo: str, experiment: Path) -> None:
    typo = typo.replace("ABSOLUTE", str(experiment.parent))
    text = f"{experiment.read_text()}\ntasks:\n  path: {typo}\n"
    experiment.write_text(text)
    (found,) = missing(experiment)
    assert found.severity == "error" and found.where == f"{experiment}:{len(text.splitlines())}"
    assert "tasks.path: no directory at " in found.message and found.message.endswith("taskz")
    meant = found.fix.removeprefix("did you mean --set ").removesuffix("?")
    assert meant.startswith("tasks.path=") and missing(experiment, meant) == []


def test_without_a_near_name_it_says_where_a_relative_path_starts(experiment: Path) -> None:
    (found,) = missing(experiment, "tasks.path=elsewhere/entirely")
    assert found.where == "--set" and str(experiment.parent) in found.fix and "--set" not in found.fix


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("model.checkpoints.warm_critic=no/critic.safetensors", "model.checkpoints.warm_critic"),
        ("engine.warm_start=no/actor.safetensors", "engine.warm_start"),
    ],
)
def test_everything_that_the_embedded_engine_reads_is_looked_for(override: str, key: str, experiment: Path) -> None:
    (found,) = missing(experiment, override)
    assert found.message.startswith(f"{key}: no file or directory at ")


def test_a_file_is_no_directory_of_tasks(experiment: Path) -> None:
    (experiment.parent / "list.txt").touch()
    assert len(missing(experiment, "tasks.path=list.txt")) == 1


def test_a_path_of_a_cluster_is_its_own(experiment: Path) -> None:
    assert missing(Path("qwen3-8b-grpo"), "tasks.path=/on/the/nodes/alone") == []
