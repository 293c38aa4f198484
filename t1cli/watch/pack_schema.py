"""The JSON Schema of rule packs, for editors."""

from __future__ import annotations

import json

from t1cli.watch.rule import Pack


def pack_schema_text() -> str:
    """Schema of one pack as JSON with a final newline; the printed `early_stop:` block is read but not described."""
    found = Pack.model_json_schema(by_alias=True)
    derived = found["$defs"]["Derived"]
    # As `watch/x: EXPRESSION`, which the model's own schema does not know of.
    found["$defs"]["Derived"] = {"anyOf": [{"type": "string"}, derived], "description": derived["description"]}
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **found}, indent=2) + "\n"
