"""Every YAML under presets and experiments loads, is used as it says, and opens in an editor with its schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from t1cli.spec.load import load_experiment
from t1cli.spec.locate import data_root, experiment_names, experiments_dir, preset_names, presets_dir
from t1cli.spec.schema import experiment_schema, schema_text
from t1cli.spec.yaml_reader import Layer, read_file

SCHEMA = data_root() / "docs" / "reference" / "experiment.schema.json"
FILES = [presets_dir() / f"{name}.yaml" for name in preset_names()] + [
    experiments_dir() / name / "experiment.yaml" for name in experiment_names()
]
CAMPAIGNS = {
    "quickstart",
    "qwen3-4b-grpo",
    "qwen3-4b-grpo-starved",
    "qwen3-8b-grpo",
    "qwen3-8b-grpo-starved",
    "t1-56gpu-crash",
    "t1-binary-ablation",
    "t1-binary-tmax",
    "t1-rst38k",
    "t1-strategy15k",
}


def ids(path: Path) -> str:
    return path.relative_to(data_root()).as_posix()


def test_all_reference_campaigns_are_there() -> None:
    assert set(experiment_names()) >= CAMPAIGNS


@pytest.mark.parametrize("name", experiment_names())
def test_an_experiment_loads_and_has_its_page(name: str) -> None:
    loaded = load_experiment(Path(name))
    assert loaded.spec.name == name
    assert (experiments_dir() / name / "README.md").is_file()


@pytest.mark.parametrize("name", experiment_names())
def test_no_layer_repeats_what_an_earlier_one_said(name: str) -> None:
    origins = load_experiment(Path(name)).origins
    assert not [key for key, origin in origins.items() if origin.replaced and origin.replaced[-1].value == origin.value]


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_a_file_names_its_schema_and_satisfies_it(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    prefix = "# yaml-language-server: $schema="
    assert first.startswith(prefix)
    assert (path.parent / first.removeprefix(prefix)).resolve() == SCHEMA.resolve()
    problems: list[object] = []
    node = read_file(path, Layer("file", path.name), problems)  # type: ignore[arg-type]
    assert node is not None and not problems
    jsonschema.Draft7Validator(experiment_schema()).validate(node.plain())


@pytest.mark.parametrize("name", [name for name in preset_names() if name.startswith("model/")])
def test_every_model_loads_in_an_experiment(tmp_path: Path, name: str) -> None:
    quickstart = (experiments_dir() / "quickstart" / "experiment.yaml").read_text()
    path = tmp_path / "experiment.yaml"
    path.write_text(quickstart.replace("model/t1-tiny", name))
    assert load_experiment(path).spec.model.source


def test_the_committed_schema_is_the_generated_one() -> None:
    assert SCHEMA.read_text() == schema_text(), "run: t1 schema --output docs/reference/experiment.schema.json"


def test_the_schema_is_what_draft_07_editors_read() -> None:
    jsonschema.Draft7Validator.check_schema(experiment_schema())
    keywords = set(_keywords(json.loads(schema_text())))
    assert not keywords & {"$defs", "prefixItems", "unevaluatedProperties", "dependentRequired", "discriminator"}


def _keywords(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for child in value.values() for key in _keywords(child))]
    return [key for item in value for key in _keywords(item)] if isinstance(value, list) else []


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    validator = jsonschema.Draft7Validator(experiment_schema())
    assert list(validator.iter_errors({"rollout": {"batch_sze": 3}}))
    assert list(validator.iter_errors({"presets": ["model/nothing"]}))
    assert not list(validator.iter_errors({"algorithm": {"critic": {"learning_rate": 1e-5}}}))
