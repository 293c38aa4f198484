"""`tasks`: which pool of terminal tasks a campaign trains on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from t1cli.spec.block import Block


class PoolCard(Block):
    """What is known of a task pool before anybody opens it."""

    name: str
    """The pool's name."""
    num_tasks: PositiveInt
    """Tasks in the pool."""
    verifier: Literal["ctrf", "pane", "binary"]
    """`ctrf`: per-test results are written. `pane`: they are printed and parsed. `binary`: one bit per task."""
    ctrf_coverage: float | None = Field(default=None, ge=0.0, le=1.0)
    """Share of sampled tasks that wrote a CTRF report, where measured."""
    ctrf_sampled: PositiveInt | None = None
    """Tasks behind that share."""
    tests_median: PositiveFloat | None = None
    """Median number of tests per task."""
    tests_p90: PositiveFloat | None = None
    """90th percentile of tests per task."""
    tests_max: PositiveInt | None = None
    """Largest number of tests seen in a task."""
    filtered: str = ""
    """How the pool was filtered."""
    source: str = ""
    """Where these figures come from."""


class TasksSpec(Block):
    """Which pool of terminal tasks a campaign trains on."""

    card: PoolCard
    """What is known of the pool."""
    path: str
    """Directory of the pool, as the rollout nodes see it; relative paths start at the experiment file."""
    layout: Literal["harbor", "terminal-bench"] = "harbor"
    """Directory layout of a task."""
    families: tuple[str, ...] = ()
    """Train on these families only; empty means all."""
    ctrf_minimum: float = Field(default=0.9, ge=0.0, le=1.0)
    """Least CTRF coverage that preflight accepts under a dense reward."""
    timeout_override_seconds: NonNegativeFloat | None = None
    """Replaces what tasks declare as agent budget; null respects the tasks."""
    shuffle: bool = True
    """Draw tasks in a seeded random order."""
