"""Sums of short rows, computed as sums of long ones."""

import numpy as np
import pytest

from sparkflow_runtime.ops.native.row_sums import is_worth_it, sum_rows
from support.eager import EagerBuilder


@pytest.mark.parametrize(("count", "columns"), [(50_001, 3), (16_384, 1), (1000, 100), (8, 2048)])
def test_the_sum_is_that_of_all_rows(count, columns):
    rows = np.random.default_rng(0).random((count, columns), np.float32)
    assert is_worth_it(np, rows, columns)
    expected = rows.sum(0, dtype=np.float64)
    np.testing.assert_allclose(sum_rows(rows), expected, rtol=2e-6)
    out = np.full(columns, np.nan, np.float32)
    assert sum_rows(rows, out) is out
    np.testing.assert_array_equal(out, sum_rows(rows))


def test_it_is_for_many_contiguous_rows_of_common_floats():
    rows = np.zeros((20_000, 3), np.float32)
    assert is_worth_it(np, rows, 3)
    assert not is_worth_it(np, rows[:100], 3)
    assert not is_worth_it(np, rows[:, ::2], 2)
    assert not is_worth_it(np, rows.astype(np.int32), 3)
    assert not is_worth_it(np, rows.reshape(2, 30_000), 30_000)
    assert not is_worth_it(None, rows, 3)


@pytest.mark.parametrize("keep_dims", [False, True])
def test_reductions_over_leading_axes_give_their_shapes(keep_dims):
    x = np.random.default_rng(1).random((200, 50, 2, 3))
    g = EagerBuilder()
    for axes in ([0], [0, 1], [1]):
        found = g.Sum(g.const(x), g.const(np.array(axes, np.int32)), keep_dims=keep_dims).value
        expected = x.sum(tuple(axes), keepdims=keep_dims)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-12)
