"""The one way in: an experiment file and overrides become a LoadedSpec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t1cli.spec.experiment import ExperimentSpec


@dataclass(frozen=True)
class Origin:
    """Where one value came from, and what it replaced."""

    where: str
    """`presets/algorithm/ppo.yaml:7`, `experiment.yaml:31` or `--set`; `default` for a field's default."""
    value: Any
    """The value this layer gave."""
    replaced: tuple[Origin, ...] = ()
    """What earlier layers had given for the same key, oldest first."""


@dataclass(frozen=True)
class LoadedSpec:
    """An experiment with everything that is needed to explain it."""

    spec: ExperimentSpec
    path: Path
    """The experiment file."""
    origins: Mapping[str, Origin]
    """Dotted key of every leaf to its origin."""
    digest: str
    """Short hash of the resolved spec; equal specs have equal digests."""

    def where(self, key: str) -> str:
        """`file:line` of a dotted key, of its nearest parent, or the file alone."""
        raise NotImplementedError


def load_experiment(path: Path, overrides: Sequence[str] = ()) -> LoadedSpec:
    """Read, compose and check an experiment. Raises BadInput with every problem at once."""
    raise NotImplementedError
