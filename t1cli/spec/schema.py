"""The JSON Schema of experiment and preset files, kept to what draft-07 editors understand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.locate import preset_names

SCHEMA_FILE = "experiment.schema.json"
_DROPPED = {"title", "discriminator", "required"}
_PRESETS = "Fragments from presets/, merged left to right; this file's own keys and `--set` come after them."


def schema_text() -> str:
    """The schema as it is committed: JSON with a final newline."""
    return json.dumps(experiment_schema(), indent=2, ensure_ascii=False) + "\n"


def experiment_schema() -> dict[str, Any]:
    """Schema of one file. Nothing is required in it, because presets and overrides may give any key."""
    generated = ExperimentSpec.model_json_schema()
    definitions = {name: _plain(block) for name, block in generated.pop("$defs").items()}
    root = _plain(generated)
    presets = {"type": "array", "items": {"enum": preset_names()}, "uniqueItems": True, "description": _PRESETS}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "t1 experiment or preset",
        "description": root["description"],
        "type": "object",
        "additionalProperties": False,
        "properties": {"presets": presets, **root["properties"]},
        "definitions": definitions,
    }


def _plain(value: Any) -> Any:
    """Draft 2020-12 to draft-07: `definitions` for `$defs`, `anyOf` for `oneOf` (a partial block may match several)."""
    if isinstance(value, Mapping):
        return {_renamed(key): _keyword(key, child) for key, child in value.items() if key not in _DROPPED}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _renamed(key: str) -> str:
    return "anyOf" if key == "oneOf" else key


def _keyword(key: str, child: Any) -> Any:
    if key == "$ref":
        return child.replace("#/$defs/", "#/definitions/")
    if key == "properties":  # names of fields, not keywords: none of them is dropped
        return {name: _described(_plain(field)) for name, field in child.items()}
    if key == "description":
        return " ".join(child.split())
    return child if key == "default" else _plain(child)


def _described(field: dict[str, Any]) -> dict[str, Any]:
    """A draft-07 reader ignores what stands beside `$ref`, so a described reference is wrapped."""
    if "$ref" in field and len(field) > 1:
        return {"allOf": [{"$ref": field.pop("$ref")}], **field}
    return field
