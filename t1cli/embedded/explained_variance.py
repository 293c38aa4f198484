"""How much of the returns' variance the critic accounts for, and what goes wrong when computing it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

COLD_BELOW = -1.0
"""More variance added than there was: twice that of the returns is left."""
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class ValueFit:
    """The critic's fit to one batch; None where the figure is undefined."""

    explained_variance: float | None
    """1 - Var(returns - values) / Var(returns); 1 is perfect, 0 no better than the mean, unbounded below."""
    explained_variance_rows: float | None
    """The same over one number per row (mean return, mean value), so that long rows do not dominate."""
    value_mean: float
    return_mean: float
    return_std: float
    value_std: float = math.nan

    @property
    def starts_cold(self) -> bool | None:
        """Whether a critic with this fit has learned nothing yet, on its first batch; None where it cannot be told.

        A fresh head adds variance instead of explaining some (the T1 report's began at -33.6), or says the same of
        every token and explains exactly none. A warm one begins near 0 or above. A constant offset is not seen: the
        figure compares variances, so look at the two means beside it.
        """
        if self.explained_variance is None:
            return None
        return self.explained_variance < COLD_BELOW or self.value_std**2 < _LEAST_VARIANCE


def value_fit(
    values: npt.NDArray[np.float32], returns: npt.NDArray[np.float32], owner: npt.NDArray[np.int64]
) -> ValueFit:
    """Fit over loss-bearing tokens only: values, returns and the row index of each token are all (N,).

    Only masked-in tokens may be passed: observation tokens would count values that nothing is trained on. A batch whose
    returns are all equal has no variance to explain and gives None, never a division by almost zero.
    """
    if values.size == 0:
        return ValueFit(None, None, math.nan, math.nan, math.nan)
    count = np.bincount(owner).clip(min=1)
    value_per_row = (np.bincount(owner, weights=values) / count)[np.unique(owner)]
    return_per_row = (np.bincount(owner, weights=returns) / count)[np.unique(owner)]
    return ValueFit(
        explained_variance=_explained(values.astype(np.float64), returns.astype(np.float64)),
        explained_variance_rows=_explained(value_per_row, return_per_row),
        value_mean=float(values.mean(dtype=np.float64)),
        return_mean=float(returns.mean(dtype=np.float64)),
        return_std=float(returns.std(dtype=np.float64)),
        value_std=float(values.std(dtype=np.float64)),
    )


def _explained(values: npt.NDArray[np.float64], returns: npt.NDArray[np.float64]) -> float | None:
    variance = float(returns.var())
    if variance < _LEAST_VARIANCE:
        return None
    return 1.0 - float((returns - values).var()) / variance
