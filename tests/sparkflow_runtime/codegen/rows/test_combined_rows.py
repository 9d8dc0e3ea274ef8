"""Rows combined into others, against numpy's `ufunc.at`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows.combined_rows import combine

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


@pytest.mark.parametrize("function", ["maximum", "minimum", "multiply"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("shape", [(100, 64), (50, 3), (30,), (20, 2, 17)])
def test_rows(shape: tuple[int, ...], dtype: Any, function: str) -> None:
    generator = np.random.default_rng(7)
    rows, ids = (
        (generator.standard_normal(shape) * 3).astype(dtype),
        generator.integers(0, 6, shape[0]),
    )
    if np.issubdtype(dtype, np.floating):
        rows.reshape(-1)[:2] = np.nan, np.inf
    found = np.ones((7, *shape[1:]), dtype)
    expected = found.copy()
    assert combine(function, rows, ids.astype(np.int32), found)
    with np.errstate(invalid="ignore"):
        getattr(np, function).at(expected, ids, rows)
    np.testing.assert_array_equal(found, expected)


def test_ids_of_several_dimensions() -> None:
    rows = np.arange(12.0).reshape(2, 3, 2)
    found = np.zeros((4, 2))
    assert combine("maximum", rows, np.array([[0, 1, 0], [3, 3, 1]]), found)
    np.testing.assert_array_equal(found, [[4, 5], [10, 11], [0, 0], [8, 9]])


def test_what_is_left_to_others() -> None:
    rows, out = np.ones((3, 2)), np.zeros((2, 2))
    for ids in ([0, 1, 2], [0, -1, 0]):
        assert not combine("maximum", rows, np.array(ids), out)
    assert not combine("add", rows, np.zeros(3, int), out)
    assert not combine("maximum", rows.astype(np.float16), np.zeros(3, int), out)
    assert not combine("maximum", rows[:0], np.zeros(0, int), out)
    assert not out.any()
