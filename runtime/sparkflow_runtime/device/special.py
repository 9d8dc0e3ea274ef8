"""SciPy's special functions and Fourier transforms for an array module.

Imported on first use by a kernel: a task that needs neither starts faster.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np


def special_functions(xp: Any) -> Any:
    """`scipy.special` for numpy, `cupyx.scipy.special` for cupy."""
    return importlib.import_module("scipy.special" if xp is np else "cupyx.scipy.special")


def fourier_transforms(xp: Any) -> Any:
    """`scipy.fft` for numpy, `cupyx.scipy.fft` for cupy: both keep single precision."""
    return importlib.import_module("scipy.fft" if xp is np else "cupyx.scipy.fft")
