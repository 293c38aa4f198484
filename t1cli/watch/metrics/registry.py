"""The metric registry: canonical names, meaning, population, healthy range, red flags, and every framework's name."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

Framework = Literal["slime", "verl", "OpenRLHF", "TRL", "prime-rl"]
FRAMEWORKS: tuple[Framework, ...] = ("slime", "verl", "OpenRLHF", "TRL", "prime-rl")
TABLES = {
    "A": "Progress",
    "B": "Quality",
    "C": "Health",
    "D": "Performance",
    "critic": "Critic",
    "optimizer": "Optimizer",
    "mismatch": "Trainer against sampler",
    "terminal": "Trials, sandboxes and rewards",
    "performance": "More on performance",
    "evaluation": "Evaluation",
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class RedFlag(_Part):
    """When to worry: caught by a shipped rule, or why it is not one."""

    flag: str
    """What the red flag is."""
    rule: str = ""
    """`pack/rule`."""
    reason: str = ""
    """Why no rule looks for it."""

    @model_validator(mode="after")
    def _one_of_both(self) -> RedFlag:
        if bool(self.rule) == bool(self.reason):
            raise ValueError("a red flag names a rule, or the reason why there is none")
        return self


class Metric(_Part):
    """One canonical metric."""

    table: str
    """Section of the reference page."""
    meaning: str
    """One clause."""
    population: str
    """Which samples it is taken over."""
    healthy: str = ""
    """The healthy range, with where it was seen."""
    red: tuple[RedFlag, ...] = ()
    """When to worry."""
    aliases: dict[Framework, tuple[str, ...]] = Field(default_factory=dict)
    """Framework to its names, best first; globs allowed."""
    note: str = ""
    """What misleads about it."""


class Registry(_Part):
    """All of them."""

    populations: dict[str, str]
    """Short name to what it means."""
    metrics: dict[str, Metric]
    """Canonical name to metric."""

    def canonical(self, logged: str) -> tuple[str, int] | None:
        """The canonical name of a logged one and its preference (0 is best); None when the registry has none."""
        if logged in self.metrics:
            return logged, 0
        return _alias_table().get(logged) or self._by_glob(logged) or self._without_prefix(logged)

    def near(self, name: str, seen: Iterable[str] = ()) -> list[str]:
        """Names that resemble an unknown one, nearest first: of the run, canonical ones and aliases."""
        known = [*dict.fromkeys([*seen, *self.metrics, *_alias_table()])]
        leaf = name.rsplit("/", 1)[-1]
        by_leaf = [other for other in known if get_close_matches(leaf, [other.rsplit("/", 1)[-1]], 1, 0.8)]
        return list(dict.fromkeys([*get_close_matches(name, known, 3, 0.6), *by_leaf]))[:4]

    def _by_glob(self, logged: str) -> tuple[str, int] | None:
        for pattern, found in _alias_globs():
            if fnmatch.fnmatchcase(logged, pattern):
                return found
        return None

    def _without_prefix(self, logged: str) -> tuple[str, int] | None:
        """OpenRLHF and TRL put `train/` before every name on its way to W&B or TensorBoard."""
        return _alias_table().get(logged.removeprefix("train/")) if logged.startswith("train/") else None


@cache
def registry() -> Registry:
    """The shipped registry."""
    return Registry.model_validate(yaml.safe_load((Path(__file__).parent / "registry.yaml").read_text("utf-8")))


@cache
def _alias_table() -> Mapping[str, tuple[str, int]]:
    """Alias to canonical name and preference; a canonical name is its own best alias."""
    table: dict[str, tuple[str, int]] = {}
    for name, metric in registry().metrics.items():
        for names in metric.aliases.values():
            for preference, alias in enumerate(names):
                if "*" not in alias and alias not in registry().metrics:
                    table.setdefault(alias, (name, preference + 1))
    return table


@cache
def _alias_globs() -> tuple[tuple[str, tuple[str, int]], ...]:
    return tuple(
        (alias, (name, preference + 1))
        for name, metric in registry().metrics.items()
        for names in metric.aliases.values()
        for preference, alias in enumerate(names)
        if "*" in alias
    )
