"""`t1 watch lint`: rules that cannot work as written, and thresholds that misfire on public runs."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from t1cli.errors import BadInput
from t1cli.spec.locate import presets_dir
from t1cli.watch.engine import Engine
from t1cli.watch.expression import VARIABLES
from t1cli.watch.metrics.registry import registry
from t1cli.watch.packs import load_packs, pack_path, rule_places
from t1cli.watch.rule import Pack, Rule
from t1cli.watch.sources.csv_file import CsvFile

HEALTHY_STEPS = {"verl_grpo_qwen1.5b_healthy": 10**9, "verl_grpo_llama3b_entropy_oscillation": 114,
                 "verl_grpo_qwen7b_entropy_collapse": 300}  # fmt: skip
"""Public histories and the step up to which nothing is wrong with them."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a rule."""

    pack: str
    rule: str
    message: str
    hint: str = ""
    where: str = ""
    """File and line of the rule."""


def lint_packs(names: Sequence[str]) -> tuple[Finding, ...]:
    """Everything that lint finds in packs. Raises BadInput for a pack that cannot be read at all."""
    found: list[Finding] = []
    for name in names:
        (pack,) = load_packs([name])
        path = pack_path(name)
        lines = rule_places(path)
        told = [(rule.name, message) for rule in pack.rules for message in _rule_messages(rule, pack)]
        told += _misfires(pack)
        found += [Finding(path.stem, rule, *message, lines.get(rule, str(path))) for rule, message in told]
    return tuple(found)


def histories_dir() -> Path:
    """Where the public histories are."""
    return presets_dir() / "watch" / "histories"


def _rule_messages(rule: Rule, pack: Pack) -> list[tuple[str, str]]:
    found = []
    conditions = (rule, *rule.also, *rule.second_sign)
    for metric in dict.fromkeys(condition.metric for condition in conditions):
        if metric not in pack.derived and not _known(metric):
            near = " or ".join(f"`{name}`" for name in registry().near(metric, pack.derived))
            hint = f"did you mean {near}?" if near else "`t1 watch metrics` lists them"
            found.append((f"{metric} is no canonical metric and not derived in this pack", hint))
    if (
        rule.severity == "stop"
        and not rule.second_sign
        and not (rule.finite or rule.absent)
        and not _always_wrong(rule)
    ):
        found.append(("one sign alone may stop a run", "add second_sign, so that one strange metric cannot"))
    found += [(text, better) for text, better in _measured(rule)]
    return found


def _always_wrong(rule: Rule) -> bool:
    """Bounds that no healthy run crosses: a count or share that must be 0."""
    return rule.above == 0


def _known(metric: str) -> bool:
    known = registry()
    globs = [name for name in known.metrics if "*" in name]
    own = ("log/", "eval/", "host/")
    return (
        known.canonical(metric) is not None
        or any(fnmatch.fnmatchcase(metric, pattern) for pattern in globs)
        or metric.startswith(own)
    )


def _measured(rule: Rule) -> list[tuple[str, str]]:
    """What the same absolute threshold, or a stricter one, did on public runs."""
    if rule.baseline is not None and rule.metric != "perf/step_time":
        return []
    if rule.second_sign or rule.also or rule.severity == "notice":
        return []
    return [(entry["says"], entry["better"]) for entry in _misfire_table() if _as_strict(rule, entry)]


def _as_strict(rule: Rule, entry: dict[str, Any]) -> bool:
    if rule.metric != entry["metric"] or (rule.metric == "perf/step_time" and rule.window > 1):
        return False
    for side in ("above", "below"):
        written = getattr(rule, side)
        if side in entry and isinstance(written, float | int):
            return bool(written <= entry[side] if side == "above" else written >= entry[side])
    return False


@cache
def _misfire_table() -> tuple[dict[str, Any], ...]:
    return tuple(yaml.safe_load((Path(__file__).parent / "known_misfires.yaml").read_text(encoding="utf-8")))


def _misfires(pack: Pack) -> list[tuple[str, tuple[str, str]]]:
    """Warnings and stops that fire on a public history while nothing is wrong there."""
    found = []
    variables = dict.fromkeys(VARIABLES, 1e9)
    for name, healthy_until in HEALTHY_STEPS.items():
        path = histories_dir() / f"{name}.csv"
        if not path.is_file():
            raise BadInput(f"the public history {name} is missing", where=str(path))
        engine = Engine([pack], variables=variables)
        for row in CsvFile(path).poll():
            if row.step <= healthy_until:
                engine.observe(row)
        for state in engine.rules:
            if state.fired_at and state.rule.severity != "notice":
                # verl counts rollouts from 1 itself: row 0 of its histories is the evaluation before them.
                message = f"fires at rollout {state.fired_at[0]} of the public run {name}, where nothing is wrong"
                found.append((state.rule.name, (message, "compare with the run's own first points instead")))
    return found
