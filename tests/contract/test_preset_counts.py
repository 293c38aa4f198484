"""Each model preset counts exactly what its first line says, so no shape was lost on the way into the spec."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memory_model.parameters import mtp_parameters, text_parameters
from t1cli.plan.memory_inputs import architecture_of
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import experiments_dir, preset_names, presets_dir
from tests.unit.memory_model.active_parameters import active_parameters

MODELS = [name for name in preset_names() if name.startswith("model/") and name != "model/t1-tiny"]


@pytest.mark.parametrize("name", MODELS)
def test_a_preset_counts_what_it_says(tmp_path: Path, name: str) -> None:
    path = tmp_path / "experiment.yaml"
    quickstart = (experiments_dir() / "quickstart" / "experiment.yaml").read_text()
    path.write_text(quickstart.replace("model/t1-tiny", name))
    architecture = architecture_of(load_experiment(path).spec)
    said = (presets_dir() / f"{name}.yaml").read_text()
    assert text_parameters(architecture).total == _figure(said, "parameters of the text model")
    if "active per token" in said:
        assert active_parameters(architecture) == _figure(said, "active per token")
    if "more in MTP layers" in said:
        assert mtp_parameters(architecture).total * architecture.mtp_num_layers == _figure(said, "more in MTP layers")


def _figure(text: str, words: str) -> int:
    found = re.search(rf"([\d,]+) {words}", text)
    assert found is not None
    return int(found.group(1).replace(",", ""))


def test_all_28_models_are_there() -> None:
    assert len(MODELS) == 28
