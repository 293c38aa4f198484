"""A moment as people read it."""

from __future__ import annotations

import datetime


def moment(seconds: float | None) -> str:
    """Local date and time of Unix seconds; `-` for none."""
    try:
        return "-" if seconds is None else datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # a moment outside every calendar
        return "?"
