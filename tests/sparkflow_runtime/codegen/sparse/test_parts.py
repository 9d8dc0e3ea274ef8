"""Slices of sparse tensors and filled rows, against numpy."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.sparse.parts import filled, sliced

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")

DTYPES = ["?", "i1", "f2", "i4", "f4", "f8", "c8", "u8"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_slices(rank: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for count in (0, 1, 100):
        indices = rng.integers(-2, 9, (count, rank))
        values = rng.integers(0, 100, count).astype(dtype)
        for low, high in ((0, 7), (-2, 9), (3, 3), (5, 2), (1, 4), (-(1 << 63), (1 << 63) - 1)):
            start, stop = np.full(rank, low), np.full(rank, high)
            kept = ((indices >= start) & (indices < stop)).all(axis=1)
            given = np.asfortranarray(indices), np.repeat(values, 2)[::2]
            found = sliced(*given, start, stop)
            assert found is not None
            np.testing.assert_array_equal(found[0], indices[kept] - start)
            np.testing.assert_array_equal(found[1], values[kept])
            assert found[1].dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_rows_are_filled(rank: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for count, rows in ((0, 0), (0, 3), (1, 1), (30, 20), (20, 60), (300, 10)):
        indices = rng.integers(-5, 100, (count, rank))
        indices[:, 0] = rng.integers(0, max(rows, 1), count)
        values, default = rng.integers(0, 100, count).astype(dtype), np.array(7, dtype)
        found = filled(np.asfortranarray(indices), np.repeat(values, 2)[::2], rows, default)
        assert found is not None
        new_indices, new_values, empty, places = found
        np.testing.assert_array_equal(empty, np.bincount(indices[:, 0], minlength=rows) == 0)
        added = np.zeros((int(empty.sum()), rank), np.int64)
        added[:, 0] = np.flatnonzero(empty)
        joined = np.concatenate([indices, added])
        order = np.argsort(joined[:, 0], kind="stable")
        np.testing.assert_array_equal(new_indices, joined[order])
        everything = np.concatenate([values, np.full(len(added), default)])
        np.testing.assert_array_equal(new_values, everything[order])
        np.testing.assert_array_equal(new_indices[places], indices)
        np.testing.assert_array_equal(places, np.argsort(order)[:count])
        assert new_values.dtype == dtype


@pytest.mark.parametrize("wrong", [-1, 3, 1 << 62, -(1 << 63)])
@pytest.mark.parametrize("row", [0, 5])
def test_a_row_outside_is_found(wrong: int, row: int) -> None:
    indices = np.ones((6, 2), np.int64)
    assert filled(indices, np.ones(6), 3, np.array(0.0)) is not None
    indices[row, 0] = wrong
    assert filled(indices, np.ones(6), 3, np.array(0.0)) is None


def test_what_there_is_no_code_for() -> None:
    indices, values = np.zeros((2, 2), np.int64), np.ones(2)
    words = np.array([b"a", b"b"], object)
    corner = np.zeros(2, np.int64)
    assert sliced(indices, words, corner, corner) is None
    assert sliced(indices, values.astype("c16"), corner, corner) is None
    assert sliced(indices.astype(np.int32), values, corner, corner) is None
    assert filled(indices, words, 1, np.array(b"c", object)) is None
    assert filled(indices, values, 1, np.array(0, np.float32)) is None
    assert filled(indices, values, -1, np.array(0.0)) is None
