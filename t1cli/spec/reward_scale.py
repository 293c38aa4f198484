"""How the scale of a dense reward is judged against a pool's tests per task, and by which percentile.

(catalogue R2 at plan)
"""

from __future__ import annotations

from collections.abc import Sequence

LEAST, MOST = 0.5, 5.0
"""Scale over the 90th percentile of tests: below, rewards blow up; above, they are squeezed together.

At 5 the quickstart still learns as its README shows (S = 20, and 4 tests at the 90th percentile); more was not tried.
"""


def ninetieth(numbers: Sequence[float]) -> float:
    """The 90th percentile, one of the numbers themselves (nearest rank); there must be one."""
    ordered = sorted(numbers)
    return float(ordered[round(0.9 * (len(ordered) - 1))])


def fits(scale: float, tests_p90: float) -> bool:
    """Whether a task of about that many tests earns about 1 when it is solved."""
    return LEAST <= scale / tests_p90 <= MOST
