"""Which numbers are none, or are infinite."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


def all_finite(values: npt.NDArray[Any]) -> bool:
    """Whether there are neither NaNs nor infinities; reads the values once if there are none."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.add.reduce(values)):
            return True
    return bool(np.isfinite(values).all())


def nans(values: npt.NDArray[Any]) -> Mask | None:
    """[n]: which values are NaN; None if none is."""
    # The sum of squares is the fastest way to see whether there may be one; then look closely.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(values, values)):
            return None
    found: Mask = np.isnan(values)
    return found if found.any() else None


def not_finite(values: npt.NDArray[Any]) -> Mask | None:
    """[n]: which values are NaN or infinite; None if none is."""
    return None if all_finite(values) else ~np.isfinite(values)
