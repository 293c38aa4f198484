"""What a terminal shows under the lines of a watched run: the rules that matter now, and the age of the data.

Without a terminal there is nothing of it: lines alone, which a file or a pipe can keep.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from t1cli.ui.console import answer
from t1cli.watch.counting import OF_RUN, Counting
from t1cli.watch.engine import Engine, RuleState

LIVE_STATES = ("firing", "pending")


class Footer:
    """A table at the bottom of a terminal; lines printed meanwhile scroll by above it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._live = Live(console=answer(), auto_refresh=False, transient=True) if answer().is_terminal else None

    def __enter__(self) -> Footer:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, engine: Engine, counting: Counting = OF_RUN) -> None:
        """Draw the state of the rules now."""
        if self._live is not None:
            self._live.update(footer(engine, self._clock(), counting), refresh=True)


def footer(engine: Engine, now: float, counting: Counting = OF_RUN) -> RenderableType:
    """Rules that fire or are about to as a table, the others counted."""
    logged = [state for state in engine.rules if engine.history.get(state.rule.metric) is not None]
    counts = Counter(state.state for state in logged)
    parts = [f"{counts[state]} {state}" for state in ("firing", "pending", "ok", "warming") if counts[state]]
    parts.append(f"{len(engine.rules) - len(logged)} not logged")
    last = engine.history.last_time
    age = "" if last is None else f"; last {counting.word} {max(0.0, now - last):.0f} s ago"
    summary = Text(f"rules: {', '.join(parts)}{age}")
    shown = [state for state in logged if state.state in LIVE_STATES]
    return Group(_table(shown, counting), summary) if shown else summary


def _table(states: Sequence[RuleState], counting: Counting) -> Table:
    table = Table(
        "state", "severity", "rule", "breaching points", f"since {counting.word}", box=None, padding=(0, 2, 0, 0)
    )
    for state in states:
        since = state.fired_at[-1] if state.state == "firing" and state.fired_at else state.first_breach
        breaching = f"{sum(state.verdicts)} of {state.verdicts.maxlen}"
        table.add_row(
            state.state,
            state.rule.severity,
            state.rule.name,
            breaching,
            "-" if since is None else str(counting.number(since)),
        )
    return table
