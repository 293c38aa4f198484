"""Every value knows its file and line, and what it replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from t1cli.spec.load import load_experiment
from t1cli.spec.locate import presets_dir

Write = Callable[[str], Path]
RATE = "algorithm.actor_learning_rate"


def line_of(preset: str, text: str) -> int:
    lines = (presets_dir() / f"{preset}.yaml").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_the_chain_names_every_layer(base: str, write: Write) -> None:
    loaded = load_experiment(write(base + "algorithm:\n  actor_learning_rate: 1e-4\n"), [f"{RATE}=2e-4"])
    preset = f"presets/algorithm/ppo-t1.yaml:{line_of('algorithm/ppo-t1', 'actor_learning_rate')}"
    origin = loaded.origins[RATE]
    assert (origin.value, origin.where) == (2e-4, "--set")
    assert [(old.value, old.where) for old in origin.replaced] == [(1e-6, preset), (1e-4, "experiment.yaml:20")]
    assert loaded.where(RATE) == "--set"


def test_where_falls_back_to_the_nearest_parent(base: str, write: Write) -> None:
    loaded = load_experiment(write(base))
    assert loaded.where("rollout.batch_size") == "experiment.yaml:12"
    assert loaded.where("rollout.harness") == "experiment.yaml:10"
    assert loaded.where("checkpoint.what") == str(loaded.path)
    assert loaded.origins["checkpoint.what"].where == "default"


def test_a_leaf_dropped_with_its_block_can_still_be_explained(base: str, write: Write) -> None:
    loaded = load_experiment(write(base), ["reward={kind: binary}"])
    assert loaded.dropped["reward.scale"].value == 20
    assert loaded.origins["reward.kind"].replaced[0].value == "ctrf_count"


def test_every_leaf_of_the_spec_has_an_origin(base: str, write: Write) -> None:
    loaded = load_experiment(write(base))
    assert loaded.origins["algorithm.adam.beta2"].value == loaded.spec.algorithm.adam.beta2
    assert loaded.origins["tasks.families"].value == []


def test_equal_specs_have_equal_digests(base: str, write: Write) -> None:
    first = load_experiment(write(base)).digest
    assert load_experiment(write("# moved\n" + base), ["rollout.batch_size=4"]).digest == first
    assert load_experiment(write(base), ["rollout.batch_size=5"]).digest != first


def test_references_take_another_keys_value(base: str, write: Write) -> None:
    loaded = load_experiment(write(base + "  expected_seconds: ${rollout.trial_wall_seconds}\n"))
    assert loaded.spec.rollout.expected_seconds == 60
    assert loaded.origins["rollout.expected_seconds"].where == "experiment.yaml:19"
