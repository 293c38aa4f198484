"""Watching: one engine fed by one source, to the end of a finished run or along a living one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from t1cli.errors import BadInput, CouldNotAsk
from t1cli.watch.engine import Alert, Engine
from t1cli.watch.history import History
from t1cli.watch.packs import load_packs, shipped_packs
from t1cli.watch.result import WatchResult, summarize
from t1cli.watch.sources.open_source import Opened
from t1cli.watch.sources.source import Row

DEFAULT_PACKS = ("invariants", "terminal")


def _nothing(*_: object) -> None:
    """The default of every callback."""


@dataclass
class Listener:
    """What a caller wants to hear of while rows arrive."""

    row: Callable[[Row, History], None] = _nothing
    alert: Callable[[Alert], None] = _nothing
    blind: Callable[[CouldNotAsk, float], None] = _nothing
    """The source cannot be read: the error, and for how many seconds already."""


@dataclass
class Session:
    """A source with the rules that look after it."""

    opened: Opened
    rule_packs: Sequence[str] = ()
    """Overrides the packs that the run's spec names."""
    gpus: float = 0.0
    """GPUs of the run, for GPU-hours."""
    listener: Listener = field(default_factory=Listener)

    def __post_init__(self) -> None:
        self.packs = tuple(self.rule_packs) or self.opened.packs or DEFAULT_PACKS
        self.engine = Engine(
            load_packs(self.packs),
            variables=self.opened.variables,
            window_scale=self.opened.window_scale,
            protect=self.opened.protect if self.opened.run is not None else 0,
        )
        self._times: dict[int, float] = {}
        self.alerts: list[Alert] = []

    def replay(self) -> WatchResult:
        """Feed everything that the source has now. Raises BadInput when it holds no rows."""
        while rows := self.opened.source.poll():
            self._feed(rows)
        if self.engine.history.last_step < 0:
            raise BadInput(f"no metrics in {self.opened.name}", hint="packs: " + ", ".join(shipped_packs()))
        return self.result()

    def follow(
        self,
        *,
        interval_seconds: float = 1.0,
        blind_limit_seconds: float = 600.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> WatchResult:
        """Feed rows until the source is finished. Raises CouldNotAsk when it stays unreadable for the limit."""
        blind_since: float | None = None
        while True:
            try:
                rows = self.opened.source.poll()
            except CouldNotAsk as error:
                blind_since = blind_since or time.monotonic()
                blind_seconds = time.monotonic() - blind_since
                self.listener.blind(error, blind_seconds)
                if blind_seconds >= blind_limit_seconds:
                    raise
            else:
                blind_since = None
                self._feed(rows)
                if self.opened.source.finished:
                    return self.result()
            pause(interval_seconds)

    def result(self) -> WatchResult:
        """What is known so far."""
        return summarize(self.engine, self.opened.name, times=self._times, gpus=self.gpus, run=self.opened.run_end())

    def _feed(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.time is not None:
                self._times[row.step] = row.time
            alerts = self.engine.observe(row)
            self.listener.row(row, self.engine.history)
            for alert in alerts:
                self.alerts.append(alert)
                self.listener.alert(alert)
