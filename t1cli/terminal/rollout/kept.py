"""What a rollout leaves to the next one: trials on hold in their sandboxes, and what their groups have already.

A trial that is kept is the same coroutine in the same sandbox, with its place among the live ones. Its history, sampled
ids, log-probs, routing and the weight version of every turn are untouched; the next rollout's weights continue them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from t1cli.terminal.rollout.metered import MeteredEngine
from t1cli.terminal.rollout.result import TrialPlan, TrialResult


class PlayableTrial(Protocol):
    """A trial as a rollout handles it: `Trial` here, or one that is played on another node."""

    plan: TrialPlan

    def cancel(self, task: asyncio.Task[TrialResult], cause: str) -> None:
        """End the trial, running as `task`, with outcome cancelled."""
        ...

    def cancelled_result(self) -> TrialResult:
        """The result of a trial that was cancelled before its first step."""
        ...

    async def run(self) -> TrialResult:
        """Play it to its end."""
        ...


@runtime_checkable
class PlayedElsewhere(Protocol):
    """A trial whose engine this process does not see."""

    node: str
    """Where it is played."""
    nodes: int
    """How many share the places for sandboxes, alike."""

    async def hold(self) -> int:
        """Put it on hold; what it has sampled so far."""
        ...

    async def go_on(self) -> None:
        """End the hold."""
        ...


@dataclass(frozen=True)
class KeepRule:
    """How much may be left to the next rollout."""

    most_rollouts: int
    """Rollouts that a trial may go on after its first: each is a weight version further from its oldest turn."""
    most_trials: int
    """Trials on hold at once: they keep their sandboxes."""


@dataclass(eq=False)
class RunningTrial:
    """A trial that was started and has not been settled."""

    task: asyncio.Task[TrialResult]
    trial: PlayableTrial
    plan: TrialPlan
    """As this rollout counts it: a kept trial began in another group id."""
    engine: MeteredEngine
    """Its own, so that its tokens are known apart."""
    elsewhere_tokens: int = 0
    """Sampled on another node until the last hold began."""

    @property
    def sampled_tokens(self) -> int:
        """What it has sampled so far; of a trial on another node, until the last hold."""
        return self.engine.sampled_tokens or self.elsewhere_tokens

    @property
    def is_under_way(self) -> bool:
        """Whether there is something to go on with."""
        return self.sampled_tokens > 0

    @property
    def node(self) -> str:
        """Where it is played; empty for this process."""
        return self.trial.node if isinstance(self.trial, PlayedElsewhere) else ""

    @property
    def nodes(self) -> int:
        """How many nodes share the places for sandboxes."""
        return self.trial.nodes if isinstance(self.trial, PlayedElsewhere) else 1

    async def stop(self) -> None:
        """Put it on hold; returns when the engine samples nothing for it."""
        if isinstance(self.trial, PlayedElsewhere):
            self.elsewhere_tokens = await self.trial.hold()
        elif self.engine.hold is not None:
            self.engine.hold.begin()
            await self.engine.hold.quiet()

    async def go_on(self) -> None:
        """End the hold."""
        if isinstance(self.trial, PlayedElsewhere):
            await self.trial.go_on()
        elif self.engine.hold is not None:
            self.engine.hold.end()

    def result(self) -> TrialResult:
        """The result of its finished task, in this rollout's group. Raises what the trial raised."""
        return relabelled(self.task.result(), self.plan, self.engine)

    def cancel(self, cause: str) -> None:
        """End it with outcome cancelled."""
        self.trial.cancel(self.task, cause)

    def cancelled(self) -> TrialResult | None:
        """The result after a cancellation that has ended; None when the trial raised something else."""
        if self.task.cancelled():
            # Cancelled before its first step.
            return relabelled(self.trial.cancelled_result(), self.plan, self.engine)
        return self.result() if self.task.exception() is None else None


@dataclass(frozen=True)
class KeptGroup:
    """One group that goes on in the next rollout."""

    position: int
    """Its prompt's position in the stream of tasks."""
    rollouts: int
    """Rollouts that it was kept over."""
    scored: tuple[tuple[TrialResult, MeteredEngine], ...]
    running: tuple[RunningTrial, ...]

    @property
    def sampled_tokens(self) -> int:
        """What the group has cost so far."""
        return sum(e.sampled_tokens for _, e in self.scored) + sum(t.sampled_tokens for t in self.running)


class Kept:
    """The groups between two rollouts; whoever owns it closes it when no rollout follows."""

    def __init__(self) -> None:
        self._groups: tuple[KeptGroup, ...] = ()

    @property
    def positions(self) -> frozenset[int]:
        return frozenset(group.position for group in self._groups)

    def put(self, groups: Sequence[KeptGroup]) -> None:
        """Leave groups, all on hold, to the next rollout."""
        self._groups = tuple(groups)

    def take(self) -> tuple[KeptGroup, ...]:
        """The groups, which belong to the caller from now on."""
        groups, self._groups = self._groups, ()
        return groups

    async def close(self, cause: str) -> tuple[TrialResult, ...]:
        """End what is kept, sandboxes included, and return how it ended."""
        running = [trial for group in self.take() for trial in group.running]
        await ended(running, cause)
        return tuple(result for trial in running if (result := trial.cancelled()) is not None)


def chosen(candidates: Sequence[KeptGroup], rule: KeepRule) -> tuple[KeptGroup, ...]:
    """Those of the candidates that are kept: what has cost most first, while there is room for its trials."""
    kept: list[KeptGroup] = []
    held: Counter[str] = Counter()
    for group in sorted(candidates, key=lambda group: -group.sampled_tokens):
        if group.rollouts <= rule.most_rollouts and _has_room(held, group, rule):
            kept.append(group)
            held.update(trial.node for trial in group.running)
    return tuple(kept)


def _has_room(held: Counter[str], group: KeptGroup, rule: KeepRule) -> bool:
    """Whether every node keeps enough places free, which an evaluation between two rollouts needs there too."""
    wanted = Counter(trial.node for trial in group.running)
    rooms = {trial.node: rule.most_trials // trial.nodes for trial in group.running}
    return all(held[node] + count <= rooms[node] for node, count in wanted.items())


async def ended(running: Sequence[RunningTrial], cause: str) -> None:
    """Cancel trials and wait until all have cleaned up; a cancellation of the caller is raised after that."""
    for trial in running:
        trial.cancel(cause)
    interrupted = False
    while pending := {trial.task for trial in running if not trial.task.done()}:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError:
            interrupted = True
    if interrupted:
        raise asyncio.CancelledError


def relabelled(result: TrialResult, plan: TrialPlan, engine: MeteredEngine) -> TrialResult:
    """The result as the rollout counts it that settles it."""
    if result.plan != plan:
        rows = tuple(replace(row, group_id=plan.group_id) for row in result.rows)
        result = replace(result, plan=plan, rows=rows)
    return replace(result, held_tokens=engine.held_tokens) if engine.held_tokens else result
