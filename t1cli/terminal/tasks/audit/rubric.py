"""The rubric of an audit: eight weighted dimensions, four rejections, limits; read from YAML."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec.locate import presets_dir
from t1cli.terminal.tasks.audit.finding import Rejection

DimensionName = Literal["specified", "clear", "covered", "sealed", "derived", "reproducible", "graded", "worthwhile"]
DIMENSIONS: tuple[DimensionName, ...] = get_args(DimensionName)
SHIPPED = "t1"
_MAX_BYTES = 1 << 20


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Dimension(_Strict):
    """One quality, scored from 0 to 1."""

    weight: float = Field(gt=0, le=1000)
    asks: str = Field(min_length=1)


class Limits(_Strict):
    """Where the machine part and the score draw their lines."""

    score_min: float = Field(ge=0, le=1)
    checks_min: int = Field(ge=1)
    checks_full: int = Field(ge=1)
    empty_checks_max_share: float = Field(ge=0, le=1)
    assertions_min_per_requirement: float = Field(ge=0, le=1)


class Rubric(_Strict):
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
    try:
        with path.open("rb") as file:
            content = yaml.safe_load(file.read(_MAX_BYTES).decode("utf-8-sig"))
        return Rubric.model_validate(content)
    except ValidationError as error:
        raise BadInput.many(tuple(_diagnostic(path, found["loc"], found["msg"]) for found in error.errors())) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"not a rubric: {str(error).splitlines()[0]}", where=str(path)) from error


def _diagnostic(path: Path, location: tuple[int | str, ...], message: str) -> Diagnostic:
    key = ".".join(map(str, location))
    return Diagnostic(f"{key}: {message}" if key else message, str(path), hint=f"compare presets/audit/{SHIPPED}.yaml")
