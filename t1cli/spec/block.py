"""The base of every spec block: unknown keys are errors, values never change after loading."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Block(BaseModel):
    """A frozen mapping of the experiment file. The string under a field is its help text everywhere."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=(), allow_inf_nan=False
    )
