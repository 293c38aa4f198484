"""How far a search is: on stderr alone, a line every some seconds where nobody sees a bar."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pytest

from t1cli.ui.search_progress import LINE_SECONDS, search_progress


def clock_of(*seconds: float) -> Iterator[float]:
    return iter(seconds)


def test_a_line_every_some_seconds_and_nothing_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = clock_of(0, 1, LINE_SECONDS, LINE_SECONDS + 1, 3 * LINE_SECONDS)
    with search_progress("layouts", clock=lambda: next(seconds)) as tell:
        for done in range(4):
            tell(500 * done, 2_000)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "searched 500 of 2,000 layouts (25%) in 5 s",
        "searched 1,500 of 2,000 layouts (75%) in 15 s",
    ]


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    with search_progress("layouts") as tell:
        tell(500, 2_000)
    text = screen.getvalue()
    assert "searching layouts" in text and "2000" in text and "\x1b[2K" in text.rpartition("2000")[2]
