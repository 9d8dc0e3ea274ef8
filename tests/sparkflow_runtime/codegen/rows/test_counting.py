"""Counts and histograms, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows.counting import counted, histogram

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("count", [1, 5, 1000, 5000])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 1000])
def test_counts(size: int, count: int, dtype: Any) -> None:
    numbers = np.random.default_rng(size).integers(0, 2 * count, size).astype(dtype)
    wanted = np.bincount(numbers, minlength=count)[:count]
    np.testing.assert_array_equal(counted(numbers, count), wanted)


def test_numbers_without_counts() -> None:
    numbers = np.arange(20)
    for place in (0, 13, 19):
        negative = numbers.copy()
        negative[place] = -1
        assert counted(negative, 20) is None
    assert counted(numbers[:0], 20) is None
    assert counted(numbers, 0) is None
    assert counted(numbers[::2], 20) is None
    assert counted(numbers.astype(np.int8), 20) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("count", [1, 5, 100, 5000])
@pytest.mark.parametrize("size", [1, 8, 1003])
def test_bins(size: int, count: int, dtype: Any) -> None:
    values = (np.random.default_rng(size).standard_normal(size) * 5).astype(dtype)
    if size > 8 and values.dtype.kind == "f":
        values[:4] = np.inf, -np.inf, -3, 4
    bins = np.clip(np.floor((values.astype(float) + 3) / (7 / count)), 0, count - 1)
    wanted = np.bincount(bins.astype(int), minlength=count)
    np.testing.assert_array_equal(histogram(values, -3, 4, count), wanted)


def test_values_without_bins() -> None:
    values = np.zeros(20)
    for place in (0, 13, 19):
        missing = values.copy()
        missing[place] = np.nan
        assert histogram(missing, 0, 1, 5) is None
    assert histogram(values[:0], 0, 1, 5) is None
    assert histogram(values.astype(np.float16), 0, 1, 5) is None
