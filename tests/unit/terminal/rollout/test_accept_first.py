"""Accepting the first groups that finish: whatever the order and the failures, every group and token has one end."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.terminal.harness.engine import EngineError
from t1cli.terminal.rollout.batch import run_rollout
from t1cli.terminal.rollout.outcome import Boundary
from t1cli.terminal.rollout.pacing import Slots
from t1cli.terminal.rollout.plan import RolloutAborted, RolloutPlan, RolloutResult

NEVER = 1_000_000


@dataclass(frozen=True)
class Fate:
    """How the trials of one task go."""

    delays: tuple[int, int]
    """Turns of the event loop before each reply; NEVER hangs until it is cancelled."""
    failures: int
    """Replies that fail before one succeeds."""
    impossible: bool = False
    """The prompt is longer than the context."""

    @property
    def finishes(self) -> bool:
        return not self.impossible and NEVER not in self.delays


FATES = st.builds(
    Fate,
    delays=st.tuples(st.sampled_from([0, 1, 3, 9, 27, NEVER]), st.sampled_from([0, 2, 6, 18, NEVER])),
    failures=st.sampled_from([0, 0, 0, 1, 2]),
    impossible=st.sampled_from([False, False, False, False, True]),
)


def finite(fates: list[Fate]) -> list[Fate]:
    """The same without trials that hang."""
    return [replace(fate, delays=tuple(min(delay, 40) for delay in fate.delays)) for fate in fates]


def before_of(fates: dict[str, Fate]) -> Callable[[str, int], Awaitable[None]]:
    failures = {name: fate.failures for name, fate in fates.items()}

    async def before(instruction: str, turn: int) -> None:
        fate = fates[instruction]
        if turn < 2 and fate.delays[turn] == NEVER:
            await asyncio.Event().wait()
        for _ in range(fate.delays[turn] if turn < 2 else 0):
            await asyncio.sleep(0)
        if turn == 1 and failures[instruction]:
            failures[instruction] -= 1
            raise EngineError("engine_http_500")

    return before


def tasks_of(doubles: SimpleNamespace, fates: list[Fate]) -> tuple[object, ...]:
    names = [f"{'x' * 5000 if fate.impossible else ''}t{index}" for index, fate in enumerate(fates)]
    return tuple(doubles.task_named(name, family=f"family{index % 2}") for index, name in enumerate(names))


def check_trials(result: RolloutResult, engine_sampled: int, samples: int) -> None:
    ids = [trial.plan.trial_id for trial in result.trials]
    assert len(ids) == len(set(ids)), "every trial ends once"
    accepted = {trial.plan.trial_id for trial in result.accepted}
    cancelled = {t.plan.trial_id for t in result.trials if t.outcome.boundary is Boundary.CANCELLED}
    assert accepted <= set(ids) and not accepted & cancelled
    assert all(trial.outcome.scored for trial in result.accepted)
    groups = Counter(trial.plan.group_id for trial in result.accepted)
    assert set(groups.values()) <= {samples} or result.short
    assert {row.trial_id for row in result.rows} == accepted
    assert result.ledger.unaccounted == 0 and result.ledger.sampled == engine_sampled
    for trial in result.trials:
        assert trial.outcome.scored or trial.outcome.boundary is not None, "a loss has a boundary"


@pytest.mark.catalogue("S9")
@settings(max_examples=120, deadline=None)
@given(
    fates=st.lists(FATES, min_size=1, max_size=6),
    spare=st.integers(0, 3),
    samples=st.integers(1, 2),
    slots=st.integers(1, 8),
)
def test_exactly_m_groups_or_all_is_accounted(
    doubles: SimpleNamespace, fates: list[Fate], spare: int, samples: int, slots: int
) -> None:
    accept = max(1, len(fates) - spare)
    fates = finite(fates) if sum(fate.finishes for fate in fates) < accept else fates
    tasks = tasks_of(doubles, fates)
    engine = doubles.ScriptedEngine(
        lambda _: ["echo a", "echo b"], before=before_of({t.name: f for t, f in zip(tasks, fates, strict=True)})
    )
    with tempfile.TemporaryDirectory() as place:
        # A trial that hangs holds its sandbox until enough others have finished: it has a place of its own.
        hanging = samples * sum(NEVER in fate.delays for fate in fates)
        world = doubles.make_world(engine, Path(place), slots=Slots(slots + hanging))
        plan = RolloutPlan(4, tasks, accept, samples, first_backoff_seconds=0.0001, max_backoff_seconds=0.001)
        first, impossible = 4 * len(tasks), {index for index, fate in enumerate(fates) if fate.impossible}
        if len(fates) - len(impossible) < accept:
            with pytest.raises(RolloutAborted, match=f"of {accept} groups scored"):
                asyncio.run(run_rollout(world, plan))
        else:
            result = asyncio.run(run_rollout(world, plan))
            check_trials(result, engine.sampled, samples)
            accepted = {trial.plan.group_id - first for trial in result.accepted}
            assert len(accepted) == accept
            assert {trial.plan.group_id - first for trial in result.trials} == set(range(len(tasks)))
            over = set(range(len(tasks))) - accepted
            assert set(result.unfinished) <= over and over - set(result.unfinished) <= impossible
        assert not world.provider.alive and world.slots.in_use == 0
