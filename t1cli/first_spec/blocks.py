"""An experiment file as plain blocks: the presets it lists, and its own keys under them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from t1cli.first_spec.answers import Answers
from t1cli.first_spec.own_tasks import OwnTasks

Blocks = Mapping[str, Any]

_SCALE_NOTE: Final = (
    "scale: the 90th percentile of tests per task ({p50:g} in the middle, {max:g} at most), counted in",
    "the tasks' files; `t1 tasks check` suggests it from what their runs report. A solved task of that size earns 1,",
    "and one whose report is lost (fallback) no more than a middle one.",
)


@dataclass(frozen=True)
class Draft:
    """What an experiment file will say."""

    name: str
    about: str
    """One line for its head."""
    presets: tuple[str, ...]
    blocks: Blocks
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Lines of comment above a block, by its key."""

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
        parts = [_yaml({"name": self.name}), _yaml({"presets": list(self.presets)})]
        parts += [self._noted(key) + _yaml({key: block}) for key, block in self.blocks.items()]
        return head + "\n".join(parts)

    def _noted(self, key: str) -> str:
        return "".join(f"# {line}\n" for line in self.notes.get(key, ()))


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
    if tasks.tests and tasks.counts_tests:
        card |= {
            "tests_median": tasks.tests["p50"],
            "tests_p90": tasks.tests["p90"],
            "tests_max": int(tasks.tests["max"]),
        }
    path = os.path.relpath(answers.tasks.resolve(), output.resolve().parent)
    return {"card": card, "path": path, "layout": "harbor"}


def reward_block(tasks: OwnTasks) -> Blocks:
    """`reward`, where something is known: a scale of these tasks, and no more for a lost report than a median solve."""
    if not tasks.tests or not tasks.counts_tests:
        return {}
    scale = tasks.tests["p90"]
    return {"reward": {"scale": scale, "fallback": {"value": round(min(1.0, tasks.tests["p50"] / scale), 4)}}}


def reward_notes(tasks: OwnTasks) -> Mapping[str, Sequence[str]]:
    """Where the figures of `reward_block` come from."""
    return {"reward": tuple(line.format(**tasks.tests) for line in _SCALE_NOTE)} if reward_block(tasks) else {}


def sandbox_block(answers: Answers, *, at_once: int) -> Blocks:
    """`sandbox`: the pool's servers, or this machine."""
    if not answers.pool:
        return {"kind": "local", "capacity": at_once}
    return {"kind": "pool", "urls": list(answers.pool), "max_tasks": 16, "max_runs_per_task": 8, "queueing": True}
