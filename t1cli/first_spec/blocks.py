"""An experiment file as plain blocks: the presets it lists, and its own keys under them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from t1cli.first_spec.answers import Answers
from t1cli.first_spec.own_tasks import OwnTasks

Blocks = Mapping[str, Any]

COUNT_SCALE: Final = 20
"""The scale of the preset reward/ctrf-count-20."""


@dataclass(frozen=True)
class Draft:
    """What an experiment file will say."""

    name: str
    about: str
    """One line for its head."""
    presets: tuple[str, ...]
    blocks: Blocks

    def under(self, settings: Sequence[str]) -> Draft:
        """The same with `a.b=c` settings on top, as `--set` would have them."""
        blocks: dict[str, Any] = {key: dict(block) for key, block in self.blocks.items()}
        for setting in settings:
            key, _, value = setting.partition("=")
            *parents, leaf = key.split(".")
            block = blocks
            for parent in parents:
                block = block.setdefault(parent, {})
            block[leaf] = yaml.safe_load(value)
        return replace(self, blocks=blocks)

    def text(self) -> str:
        """The YAML file."""
        head = f"# {self.about}\n# Written by `t1 init`; every key is explained in docs/reference/spec.md.\n"
        parts: list[Blocks] = [{"name": self.name}, {"presets": list(self.presets)}]
        parts += [{key: block} for key, block in self.blocks.items()]
        return head + "\n".join(_yaml(part) for part in parts)


class _Indented(yaml.SafeDumper):
    """Lists stand below their key, as in every shipped file."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _yaml(part: Blocks) -> str:
    return yaml.dump(part, Dumper=_Indented, sort_keys=False, allow_unicode=True, width=100)


def tasks_block(answers: Answers, tasks: OwnTasks, output: Path) -> Blocks:
    """`tasks`: the directory seen from the experiment file, and what is known of it."""
    card: dict[str, Any] = {
        "name": answers.name,
        "num_tasks": tasks.count,
        "verifier": "ctrf" if tasks.counts_tests else "binary",
        "source": "counted by t1 init",
    }
    if tasks.tests_median is not None and tasks.counts_tests:
        card["tests_median"] = tasks.tests_median
    path = os.path.relpath(answers.tasks.resolve(), output.resolve().parent)
    return {"card": card, "path": path, "layout": "harbor"}


def reward_block(tasks: OwnTasks) -> Blocks:
    """`reward`, where something is known: losing a report must not pay more than a median solve."""
    if tasks.tests_median is None or not tasks.counts_tests:
        return {}
    return {"reward": {"fallback": {"value": min(1.0, tasks.tests_median / COUNT_SCALE)}}}


def sandbox_block(answers: Answers, *, at_once: int) -> Blocks:
    """`sandbox`: the pool's servers, or this machine."""
    if not answers.pool:
        return {"kind": "local", "capacity": at_once}
    return {"kind": "pool", "urls": list(answers.pool), "max_tasks": 16, "max_runs_per_task": 8, "queueing": True}
