"""Rows of equal index: sums and numbers, in machine code and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.native import equal_rows

INDICES = np.array([7, 3, 7, 0, 3, 7])


@pytest.fixture(params=["machine code", "numpy"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(native, "available", lambda: False)
    elif not native.available():
        pytest.skip("no compiler")


def _by_index(indices: Any, values: Any) -> dict[int, Any]:
    return {int(i): values[indices == i].sum(axis=0, dtype=values.dtype) for i in set(indices)}


@pytest.mark.parametrize("row", [(), (1,), (3,), (2, 2), (64,)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.complex64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sums_of_equal_rows(row: tuple[int, ...], dtype: type, index: type) -> None:
    values = np.random.default_rng(0).integers(-9, 9, (INDICES.size, *row)).astype(dtype)
    found, sums = equal_rows.sum_duplicates(np, INDICES.astype(index), values)
    expected = _by_index(INDICES, values)
    assert sums.dtype == dtype
    assert sorted(found) == sorted(expected)
    for at, each in zip(found, sums, strict=True):
        np.testing.assert_array_equal(each, expected[int(at)])


def test_what_is_distinct_stays_as_it_is() -> None:
    indices, values = np.array([4, 2]), np.ones((2, 3), np.float32)
    found, sums = equal_rows.sum_duplicates(np, indices, values)
    assert found is indices
    assert sums is values


def test_sums_of_what_is_distinct_are_new_arrays() -> None:
    indices, values = np.array([4, 2]), np.ones((2, 3), np.float32)
    found, sums, number = equal_rows.sum_equal(indices, values)
    np.testing.assert_array_equal(found[number], indices)
    np.testing.assert_array_equal(sums, values)
    assert not np.shares_memory(sums, values)
    assert not np.shares_memory(found, indices)


def test_values_come_in_their_order() -> None:
    values = np.float32([1e8, 1, -1e8, 1])
    found, sums = equal_rows.sum_duplicates(np, np.array([5, 5, 5, 5]), values)
    assert (list(found), list(sums)) == ([5], [np.float32(np.float32(1e8 + 1) - 1e8 + 1)])


@pytest.mark.parametrize("indices", [INDICES, INDICES[:0], INDICES[::2]])
def test_numbers_name_the_distinct_ones(indices: Any) -> None:
    distinct, number = equal_rows.numbered(np, indices)
    assert sorted(distinct) == sorted(set(indices))
    np.testing.assert_array_equal(distinct[number], indices)


def test_sums_by_segment_of_chosen_rows() -> None:
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    ids, sources = np.array([1, 0, 1]), np.array([3, 0, 2])
    sums = equal_rows.sum_by_segment(np, data, ids, 3, sources)
    np.testing.assert_array_equal(sums, [data[0], data[3] + data[2], np.zeros(3)])
    truths = equal_rows.sum_by_segment(np, data > 7, np.array([0, 0, 2, 2]), 3)
    np.testing.assert_array_equal(truths, [[False] * 3, [False] * 3, [True] * 3])
