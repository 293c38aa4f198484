"""Finished groups out of slime's asynchronous worker, one after the other and none of them lost.

slime's own collector (`fully_async_rollout.py`, v0.3.0 and v0.3.1) takes all that has finished and throws away what is
more than a batch; here that waits for the next rollout.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from t1cli.errors import T1Error
from t1cli.plugin.campaign import Campaign
from t1cli.plugin.settings import settings_text
from t1cli.plugin.task_source import TaskSource
from t1cli.plugin.to_sample import first_sample
from t1cli.plugin.trial_book import trial_book
from t1cli.terminal.rollout.from_spec import sandbox_capacity
from t1cli.terminal.trajectory.row import TrainingRow

Group = list[list[Any]]
"""Trials × Samples."""
_LOOK_SECONDS: Final = 0.05
_CLOSE_SECONDS: Final = 120.0
"""For trials that are cancelled to close their sandboxes."""


class GroupStream:
    """slime's worker, and the groups that it has finished and nobody has taken yet."""

    def __init__(self, args: Any, data_source: TaskSource, campaign: Campaign) -> None:
        from slime.rollout.fully_async_rollout import AsyncRolloutWorker  # type: ignore[import-not-found]

        self._source, self._book = data_source, trial_book(settings_text(args))
        self._pause_request = campaign.settings.run.pause_request
        rollout = campaign.spec.rollout
        # More groups than have a sandbox would only wait, and be drawn all the earlier.
        groups = math.ceil(sandbox_capacity(campaign.spec.sandbox) / rollout.samples_per_prompt)
        source = _BoundedSource(data_source, rollout.max_staleness * rollout.batch_size)
        self._worker = AsyncRolloutWorker(args, source, concurrency=groups)
        self._finished: deque[Group] = deque()
        self.closed = False
        self._worker.start()

    def take(self, count: int, *, is_late: Callable[[Sequence[TrainingRow]], bool]) -> list[Group]:
        """The next `count` groups, by the order of their tasks; late ones are given back, their tokens `staleness`.

        Raises what ended a trial that nothing may go on after, and RolloutAborted after the rollout's time.
        """
        taken: list[Group] = []
        while len(taken) < count:
            self._collect()
            while self._finished and len(taken) < count:
                group = self._finished.popleft()
                rows = [row for trial in self._book.trials(trial_ids([group])) for row in trial.rows]
                if is_late(rows):
                    self._book.drop(position_of(group), "staleness")
                    self._source.add_samples([group])
                else:
                    taken.append(group)
            if len(taken) < count:
                self._wait()
        self._book.refuse_failed()
        return sorted(taken, key=lambda group: first_sample(group[0]).index)

    def _wait(self) -> None:
        began = time.monotonic()
        self._book.refuse_late()
        time.sleep(_LOOK_SECONDS)
        if self._pause_request.exists():
            # Trials wait for its end before they begin.
            self._book.extend(time.monotonic() - began)

    def close(self) -> None:
        """Cancel what still runs and wait until its sandboxes are gone; what has finished is surplus."""
        self._book.over = True
        self._worker.stop()
        thread = self._worker.worker_thread
        if thread is not None:
            thread.join(_CLOSE_SECONDS)
        self._finished.clear()
        self.closed = True

    def _collect(self) -> None:
        self._finished.extend(group for _, group in self._worker.get_completed_groups() if not is_lost(group))
        thread = self._worker.worker_thread
        if thread is None or not thread.is_alive():
            raise T1Error("slime's asynchronous worker has ended", hint="look for its last error in the job's log")


class _BoundedSource:
    """slime's worker draws whenever a group has ended, however slow the trainer is: more than `max_staleness` batches
    ahead would only get too old."""

    def __init__(self, source: TaskSource, most: int) -> None:
        self._source, self._most = source, most

    def get_samples(self, num_samples: int) -> list[list[Any]]:
        """As the source, or none for now, which slime's worker takes for an answer."""
        return self._source.get_samples(num_samples) if self._source.under_way < self._most else []

    def add_samples(self, samples: list[list[Any]]) -> None:
        """As the source."""
        self._source.add_samples(samples)


def is_lost(group: Sequence[Any]) -> bool:
    """Whether a trial of the group has no rows, so that nobody trains on it."""
    return not all(isinstance(entry, list) for entry in group)


def position_of(group: Sequence[Any]) -> int:
    """Where in the stream of tasks a group's prompt stands."""
    return int(first_sample(group[0]).group_index)


def trial_ids(groups: Sequence[Group]) -> list[str]:
    """The trials of groups in their order."""
    return [siblings[0].metadata["trial_id"] for group in groups for siblings in group]
