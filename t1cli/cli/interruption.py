"""Ctrl-C before a command has begun: there is nothing to undo, so the process says what happened and leaves."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

_SAID: Final = b"interrupted\n"
_INTERRUPTED: Final = 130


def leave_at_once() -> None:
    """Until a command begins, SIGINT ends the process with 130; where a shell has it ignored, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_from_now_on() -> None:
    """A command begins: SIGINT is a KeyboardInterrupt, so that it can clean up behind itself."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    # No import, no buffer, no exit handler: any of them may be what was interrupted.
    try:
        os.write(2, _SAID)
    finally:
        os._exit(_INTERRUPTED)
