"""What a loop of slime's had played in this process, until a rollout has booked it.

slime's loops hand over Samples and say nothing of what else they started. Here every trial is written down where it
ends, so that a rollout saves its rows and balances its tokens as under t1's own loop.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from t1cli.terminal.rollout.batch import TrialMaker
from t1cli.terminal.rollout.ledger import ledger_of
from t1cli.terminal.rollout.plan import RolloutAborted
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.rollout.trial import Trial
from t1cli.terminal.trajectory.audit import Account, TokenLedger


class Ended(NamedTuple):
    """One trial that has ended."""

    result: TrialResult
    sampled_tokens: int
    """What the engine's side counted for it."""


@dataclass(frozen=True)
class Booked:
    """One rollout's share."""

    accepted: tuple[TrialResult, ...]
    """As they were handed over."""
    ended: tuple[TrialResult, ...]
    ledger: TokenLedger


class TrialBook:
    """Written by the loop's threads, booked by whoever asked the loop for a rollout."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: dict[str, Ended] = {}
        self._dropped: list[tuple[Ended, Account]] = []
        self._attempts: Counter[int] = Counter()
        self._lost: Counter[str] = Counter()
        self._until = math.inf
        self.rollout_id = 0
        """The rollout that trials are played for now."""
        self.make_trial: TrialMaker = Trial
        self.failure: Exception | None = None
        """What no rollout can go on after."""
        self.over = False
        """No rollout follows: what still runs is cancelled."""

    def begin(self, rollout_id: int, *, seconds: float, make_trial: TrialMaker) -> None:
        """A rollout begins, for which lost trials are repeated that long."""
        with self._lock:
            self.rollout_id, self.make_trial = rollout_id, make_trial
            self._until, self.over = time.monotonic() + seconds, False
            self._lost.clear()

    def extend(self, seconds: float) -> None:
        """Time that does not count: nothing was played."""
        with self._lock:
            self._until += seconds

    def next_attempt(self, index: int) -> int:
        """Number of this try of a sample, over all rollouts: no two trials share a name."""
        with self._lock:
            self._attempts[index] += 1
            return self._attempts[index] - 1

    def add(self, result: TrialResult, sampled_tokens: int) -> None:
        """A trial has ended, however it did."""
        with self._lock:
            self._ended[result.plan.trial_id] = Ended(result, sampled_tokens)
            if not result.outcome.scored:
                self._lost[f"{result.outcome.boundary}/{result.outcome.cause}"] += 1

    def fail(self, error: Exception) -> None:
        """Nothing can be trained on after this; the first failure is the one that is told."""
        with self._lock:
            self.failure = self.failure or error

    def refuse_failed(self) -> None:
        """Raises what no rollout can go on after, when there was something."""
        if self.failure is not None:
            # Raised in many places: without the others' way to it.
            raise self.failure.with_traceback(None)

    def refuse_late(self) -> None:
        """Raises RolloutAborted when the rollout has had its time, and what `refuse_failed` raises."""
        self.refuse_failed()
        if time.monotonic() < self._until:
            return
        listed = ", ".join(f"{cause} × {count}" for cause, count in self._lost.most_common(5))
        raise RolloutAborted(
            f"rollout {self.rollout_id}: slime's loop did not fill the batch in time; lost: {listed or 'none'}",
            hint="read the trial log for the first detail of the most frequent cause",
        )

    def trials(self, trial_ids: Iterable[str]) -> list[TrialResult]:
        """Trials that are not booked yet; an unknown one is a bug of ours."""
        with self._lock:
            return [self._ended[trial_id].result for trial_id in trial_ids]

    def drop(self, group_id: int, account: Account) -> None:
        """Nobody trains on what this group has so far; its trials may be played again."""
        with self._lock:
            for trial_id in [key for key, one in self._ended.items() if one.result.plan.group_id == group_id]:
                if self._ended[trial_id].result.outcome.scored:
                    self._dropped.append((self._ended.pop(trial_id), account))

    def book(self, handed_over: Sequence[str], *, waits: bool) -> Booked:
        """Take a rollout's trials out of the book: those handed over, the lost ones, and what was dropped.

        `waits`: scored trials beside those stay for a later rollout; otherwise they were surplus.
        """
        wanted = dict.fromkeys(handed_over)
        with self._lock:
            accepted = [self._ended[trial_id] for trial_id in wanted]
            gone = [
                key for key, one in self._ended.items() if key in wanted or not (waits and one.result.outcome.scored)
            ]
            ended = [self._ended.pop(trial_id) for trial_id in gone]
            dropped, self._dropped = self._dropped, []
        results = tuple(one.result for one in accepted)
        sampled = sum(one.sampled_tokens for one in ended) + sum(one.sampled_tokens for one, _ in dropped)
        ledger = ledger_of([one.result for one in ended], results, sampled_tokens=sampled)
        for one, account in dropped:
            ledger.book(account, one.result.sampled_tokens + one.result.lost_tokens)
        return Booked(results, tuple(one.result for one in [*ended, *(one for one, _ in dropped)]), ledger)


@lru_cache(maxsize=2)
def trial_book(settings_json: str) -> TrialBook:
    """The one book of a session in this process."""
    return TrialBook()
