"""Sums of random sparse tensors, with and without machine code. The table of cases has more."""

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.sparse import sparse_math as ops
from support.machine_code import with_and_without

machine_code = with_and_without()

Array = np.ndarray[Any, Any]
DTYPES = [np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.complex64]


def sparse(
    shape: tuple[int, ...], count: int, dtype: Any, seed: int = 0
) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    positions = np.unique(rng.integers(0, np.prod(shape), count))
    indices = np.stack(np.unravel_index(positions, shape), 1).astype(np.int64)
    values = rng.integers(-3, 4, len(positions)).astype(dtype)
    return np.asfortranarray(indices), values, np.array(shape, np.int64)


def dense(indices: Array, values: Array, shape: Any) -> Array:
    result = np.zeros(tuple(shape), values.dtype)
    for place, value in zip(indices.tolist(), values, strict=True):
        result[tuple(place)] += value
    return result


def added(a: Any, b: Any, threshold: float = 0) -> Any:
    dtype = a[1].real.dtype
    return ops.SparseAdd().compute(np, *a, *b, np.array(threshold, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5,), (30, 20), (3, 4, 5)])
def test_sums(shape: tuple[int, ...], dtype: Any) -> None:
    for counts in ((0, 0), (0, 7), (7, 0), (300, 300)):
        a, b = (sparse(shape, count, dtype, seed) for seed, count in enumerate(counts))
        indices, values, sizes = added(a, b)
        np.testing.assert_array_equal(sizes, shape)
        np.testing.assert_array_equal(dense(indices, values, shape), dense(*a) + dense(*b))
        union = {*map(tuple, a[0].tolist()), *map(tuple, b[0].tolist())}
        assert [tuple(each) for each in indices.tolist()] == sorted(union)
        da, db = ops.SparseAddGrad().compute(np, values, a[0], b[0], indices)
        total = dense(*a) + dense(*b)
        np.testing.assert_array_equal(da, total[tuple(a[0].T)])
        np.testing.assert_array_equal(db, total[tuple(b[0].T)])


def test_sums_below_the_threshold() -> None:
    a, b = (sparse((30, 20), 300, np.float32, seed) for seed in range(2))
    indices, values, _ = added(a, b, 3)
    both = {*map(tuple, a[0].tolist())} & {*map(tuple, b[0].tolist())}
    total = dense(*a) + dense(*b)
    union = {*map(tuple, a[0].tolist()), *map(tuple, b[0].tolist())}
    kept = sorted(each for each in union if each not in both or abs(total[each]) >= 3)
    assert [tuple(each) for each in indices.tolist()] == kept
    np.testing.assert_array_equal(values, [total[each] for each in kept])
    da, _ = ops.SparseAddGrad().compute(np, np.ones(len(kept)), a[0], b[0], indices)
    assert da.tolist() == [float(tuple(each) in kept) for each in a[0].tolist()]


def test_sums_of_elements_out_of_order_or_repeated() -> None:
    indices = np.array([[2, 1], [0, 1], [2, 1]])
    one = indices, np.array([1.0, 2.0, 3.0]), np.array([3, 4])
    other = sparse((3, 4), 5, np.float64)
    for a, b in ((one, other), (other, one), (one, one)):
        found = added(a, b)
        np.testing.assert_array_equal(dense(*found), dense(*a) + dense(*b))
        assert found[0].tolist() == sorted(found[0].tolist())


def test_an_element_outside_is_refused() -> None:
    good = sparse((3, 4), 5, np.float32)
    bad = np.array([[0, 1], [0, 4]]), np.ones(2, np.float32), np.array([3, 4])
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(InvalidArgumentError, match=r"indices\[1\] = \[0,4\] is out of bounds"):
            added(*pair)


REDUCTIONS = [
    (ops.SparseReduceSum, ops.SparseReduceSumSparse, np.add),
    (ops.SparseReduceMax, ops.SparseReduceMaxSparse, np.maximum),
]


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axes", [(), (0,), (1,), (-1, 0), (0, 1, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize(("whole", "parts", "ufunc"), REDUCTIONS)
def test_reductions(
    whole: Any, parts: Any, ufunc: Any, dtype: Any, axes: tuple[int, ...], keep_dims: bool
) -> None:
    shape = (3, 20, 5)
    for count in (0, 1, 100):
        indices, values, sizes = sparse(shape, count, dtype)
        order = np.random.default_rng(1).permutation(len(values))
        indices, values = indices[order], values[order]
        gone = {axis % 3 for axis in axes} or {0, 1, 2}
        groups: dict[tuple[int, ...], Any] = {}
        for place, value in zip(indices.tolist(), values, strict=True):
            group = tuple(0 if axis in gone else place[axis] for axis in range(3))
            groups[group] = ufunc(groups[group], value) if group in groups else value
        wanted = np.zeros([1 if axis in gone else shape[axis] for axis in range(3)], dtype)
        for group, value in groups.items():
            wanted[group] = value
        if not keep_dims:
            wanted = wanted.reshape([shape[axis] for axis in range(3) if axis not in gone])
        given = indices, values, sizes, np.array(axes, np.int32)
        found = whole().compute(np, *given, keep_dims=keep_dims)
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == dtype
        places, some, full = parts().compute(np, *given, keep_dims=keep_dims)
        assert len(some) == len(groups)
        np.testing.assert_array_equal(dense(places, some, full), wanted)


def test_the_sum_of_one_element_is_that_element() -> None:
    indices, values = np.array([[0, 1], [1, 0], [2, 0], [2, 1]]), np.array([-0.0, 0.0, -0.0, -0.0])
    given = indices, values, np.array([4, 2]), np.array([1], np.int32)
    found = ops.SparseReduceSum().compute(np, *given, keep_dims=False)
    assert np.signbit(found).tolist() == [True, False, True, False]
