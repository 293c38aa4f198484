"""Every model of the table has exactly its published parameter counts, whole, per bucket and per stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory_model import Layout, known_models, model, stages, text_parameters
from memory_model.parameters import head_parameters, mtp_parameters
from memory_model.terms.weights import stage_body
from tests.unit.memory_model.active_parameters import active_parameters

TOTALS: dict[str, Any] = json.loads((Path(__file__).parent / "model_totals.json").read_text())
NAMES = [name for name in TOTALS if not name.startswith("_")]


def test_all_28_models_are_known() -> None:
    assert len(NAMES) == 28
    assert set(NAMES) <= set(known_models())


@pytest.mark.parametrize("name", NAMES)
def test_counts_equal_the_published_totals(name: str) -> None:
    arch, expected = model(name), TOTALS[name]
    counts = text_parameters(arch)
    assert counts.total == expected["text_params"]
    assert counts.embedding == expected["embedding_params"]
    assert head_parameters(arch).head == expected.get("output_head_params", 0)
    if "mtp_params" in expected:
        assert mtp_parameters(arch).total == expected["mtp_params"]
    biases = 0
    if arch.expert_bias:
        per_expert = 2 * arch.moe_intermediate_size + arch.hidden_size
        biases = arch.num_hidden_layers * arch.num_experts * per_expert
    assert counts.experts - biases == expected.get("routed_expert_params", 0)
    if "active_params_per_token" in expected and not arch.expert_bias:
        assert active_parameters(arch) == expected["active_params_per_token"]


@pytest.mark.parametrize("name", NAMES)
def test_stages_sum_to_the_model(name: str) -> None:
    arch = model(name)
    uneven = arch.num_hidden_layers % 4 + arch.num_hidden_layers // 4
    layout = Layout(world=4, pp=4, first_stage_layers=arch.num_hidden_layers // 4, last_stage_layers=uneven)
    built = stages(arch.num_hidden_layers, layout)
    body = sum(stage_body(arch, stage).total for stage in built)
    ends = text_parameters(arch).embedding + text_parameters(arch).head
    assert body + ends == text_parameters(arch).total
