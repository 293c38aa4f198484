"""The confidence interval of a share, for checks that sample."""

from __future__ import annotations

import math

Z_95 = 1.959964
"""Standard normal quantile of a two-sided 95% interval."""
Z_90 = 1.644854
"""The same at 90%: each end alone is a 95% one-sided bound."""


def wilson(hits: int, samples: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson score interval of hits/samples (E. B. Wilson, 1927); (0, 1) without samples."""
    if samples == 0:
        return 0.0, 1.0
    share = hits / samples
    middle = share + z * z / (2 * samples)
    spread = z * math.sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples))
    scale = 1 + z * z / samples
    # The ends are exact at the extremes, where rounding would leave 1e-18.
    low = 0.0 if hits == 0 else (middle - spread) / scale
    high = 1.0 if hits == samples else (middle + spread) / scale
    return low, high
