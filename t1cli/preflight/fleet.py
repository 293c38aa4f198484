"""The nodes that a campaign runs on, and the same probe asked of each: this machine, a cluster, or none at all."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

HERE = "this machine"


class NoNodes(Exception):
    """There is no node to ask; the message says why."""


@dataclass(frozen=True)
class Probe:
    """A small function that reads something on a node: plain data in, plain data out, nothing changed."""

    target: str
    """`package.module:function`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Named arguments that JSON can carry."""

    @property
    def key(self) -> str:
        return f"{self.target} {json.dumps(dict(self.arguments), sort_keys=True)}"

    def ask_here(self) -> Any:
        """Run it in this process."""
        module, _, name = self.target.partition(":")
        return getattr(importlib.import_module(module), name)(**self.arguments)


@dataclass(frozen=True)
class Answer:
    """What one node said to a probe."""

    value: Any = None
    problem: str = ""
    """Why it said nothing: the probe raised there, or the node did not answer."""


class Fleet(Protocol):
    """Nodes that can be asked."""

    @property
    def is_cluster(self) -> bool:
        """Whether nodes are worth naming."""
        ...

    def ask(self, probe: Probe) -> Mapping[str, Answer]:
        """Every node's answer by its name. Raises NoNodes."""
        ...


@dataclass(frozen=True)
class NoFleet:
    """No node can be asked from here."""

    reason: str
    is_cluster: bool = False

    def ask(self, probe: Probe) -> Mapping[str, Answer]:
        raise NoNodes(self.reason)


class ThisMachine:
    """The campaign runs here, so probes do too."""

    is_cluster = False

    def ask(self, probe: Probe) -> Mapping[str, Answer]:
        return {HERE: Answer(probe.ask_here())}


@dataclass(frozen=True)
class Recorded:
    """Nodes whose answers are known already."""

    answers: Mapping[str, Mapping[str, Any]]
    """Node name → probe target → what it said."""
    is_cluster: bool = True

    def ask(self, probe: Probe) -> Mapping[str, Answer]:
        return {node: Answer(said[probe.target]) for node, said in self.answers.items() if probe.target in said}


@dataclass
class Later:
    """A cluster whose nodes are asked together, at the first question."""

    gather: Callable[[], Mapping[str, Mapping[str, Answer]]]
    """Node name → probe key → answer; raises NoNodes."""
    is_cluster: bool = True

    def ask(self, probe: Probe) -> Mapping[str, Answer]:
        nodes = self.gather()
        missing = Answer(problem="the node was not asked this")
        return {node: said.get(probe.key, missing) for node, said in nodes.items()}
