"""uvicorn for a process that serves beside other work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import uvicorn


class QuietServer(uvicorn.Server):
    """uvicorn without signal handlers: signals belong to the process, which may have to answer requests meanwhile."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing to capture."""
        yield
