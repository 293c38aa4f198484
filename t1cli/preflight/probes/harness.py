"""A user's agent loop on a node: imported there, because nothing else shows that its trials can."""

from __future__ import annotations

from t1cli.errors import Refused
from t1cli.terminal.harness.load_harness import load_harness


def text_harness(path: str) -> dict[str, str]:
    """`problem` and `hint`, both empty when `module:function` can be called as a text harness on this node."""
    try:
        load_harness(path)
    except Refused as refused:
        first = refused.diagnostics[0]
        return {"problem": first.message, "hint": first.hint}
    return {"problem": "", "hint": ""}
