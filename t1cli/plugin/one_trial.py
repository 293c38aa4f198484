"""One trial for a loop of slime's: repeated while the infrastructure loses it, cancelled when the loop has enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from t1cli.plugin.ask_again import AskAgain
from t1cli.plugin.trial_book import TrialBook
from t1cli.terminal.backoff import backoff_seconds
from t1cli.terminal.harness.engine import Engine
from t1cli.terminal.rollout.batch import INTERRUPTED, OVER_SAMPLED, PERMANENT_CAUSES
from t1cli.terminal.rollout.kept import PlayableTrial
from t1cli.terminal.rollout.metered import MeteredEngine
from t1cli.terminal.rollout.outcome import Boundary, Outcome, StopReason
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.trial_log import append_trial, log_path
from t1cli.terminal.rollout.world import TrialWorld

_ATTEMPTS: Final = 5
"""Tries of one trial that the infrastructure lost, before its group is given back to slime."""
_FIRST_BACKOFF_SECONDS: Final = 0.5
_MAX_BACKOFF_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.25
"""How often a running trial looks whether the loop has enough."""
_CANCELLED: Final = Outcome(False, StopReason.FAILED, Boundary.CANCELLED, OVER_SAMPLED)


@dataclass(frozen=True)
class OneTrial:
    """What the tries of one trial share."""

    world: TrialWorld
    book: TrialBook
    plan: Callable[[], TrialPlan]
    """The next try."""
    enough: Callable[[], bool]
    """Whether the loop wants no more trials."""
    evaluates: bool

    async def settled(self) -> TrialResult:
        """The last try's result. Raises RolloutAborted when the rollout has had its time."""
        async with self.world.connect() as engine:
            for tries in range(_ATTEMPTS):
                if tries:
                    self.book.refuse_late()
                    await _back_off(tries)
                plan = self.plan()
                if self.enough():
                    return TrialResult(plan, _CANCELLED)
                result = await self._played(plan, engine)
                outcome = result.outcome
                if outcome.scored or outcome.cause in PERMANENT_CAUSES or outcome.boundary is Boundary.CANCELLED:
                    break
        return result

    async def _played(self, plan: TrialPlan, engine: Engine) -> TrialResult:
        again = AskAgain(engine, unless=self.enough)
        metered = MeteredEngine(again)
        trial = self.book.make_trial(self.world, plan, metered)
        running = asyncio.create_task(trial.run())
        try:
            await self._ended(trial, running)
        except asyncio.CancelledError:
            trial.cancel(running, INTERRUPTED)
            await asyncio.wait({running})
            self._keep(_result(trial, running), metered, again)
            raise
        result = _result(trial, running)
        if self.enough() and not result.outcome.scored:
            # slime aborts its engines' requests before a trial can hear of it: no fault of the infrastructure.
            result = replace(result, outcome=_CANCELLED)
        return self._keep(result, metered, again)

    async def _ended(self, trial: PlayableTrial, running: asyncio.Task[TrialResult]) -> None:
        while not running.done():
            await asyncio.wait({running}, timeout=_LOOK_SECONDS)
            if self.enough() and not running.done():
                trial.cancel(running, OVER_SAMPLED)
                await asyncio.wait({running})

    def _keep(self, result: TrialResult, metered: MeteredEngine, again: AskAgain) -> TrialResult:
        """On record, and in the book of its rollout; an evaluation has neither rows nor a ledger."""
        result = replace(result, held_tokens=metered.held_tokens + again.cut_off_tokens)
        if self.evaluates:
            append_trial(self.world.trials_dir / "evaluated.jsonl", result)
        else:
            append_trial(log_path(self.world.trials_dir, self.book.rollout_id), result)
            self.book.add(result, metered.sampled_tokens)
        return result


def _result(trial: PlayableTrial, running: asyncio.Task[TrialResult]) -> TrialResult:
    return trial.cancelled_result() if running.cancelled() else running.result()


async def _back_off(tries: int) -> None:
    await asyncio.sleep(backoff_seconds(tries, first=_FIRST_BACKOFF_SECONDS, longest=_MAX_BACKOFF_SECONDS))
