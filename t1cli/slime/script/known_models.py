"""Which model preset a script's architecture is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import yaml

from t1cli.spec.locate import preset_names, presets_dir

_BLOCK: Final = "model.architecture."
_TELLING: Final = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "num_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "first_k_dense",
    "vocab_size",
    "tie_word_embeddings",
)
_ZERO: Final = {"num_experts": 0, "num_experts_per_tok": 0, "moe_intermediate_size": 0, "first_k_dense": 0}


def matching_preset(keys: Mapping[str, Any]) -> str | None:
    """`model/<name>` of the preset with this shape, or nothing."""
    for name in (name for name in preset_names() if name.startswith("model/")):
        if _matches(_architecture(name), keys):
            return name
    return None


def preset_keys(name: str) -> dict[str, Any]:
    """Dotted keys and values of a model preset's architecture and Megatron block."""
    model = _model(name)
    found = {f"{_BLOCK}{key}": value for key, value in model["architecture"].items()}
    return found | {f"model.megatron.{key}": value for key, value in model.get("megatron", {}).items()}


def _matches(shape: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    for name in _TELLING:
        asked = keys.get(_BLOCK + name, _ZERO.get(name, 0 if name.startswith("shared") else None))
        if asked is None:
            asked = False if name == "tie_word_embeddings" and "model.architecture.hidden_size" in keys else asked
        if name == "tie_word_embeddings":
            asked = keys.get(_BLOCK + name, True)
        if asked != shape.get(name, False if name == "tie_word_embeddings" else 0):
            return False
    dense = not shape.get("num_experts") or shape.get("first_k_dense")
    return not dense or keys.get(f"{_BLOCK}intermediate_size") == shape.get("intermediate_size")


def _architecture(name: str) -> Mapping[str, Any]:
    shape: Mapping[str, Any] = _model(name)["architecture"]
    return shape


@cache
def _model(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((presets_dir() / f"{name}.yaml").read_text(encoding="utf-8"))["model"]
    return content
