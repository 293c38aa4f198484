"""A W&B run on its server: complete rows by scan, the sampled history only where a scan cannot work.

W&B's run state is a weak vote (runs are `crashed` while they live and `running` after they died), so a run counts as
finished only when its state says so and its data has been silent too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from t1cli.errors import CouldNotAsk
from t1cli.watch.sources.flat_row import flat_row
from t1cli.watch.sources.source import Row

ENDED = ("finished", "failed", "crashed", "killed")
SILENT_SECONDS = 600.0
SAMPLES = 10_000


class Api(Protocol):
    """The part of `wandb.Api` that is used."""

    def run(self, path: str) -> Any:
        """A run by `entity/project/id`."""
        ...


class WandbOnline:
    """Rows of one run, each once."""

    def __init__(
        self,
        path: str,
        *,
        api: Api | None = None,
        steps_per_rollout: int = 1,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._api = api
        self._steps_per_rollout = steps_per_rollout
        self._clock = clock
        self._next_step = 0
        self._sampled: set[tuple[int, str]] = set()
        self._last_data: float | None = None
        self.finished = False

    def poll(self) -> tuple[Row, ...]:
        """New rows. Raises CouldNotAsk when the server cannot be asked, or hides rows that it says it has."""
        try:
            # A fresh run object at each poll: an old one goes on with the end step that it knew.
            run = self._client().run(self._path)
            found = self._scan(run)
        except (CouldNotAsk, ModuleNotFoundError):
            raise
        except Exception as failure:  # the boundary of a client whose error classes change between versions
            raise CouldNotAsk(
                f"W&B did not answer for {self._path}: {type(failure).__name__}: {failure}",
                hint="check the network, WANDB_API_KEY and the run's path",
            ) from failure
        rows = [row for entry in found if (row := flat_row(entry, steps_per_rollout=self._steps_per_rollout))]
        if rows or self._last_data is None:
            self._last_data = self._clock()
        self.finished = run.state in ENDED and (
            self._clock() - self._last_data >= SILENT_SECONDS or run.state != "crashed"
        )
        return tuple(rows)

    def _client(self) -> Api:
        if self._api is None:
            import wandb

            self._api = wandb.Api()
        return self._api

    def _scan(self, run: Any) -> list[Mapping[str, Any]]:
        """Whole rows: asking for keys would return only rows that hold all of them, and slime's rows hold few."""
        last = int(getattr(run, "lastHistoryStep", -1) or 0)
        rows = list(run.scan_history(min_step=self._next_step, use_cache=False))
        if rows:
            self._next_step = max(int(row.get("_step", self._next_step)) for row in rows) + 1
            if last or len(rows) > 1:
                return rows
        if last >= self._next_step and not rows:
            raise CouldNotAsk(
                f"W&B says that {self._path} has steps up to {last}, but gives none from {self._next_step} on",
                hint="clients 0.27.1 and 0.27.2 do that for running runs; update wandb",
            )
        # `lastStep: 0` with a long history: a scan ends at once, only the sampled history is left.
        return rows if last else self._sampled_rows(run)

    def _sampled_rows(self, run: Any) -> list[Mapping[str, Any]]:
        new = []
        for row in run.history(samples=SAMPLES, pandas=False):
            step = int(row.get("_step", -1))
            fresh = {key: value for key, value in row.items() if (step, key) not in self._sampled}
            self._sampled.update((step, key) for key in row)
            if set(fresh) - {"_step", "_timestamp", "_runtime"}:
                new.append(row)
        return new
