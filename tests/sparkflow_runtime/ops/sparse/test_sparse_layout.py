"""Parts of sparse tensors of random shapes, with and without machine code; errors.

The table of cases has more.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.sparse import sparse_layout as ops
from support.machine_code import with_and_without

machine_code = with_and_without()

Array = np.ndarray[Any, Any]
SHAPES = [(5,), (30, 20), (3, 4, 5), (2, 1, 3, 2, 2, 1, 2, 1, 3)]
DTYPES = [np.float32, np.complex128, np.uint8, object]


def sparse(
    shape: tuple[int, ...], count: int, dtype: Any = np.float64
) -> tuple[Array, Array, Array]:
    """A random sparse tensor in order, in memory that is not contiguous."""
    rng = np.random.default_rng(count)
    positions = np.unique(rng.integers(0, np.prod(shape), count))
    indices = np.stack(np.unravel_index(positions, shape), 1).astype(np.int64)
    values = np.repeat(rng.integers(1, 100, len(positions)), 2).astype(dtype)[::2]
    return np.asfortranarray(indices), values, np.array(shape, np.int64)


def dense(indices: Array, values: Array, shape: Any, default: Any = 0) -> Array:
    result = np.full(tuple(shape), default, values.dtype)
    result[tuple(indices.T)] = values
    return result


def to_dense(*inputs: Any, validate_indices: bool = True) -> Any:
    return ops.SparseToDense().compute(np, *inputs, validate_indices=validate_indices)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_to_dense(shape: tuple[int, ...], count: int, dtype: Any) -> None:
    indices, values, sizes = sparse(shape, count, dtype)
    for default in (0, 7):
        wanted = dense(indices, values, shape, default)
        for kind in (np.int32, np.int64):
            given = indices.astype(kind), sizes.astype(kind), values
            found = to_dense(*given, np.array(default, dtype))
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == values.dtype
            node: Any = SimpleNamespace(attrs={"validate_indices": True})
            context: Any = None
            out = np.full(shape, 9).astype(dtype)
            ops.SparseToDense().bind_out(node, context)(*given, np.array(default, dtype), out)
            np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 1], [2, 2], [1, 0]], r"indices\[2\] = \[1,0\] is out of order"),
        ([[0, 1], [2, 2], [2, 2]], r"indices\[2\] = \[2,2\] is repeated"),
        ([[0, 1], [3, 2]], r"indices\[1\] = \[3,2\] is out of bounds: need 0 <= index < \[3,4\]"),
        ([[0, 1], [0, 1 << 62]], r"indices\[1\] = .* is out of bounds"),
        ([[-1, 1], [0, 0]], r"indices\[0\] = \[-1,1\] is out of bounds"),
    ],
)
def test_indices_that_are_refused(rows: list[list[int]], message: str) -> None:
    indices, values = np.array(rows), np.ones(len(rows))
    with pytest.raises(InvalidArgumentError, match=message):
        to_dense(indices, np.array([3, 4]), values, np.array(0.0))
    if "bounds" in message:
        with pytest.raises(InvalidArgumentError, match=message):
            to_dense(indices, np.array([3, 4]), values, np.array(0.0), validate_indices=False)
    else:
        found = to_dense(indices, np.array([3, 4]), values, np.array(0.0), validate_indices=False)
        np.testing.assert_array_equal(found, dense(indices, values, (3, 4)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [0, 1, 300])
@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_and_their_gradient(shape: tuple[int, ...], count: int, dtype: Any) -> None:
    indices, values, sizes = sparse(shape, count, dtype)
    rng = np.random.default_rng(0)
    for _ in range(5):
        start = np.array([rng.integers(0, size) for size in shape])
        size = np.array([rng.integers(0, size + 1) for size in shape])
        found = ops.SparseSlice().compute(np, indices, values, sizes, start, size)
        inside = tuple(slice(a, a + b) for a, b in zip(start, size, strict=True))
        wanted = dense(indices, values, shape)[inside]
        np.testing.assert_array_equal(found[2], wanted.shape)
        np.testing.assert_array_equal(dense(found[0], found[1], wanted.shape), wanted)
        if dtype is not object:
            dy = np.arange(1, len(found[1]) + 1).astype(dtype)
            db = ops.SparseSliceGrad().compute(np, dy, indices, start, found[0])
            back = dense(indices, db, shape)
            np.testing.assert_array_equal(back[inside], dense(found[0], dy, wanted.shape))
            assert np.count_nonzero(db) == len(dy)


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_rows_are_filled(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for count, rows in ((0, 4), (3, 1), (50, 30), (9, 40)):
        indices, values, _ = sparse((rows, 8), count, dtype)
        order = rng.permutation(len(values))
        indices, values = indices[order], values[order]
        default = np.array(7, dtype)
        sizes = np.array([rows, 8])
        found, filled, empty, places = ops.SparseFillEmptyRows().compute(
            np, indices, values, sizes, default
        )
        assert (np.diff(found[:, 0]) >= 0).all()
        np.testing.assert_array_equal(empty, ~np.isin(np.arange(rows), indices[:, 0]))
        np.testing.assert_array_equal(found[places], indices)
        np.testing.assert_array_equal(filled[places], values)
        rest = np.setdiff1d(np.arange(len(filled)), places)
        assert found[rest].tolist() == [[row, 0] for row in np.flatnonzero(empty)]
        assert filled[rest].tolist() == [7] * len(rest)
    message = r"indices\(1, 0\) is invalid: 40 >= 40"
    with pytest.raises(InvalidArgumentError, match=message):
        ops.SparseFillEmptyRows().compute(
            np, np.array([[0, 0], [40, 0]]), np.ones(2, dtype), np.array([40, 8]), default
        )


@pytest.mark.parametrize("count", [0, 1, 400])
def test_reordered_and_reshaped(count: int) -> None:
    indices, values, sizes = sparse((30, 20), count)
    order = np.random.default_rng(0).permutation(len(values))
    found = ops.SparseReorder().compute(np, indices[order], values[order], sizes)
    np.testing.assert_array_equal(found[0], indices)
    np.testing.assert_array_equal(found[1], values)
    for shape in ((600,), (20, 30), (2, 3, 4, 25), (5, -1)):
        places, full = ops.SparseReshape().compute(np, indices, sizes, np.array(shape))
        wanted = dense(indices, values, (30, 20)).reshape(shape)
        np.testing.assert_array_equal(dense(places, values, full), wanted)


def test_equal_elements_keep_their_order() -> None:
    indices = np.repeat(np.array([[2, 1], [0, 1]]), 300, axis=0)
    found = ops.SparseReorder().compute(np, indices, np.arange(600), np.array([3, 4]))
    np.testing.assert_array_equal(found[1], [*range(300, 600), *range(300)])
