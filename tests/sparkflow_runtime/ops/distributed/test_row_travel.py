import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ops.registry import lookup

RNG = np.random.default_rng(3)


def distinct(ids):
    return lookup("_DistinctRows").compute(np, ids)


def expand(rows, positions, ids):
    return lookup("_ExpandRows").compute(np, rows, positions, ids)


def add_up(values, positions, ids):
    return lookup("_SumRows").compute(np, values, positions, ids)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ids_are_told_apart_in_order_of_appearance(dtype):
    ids = np.array([[7, 3], [7, 7], [3, 9]], dtype)
    found, positions = distinct(ids)
    assert found.tolist() == [7, 3, 9]
    assert found.dtype == dtype
    assert positions.tolist() == [0, 1, 0, 0, 1, 2]
    assert positions.dtype == np.int32


def test_where_most_ids_differ_nothing_is_done():
    ids = np.array([5, 4, 3, 2, 1, 1])
    found, positions = distinct(ids)
    assert found.tolist() == ids.tolist()
    assert positions.size == 0
    rows = np.arange(12.0, dtype=np.float32).reshape(6, 2)
    assert np.may_share_memory(expand(rows, positions, ids), rows)
    assert add_up(rows, positions, found) is rows


@pytest.mark.parametrize("shape", [(40,), (10, 4), (0,), (2, 0, 3), ()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, dtypes.bfloat16.numpy])
def test_a_lookup_through_distinct_ids_is_the_lookup(shape, dtype):
    table = RNG.normal(size=(9, 16)).astype(dtype)
    ids = RNG.integers(0, 9, shape)
    found, positions = distinct(ids)
    got = expand(table[found], positions, ids)
    assert got.dtype == table.dtype
    np.testing.assert_array_equal(got, table[ids])


def test_rows_are_added_up_in_their_order():
    ids = RNG.integers(0, 5, 64)
    values = RNG.normal(size=(64, 8)).astype(np.float32)
    found, positions = distinct(ids)
    expected = np.zeros((5, 8), np.float32)
    for row, value in zip(ids, values, strict=True):
        expected[row] += value
    np.testing.assert_array_equal(add_up(values, positions, found), expected[found])
