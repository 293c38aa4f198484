"""The rubric of an audit: eight weighted dimensions, four rejections, limits; read from YAML."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, ValidationError, model_validator

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec.block import Block
from t1cli.spec.diagnose import diagnose
from t1cli.spec.locate import presets_dir
from t1cli.spec.yaml_reader import Layer, read_file
from t1cli.terminal.tasks.audit.finding import Rejection

DimensionName = Literal["specified", "clear", "covered", "sealed", "derived", "reproducible", "graded", "worthwhile"]
DIMENSIONS: tuple[DimensionName, ...] = get_args(DimensionName)
SHIPPED = "t1"


class Dimension(Block):
    """One quality, scored from 0 to 1."""

    weight: float = Field(gt=0, le=1000)
    asks: str = Field(min_length=1)


class Limits(Block):
    """Where the machine part and the score draw their lines."""

    score_min: float = Field(ge=0, le=1)
    checks_min: int = Field(ge=1)
    checks_full: int = Field(ge=1)
    empty_checks_max_share: float = Field(ge=0, le=1)
    assertions_min_per_requirement: float = Field(ge=0, le=1)


class Rubric(Block):
    """What is asked of every task. The names of dimensions and rejections are fixed, since measures belong to them."""

    version: int = Field(ge=1)
    dimensions: dict[DimensionName, Dimension]
    rejections: dict[Rejection, str]
    limits: Limits

    @model_validator(mode="after")
    def _complete(self) -> Rubric:
        absent = [
            name for name in (*DIMENSIONS, *get_args(Rejection)) if name not in {*self.dimensions, *self.rejections}
        ]
        if absent:
            raise ValueError(f"missing: {', '.join(absent)}")
        return self

    @property
    def prompt_version(self) -> str:
        """Changes whenever a judge would be asked something else."""
        asked = {name: dimension.asks for name, dimension in self.dimensions.items()}
        return hashlib.sha256(repr((self.version, asked, self.rejections)).encode()).hexdigest()[:12]


def load_rubric(name: str = SHIPPED) -> Rubric:
    """A shipped rubric by name, or one's own by path. Raises BadInput with every problem."""
    shipped = presets_dir() / "audit" / f"{name}.yaml"
    path = shipped if shipped.is_file() and "/" not in name else Path(name)
    if not path.is_file():
        names = ", ".join(sorted(found.stem for found in shipped.parent.glob("*.yaml")))
        raise BadInput(f"no rubric {name!r}", where="--rubric", hint=f"shipped: {names}; or a path to a YAML file")
    problems: list[Diagnostic] = []
    tree = read_file(path, Layer("rubric", str(path)), problems)
    if tree is None or problems:
        raise BadInput.many(tuple(problems))
    try:
        return Rubric.model_validate(tree.plain())
    except ValidationError as error:
        found = diagnose(error, Rubric, tree, complete=True)
        hint = f"compare presets/audit/{SHIPPED}.yaml"
        raise BadInput.many(tuple(replace(one, hint=one.hint or hint) for one in found)) from error
