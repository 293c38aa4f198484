"""How far a long search is, on stderr: a bar on a terminal, otherwise a line every some seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from t1cli.ui.console import aside

LINE_SECONDS: Final = 5.0

Told = Callable[[int, int], None]
"""Takes what is done and how much there is."""


@contextmanager
def search_progress(noun: str, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Told]:
    """What a search tells its progress to; nothing is left on a terminal afterwards."""
    console = aside()
    if not console.is_terminal or console.is_dumb_terminal:
        yield _lines(noun, clock)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(f"searching {noun}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:

        def tell(done: int, total: int) -> None:
            # The first word shows the bar: who searches nothing shows none.
            task = bar.task_ids[0] if bar.task_ids else bar.add_task(noun)
            bar.update(task, completed=done, total=total)

        yield tell


def _lines(noun: str, clock: Callable[[], float]) -> Told:
    began = last = clock()

    def tell(done: int, total: int) -> None:
        nonlocal last
        now = clock()
        if now - last >= LINE_SECONDS:
            last = now
            aside().print(f"searched {done:,} of {total:,} {noun} ({done / total:.0%}) in {now - began:.0f} s")

    return tell
