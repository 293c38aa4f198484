"""The confidence interval of a share, for checks that sample."""

from __future__ import annotations

import math

Z_95 = 1.959964
"""Standard normal quantile of a two-sided 95% interval."""
Z_90 = 1.644854
"""The same at 90%: each end alone is a 95% one-sided bound."""


def wilson(hits: int, samples: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson score interval of hits/samples (E. B. Wilson, 1927), clipped to [0, 1]; (0, 1) without samples."""
    if samples == 0:
        return 0.0, 1.0
    share = hits / samples
    middle = share + z * z / (2 * samples)
    spread = z * math.sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples))
    scale = 1 + z * z / samples
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
