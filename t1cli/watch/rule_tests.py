"""`t1 watch test`: unit tests of rules in promtool's spirit, on the engine that also runs live and in replay.

rules: [slime-grpo, my-pack.yaml]        # shipped names, or files beside the test file
tests:
  - name: a starved pool warns once
    seed: 7
    variables: {rollout_batch_size: 16}
    series:
      terminal/non_trainable_ratio: ~N(0.35,0.05)x300 0.8x100
    expect:
      signal-starvation: {fires: [322, 330]}   # between two steps; a number means exactly then
      signal-dead: never
    diagnoses: {mode collapse: never}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator

from t1cli.spec.block import Block
from t1cli.watch.engine import Engine
from t1cli.watch.faults import refusal, tree_of
from t1cli.watch.packs import load_packs, parsed, shipped_packs, yaml_text
from t1cli.watch.rule import Pack
from t1cli.watch.series_notation import expand
from t1cli.watch.sources.source import Row

Expected = str | int | tuple[int, ...] | dict[str, Any]


class RuleTest(Block):
    """One history and what must come of it."""

    name: str
    seed: int = 0
    series: dict[str, str]
    seconds_per_step: float | str = 60.0
    """A number, or a series of them; its last value goes on."""
    variables: dict[str, float] = Field(default_factory=dict)
    window_scale: float = 1.0
    expect: dict[str, Expected] = Field(default_factory=dict)
    """Rule to `never`, a step, several steps (each firing), or {fires: [from, to]}."""
    diagnoses: dict[str, Expected] = Field(default_factory=dict)
    """Diagnosis to `never`, or {holds: [from, to]}: it must hold first between these steps."""

    @field_validator("series", mode="before")
    @classmethod
    def _no_bare_number(cls, series: object) -> object:
        bare = [name for name, text in series.items() if isinstance(text, int)] if isinstance(series, dict) else []
        if bare:
            raise ValueError(f"{', '.join(map(str, bare))}: YAML read a number; quote it, and write 0.0x40 for 0x40")
        return series


class RuleTestFile(Block):
    """A file of tests."""

    rules: tuple[str, ...]
    tests: tuple[RuleTest, ...]


@dataclass(frozen=True)
class TestOutcome:
    """How one test went."""

    __test__ = False
    file: str
    name: str
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.problems


def run_rule_tests(path: Path) -> tuple[TestOutcome, ...]:
    """Run a file. Raises BadInput when it, or a pack that it names, cannot be read."""
    file = read_tests(path)
    packs = load_packs([name if name in shipped_packs() else str(path.parent / name) for name in file.rules])
    return tuple(TestOutcome(path.name, test.name, _problems(test, packs)) for test in file.tests)


def frames_of(series: Mapping[str, str], seed: int = 0, seconds_per_step: float | str = 60.0) -> list[Row]:
    """Series in notation as frames in the order in which a run would log them."""
    by_place: dict[tuple[int, int], dict[str, float]] = {}
    for number, (name, text) in enumerate(series.items()):
        for point in expand(text, seed + number):
            values = by_place.setdefault((point.session, point.step), {})
            if point.value is not None:
                values[name] = point.value
    ordered = sorted(by_place.items())
    moments = _moments(seconds_per_step, len(ordered))
    return [Row(step, values, at) for at, ((_, step), values) in zip(moments, ordered, strict=True)]


def _moments(seconds_per_step: float | str, frames: int) -> list[float]:
    """When each frame is logged, in seconds from the first one."""
    paces = [point.value or 0.0 for point in expand(str(seconds_per_step))] if isinstance(seconds_per_step, str) else []
    paces = (paces or [float(seconds_per_step)])[:frames]
    paces += [paces[-1]] * (frames - len(paces))
    return list(accumulate(paces[:-1], initial=0.0))


def read_tests(path: Path) -> RuleTestFile:
    """A file of rule tests. Raises BadInput with file and line, all problems at once."""
    text = yaml_text(path)
    found = parsed(text, str(path))
    try:
        return RuleTestFile.model_validate(found)
    except ValidationError as error:
        raise refusal(error, RuleTestFile, tree_of(text, str(path), found)) from error


def _problems(test: RuleTest, packs: tuple[Pack, ...]) -> tuple[str, ...]:
    engine = Engine(packs, variables=test.variables, window_scale=test.window_scale)
    for frame in frames_of(test.series, test.seed, test.seconds_per_step):
        engine.observe(frame)
    fired = {state.rule.name: tuple(state.fired_at) for state in engine.rules}
    held: dict[str, tuple[int, ...]] = {}
    for known in engine.diagnoses:
        first = held.get(known.diagnosis.name, ()) + (() if known.first is None else (known.first,))
        held[known.diagnosis.name] = (min(first),) if first else ()
    found = [_difference("rule", name, fired.get(name), wanted) for name, wanted in test.expect.items()]
    found += [_difference("diagnosis", name, held.get(name), wanted) for name, wanted in test.diagnoses.items()]
    return tuple(problem for problem in found if problem)


def _difference(kind: str, name: str, steps: tuple[int, ...] | None, wanted: Expected) -> str:
    """Empty when what happened is what was expected."""
    if steps is None:
        return f"there is no {kind} {name!r}"
    seen = "never" if not steps else "at " + ", ".join(map(str, steps))
    if wanted in ("never", ()):
        return f"{kind} {name}: expected never, fired {seen}" if steps else ""
    if isinstance(wanted, dict):
        low, high = next(iter(wanted.values()))
        ok = bool(steps) and low <= steps[0] <= high
        return "" if ok else f"{kind} {name}: expected first between {low} and {high}, fired {seen}"
    exact = (wanted,) if isinstance(wanted, int) else tuple(wanted)
    return "" if steps == exact else f"{kind} {name}: expected at {', '.join(map(str, exact))}, fired {seen}"
