"""Products of sparse and dense matrices against their definition, element by element."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import threads
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.native import row_kernels
from sparkflow_runtime.ops.sparse.sparse_products import SparseTensorDenseMatMul
from support.machine_code import with_and_without

FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
DTYPES = (*FLOATS, np.int8, np.uint8, np.int32, np.int64, np.complex64, np.complex128)


machine_code = with_and_without()


def product(
    indices: Any, values: Any, shape: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False
) -> Any:
    return SparseTensorDenseMatMul().compute(
        np, indices, values, np.array(shape, np.int64), b, adjoint_a=adjoint_a, adjoint_b=adjoint_b
    )


def expected(
    indices: Any, values: Any, shape: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False
) -> Any:
    right = np.conj(b.T) if adjoint_b else b
    result = np.zeros((shape[1] if adjoint_a else shape[0], right.shape[1]), b.dtype)
    for (row, column), value in zip(indices.tolist(), values, strict=True):
        if adjoint_a:
            result[column] += np.conj(value) * right[row]
        else:
            result[row] += value * right[column]
    return result


def numbers(shape: Any, dtype: Any, seed: int) -> Any:
    random = np.random.default_rng(seed)
    found = random.integers(-9, 10, shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * random.integers(-9, 10, shape)
    return (found / 4 if dtype in FLOATS else found).astype(dtype)


@pytest.mark.parametrize("adjoint_b", [False, True])
@pytest.mark.parametrize("adjoint_a", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: Any, adjoint_a: bool, adjoint_b: bool) -> None:
    """Elements in any order, some at the same place."""
    random = np.random.default_rng(1)
    shape = 7, 5
    for index in (np.int32, np.int64):
        for count, columns in ((0, 3), (1, 4), (40, 1), (40, 17), (40, 0)):
            indices = random.integers(0, shape, (count, 2)).astype(index)
            values = numbers(count, dtype, 2)
            b = numbers((shape[0] if adjoint_a else shape[1], columns), dtype, 3)
            b = np.ascontiguousarray(b.T) if adjoint_b else b
            given = (indices, values, shape, b, adjoint_a, adjoint_b)
            found = product(*given)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, expected(*given))


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_kernels, "_SHARED_BYTES", 0)
    random = np.random.default_rng(4)
    indices, values = random.integers(0, 50, (900, 2)), random.standard_normal(900)
    for columns in (7, 33, 64, 150):
        given = (indices, values, (50, 50), random.standard_normal((50, columns)))
        found = []
        for count in (1, 2):
            monkeypatch.setattr(threads, "count", lambda count=count: count)
            found.append(product(*given))
        np.testing.assert_array_equal(*found)
        np.testing.assert_allclose(found[0], expected(*given), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_no_number_reaches_its_rows_only() -> None:
    indices = np.array([[0, 1], [2, 0], [2, 1], [3, 2]])
    values = np.array([np.nan, 0.0, 1.0, np.inf], np.float32)
    b = np.array([[np.inf, 1.0], [2.0, 3.0], [1.0, 0.0]], np.float32)
    nan, inf = np.nan, np.inf
    found = product(indices, values, (5, 3), b)
    np.testing.assert_array_equal(found, [[nan, nan], [0, 0], [nan, 3], [inf, nan], [0, 0]])


def test_matrices_without_rows_or_columns() -> None:
    nothing, none = np.zeros((0, 2), np.int64), np.zeros(0, np.float32)
    assert product(nothing, none, (0, 3), np.ones((3, 2), np.float32)).shape == (0, 2)
    assert not product(nothing, none, (4, 0), np.ones((0, 2), np.float32)).any()


ONE = np.ones(1, np.float32)
B = np.ones((3, 2), np.float32)


@pytest.mark.parametrize("place", [[-1, 0], [4, 0], [0, -1], [0, 3], [1 << 62, 1], [1, -1 << 63]])
def test_elements_outside(place: list[int]) -> None:
    for count in (1, 4):
        indices = np.ones((count, 2), np.int64)
        indices[-1] = place
        message = rf"indices\[{count - 1}\] = .* is out of bounds: need 0 <= index < \[4,3\]"
        with pytest.raises(InvalidArgumentError, match=message):
            product(indices, np.ones(count, np.float32), (4, 3), np.ones((4, 2), np.float32), True)
        with pytest.raises(InvalidArgumentError, match=message):
            product(indices, np.ones(count, np.float32), (4, 3), B)


@pytest.mark.parametrize(
    ("indices", "values", "shape", "b", "message"),
    [
        (np.zeros((1, 2), np.int64), ONE, (3, 4), B, "inner dimension does not match: 4 vs. 3"),
        (np.zeros((1, 2), np.int64), ONE, (4, 3), ONE, "must be matrices"),
        (np.zeros((1, 3), np.int64), ONE, (4, 3, 1), B, "must be matrices"),
        (np.zeros((1, 2), np.int64), ONE, (4, 3, 1), B, "2 columns for a dense_shape of 3 sizes"),
        (np.zeros((2, 2), np.int64), ONE, (4, 3), B, "2 rows for 1 values"),
        (np.zeros((1, 2), np.int64), ONE, (-4, 3), B, "out of bounds"),
    ],
)
def test_parts_that_do_not_fit(indices: Any, values: Any, shape: Any, b: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        product(indices, values, shape, b)
