"""How long to wait before asking again, and whom."""

from __future__ import annotations

import random
from typing import Final

RETRIED_STATUS: Final = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP answers that a healthy server gives while it restarts, drains or is full."""

_DOUBLINGS: Final = 20
"""More would only overflow: every limit is long reached."""


def backoff_seconds(failures: int, *, first: float, longest: float, asked: float = 0.0) -> float:
    """The pause after `failures` in a row (1 and more), in seconds: `first`, doubled with each, at most `longest`.

    `asked` is what the server would have; a shorter pause becomes that. Up to half of it is left out at random, so that
    those who failed together do not meet again.
    """
    whole = min(longest, max(asked, first * 2.0 ** min(failures - 1, _DOUBLINGS)))
    return whole * random.uniform(0.5, 1.0)
