"""Watching: one engine fed by one source, to the end of a finished run or along a living one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from t1cli.errors import BadInput, CouldNotAsk, Diagnostic
from t1cli.watch.engine import Alert, Engine
from t1cli.watch.frames import Frames
from t1cli.watch.history import History
from t1cli.watch.metrics.registry import registry
from t1cli.watch.packs import load_packs, pack_from
from t1cli.watch.result import RunClock, WatchResult, summarize
from t1cli.watch.sources.open_source import Opened
from t1cli.watch.sources.source import Row
from t1cli.watch.stall import StallClock

DEFAULT_PACKS = ("invariants", "terminal", "slime-grpo", "slime-ppo")
STEPS_BEFORE_NAMES_ARE_CHECKED = 3


def _nothing(*_: object) -> None:
    """The default of every callback."""


@dataclass
class Listener:
    """What a caller wants to hear of while rows arrive."""

    row: Callable[[Row], None] = _nothing
    alert: Callable[[Alert], None] = _nothing
    blind: Callable[[CouldNotAsk, float], None] = _nothing
    """The source cannot be read: the error, and for how many seconds already."""
    tick: Callable[[], None] = _nothing
    """After every look at a living source."""


@dataclass
class Session:
    """A source with the rules that look after it."""

    opened: Opened
    rule_packs: Sequence[str] = ()
    """Overrides the packs that the run's spec names."""
    gpus: float = 0.0
    """GPUs of the run, for GPU-hours."""
    variables: Mapping[str, float] = field(default_factory=dict)
    """Overrides and adds to the variables of the spec."""
    other_runs: Mapping[str, History] = field(default_factory=dict)
    """Histories that `baseline: {of: run}` refers to."""
    already_told: set[str] = field(default_factory=set)
    """Keys of alerts that an earlier watcher of this run has told."""
    listener: Listener = field(default_factory=Listener)

    def __post_init__(self) -> None:
        self.packs = tuple(self.rule_packs) or self.opened.packs or DEFAULT_PACKS
        packs = load_packs(self.packs)
        if self.opened.rules and not self.rule_packs:
            packs = (*packs, pack_from({"rules": list(self.opened.rules)}, f"{self.opened.name}: watch.rules"))
        self.engine = Engine(
            packs,
            variables={**self.opened.variables, **self.variables},
            window_scale=self.opened.window_scale,
            protect=self.opened.protect if self.opened.run is not None else 0,
            other_runs=self.other_runs,
            one_machine=self.opened.one_machine,
        )
        self._frames = Frames(self.opened.reorder_steps)
        self._times: dict[int, float] = {}
        self._names_checked = False
        self.stall = StallClock(self._session_began)
        self.alerts: list[Alert] = []
        """Every alert of the history, told before or now."""

    def replay(self) -> WatchResult:
        """Feed everything that the source has now. Raises BadInput when it holds no rows or lacks a rule's metric."""
        while rows := self.opened.source.poll():
            self._feed(rows)
        self._end()
        if self.engine.history.frame < 0:
            raise BadInput(f"no metrics in {self.opened.name}", hint="a row needs a step and at least one number")
        self._check_names()
        return self.result()

    def follow(
        self,
        *,
        interval_seconds: float = 1.0,
        blind_limit_seconds: float = 600.0,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> WatchResult:
        """Feed rows until the source is finished. Raises CouldNotAsk when it stays unreadable for the limit."""
        blind_since: float | None = None
        stall = self.stall
        while True:
            try:
                rows = self.opened.source.poll()
            except CouldNotAsk as error:
                blind_since = clock() if blind_since is None else blind_since
                self.listener.blind(error, clock() - blind_since)
                if clock() - blind_since >= blind_limit_seconds:
                    raise
            else:
                blind_since = None
                self._feed(rows)
                if self.opened.source.finished:
                    self._end()
                    self._check_names()
                    return self.result()
                if (stalled := stall.look(rows, clock())) is not None:
                    self._tell(stalled)
            self.listener.tick()
            pause(interval_seconds)

    def result(self) -> WatchResult:
        """What is known so far."""
        clock = RunClock(self._times, self.gpus)
        return summarize(self.engine, self.opened.name, clock, self.opened.run_end())

    def _session_began(self) -> float | None:
        run = self.opened.run_end()
        return None if run is None else run.began

    def _feed(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.time is not None:
                self._times[row.step] = row.time
            self.listener.row(row)
            self._observe(self._frames.add((row,)))
        if self.engine.history.frame >= STEPS_BEFORE_NAMES_ARE_CHECKED and not self._names_checked:
            self._check_names()

    def _end(self) -> None:
        self._observe(self._frames.flush())

    def _observe(self, frames: Iterable[Row]) -> None:
        for frame in frames:
            for alert in self.engine.observe(frame):
                self._tell(alert)

    def _tell(self, alert: Alert) -> None:
        self.alerts.append(alert)
        if alert.key not in self.already_told:
            self.already_told.add(alert.key)
            self.listener.alert(alert)

    def _check_names(self) -> None:
        """A rule whose metric the run does not log is an error, unless it says `optional`."""
        self._names_checked = True
        seen = self.engine.binder.seen
        missing = [
            Diagnostic(
                f"rule {state.rule.name}: {self.opened.name} does not log {state.rule.metric}",
                hint=_near(state.rule.metric, seen) + "; `optional: true` allows a run without it",
            )
            for state in self.engine.rules
            if not (state.rule.optional or state.rule.absent) and self.engine.history.get(state.rule.metric) is None
        ]
        if missing and self.engine.history.frame >= 0:
            raise BadInput.many(tuple(missing))


def history_of(opened: Opened) -> History:
    """Every metric that a source has now, for rules that compare with it. Raises BadInput when it has none."""
    session = Session(replace(opened, packs=("invariants",), rules=()))
    while rows := opened.source.poll():
        session._feed(rows)
    session._end()
    if session.engine.history.frame < 0:
        raise BadInput(f"no metrics in {opened.name}", hint="a row needs a step and at least one number")
    return session.engine.history


def _near(metric: str, seen: set[str]) -> str:
    near = registry().near(metric, sorted(seen))
    return "near names: " + ", ".join(near) if near else "it logs " + ", ".join(sorted(seen)[:8])
