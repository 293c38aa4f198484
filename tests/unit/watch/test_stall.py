"""A run that lives and logs nothing is stalled; one that has ended, or has only just gone on, is not."""

from __future__ import annotations

from pathlib import Path

from t1cli.watch.session import Session
from t1cli.watch.sources.open_source import Opened
from t1cli.watch.sources.source import Row
from t1cli.watch.stall import StallClock

ROWS = [Row(step, {"a": 1.0}, 1000.0 + 10 * step) for step in range(6)]
LAST = 1050.0


def test_silence_of_three_usual_gaps_and_a_minute_is_told_once() -> None:
    clock = StallClock()
    assert clock.look(ROWS, LAST + 60) is None
    told = clock.look([], LAST + 61)
    assert told is not None and (told.step, told.value) == (5, 61.0)
    assert told.says.startswith("no rollout for 61 s where 10 s are usual")
    assert clock.look([], LAST + 9999) is None


def test_the_time_in_which_a_run_was_down_is_no_stall() -> None:
    clock = StallClock(lambda: LAST + 5000)
    assert clock.look(ROWS, LAST + 5050) is None
    told = clock.look([], LAST + 5100)
    assert told is not None and told.value == 100.0


class Ended:
    """A source that is read long after its end."""

    finished = False

    def poll(self) -> tuple[Row, ...]:
        rows, self.finished = () if self.finished else tuple(ROWS), True
        return rows


def test_a_run_that_has_ended_is_not_called_stalled(tmp_path: Path) -> None:
    pack = tmp_path / "pack.yaml"
    pack.write_text("rules: [{name: high, metric: a, above: 9}]\n")
    session = Session(Opened(Ended(), "r"), rule_packs=(str(pack),))
    session.follow(clock=lambda: LAST + 30_000, pause=lambda seconds: None)
    assert session.alerts == []
