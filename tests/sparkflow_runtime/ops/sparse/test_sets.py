"""Operations on random sets against Python's, with and without machine code."""

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.sparse import sets as ops
from support.machine_code import with_and_without

machine_code = with_and_without()

Array = np.ndarray[Any, Any]
OPERATIONS = {
    "a-b": set.difference,
    "b-a": lambda a, b: b - a,
    "intersection": set.intersection,
    "union": set.union,
}


def values_of(numbers: Array, dtype: Any) -> Array:
    if dtype is object:
        words = np.array([b"%d" % n for n in range(200)], object)
        return words[numbers]
    return numbers.astype(dtype)


def expected(a: Array, b: Array, operation: str) -> tuple[list[Any], list[Any], list[int]]:
    indices, values, longest = [], [], 0
    for place in np.ndindex(*a.shape[:-1]):
        found = sorted(OPERATIONS[operation](set(a[place].tolist()), set(b[place].tolist())))
        indices += [[*place, column] for column in range(len(found))]
        values += found
        longest = max(longest, len(found))
    return indices, values, [*a.shape[:-1], longest]


def as_sparse(array: Array) -> tuple[Array, Array, Array]:
    indices = np.stack(np.unravel_index(np.arange(array.size), array.shape), 1)
    return indices.astype(np.int64), array.reshape(-1), np.array(array.shape, np.int64)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, object])
@pytest.mark.parametrize("lead", [(), (4,), (30, 3)])
@pytest.mark.parametrize("operation", [*OPERATIONS, "UNION"])
def test_operations(operation: str, lead: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for sizes in ((0, 0), (0, 3), (3, 0), (7, 5)):
        a, b = (values_of(rng.integers(0, 12, (*lead, size)), dtype) for size in sizes)
        wanted = expected(a, b, operation.lower())
        results = [
            ops.DenseToDenseSetOperation().compute(np, a, b, set_operation=operation),
            ops.DenseToSparseSetOperation().compute(np, a, *as_sparse(b), set_operation=operation),
            ops.SparseToSparseSetOperation().compute(
                np, *as_sparse(a), *as_sparse(b), set_operation=operation
            ),
        ]
        for indices, values, shape in results:
            assert (indices.tolist(), values.tolist(), shape.tolist()) == wanted
            assert indices.shape == (len(values), len(lead) + 1)
            assert (indices.dtype, values.dtype, shape.dtype) == (np.int64, dtype, np.int64)


def test_extreme_numbers() -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    a, b = np.array([[low, high, 0], [high, high, 1]]), np.array([[high], [low]])
    for operation in OPERATIONS:
        found = ops.DenseToDenseSetOperation().compute(np, a, b, set_operation=operation)
        assert tuple(each.tolist() for each in found) == expected(a, b, operation)


@pytest.mark.parametrize("dtype", [np.int32, object])
def test_sizes(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for shape in ((0, 4), (5, 0), (20, 30), (2, 3, 4)):
        array = values_of(rng.integers(0, 10, shape), dtype)
        kept = rng.random(array.size) < 0.5
        indices, values, sizes = as_sparse(array)
        found = ops.SetSize().compute(np, indices[kept], values[kept], sizes)
        wanted = [
            len(set(values[kept & (indices[:, :-1] == place).all(axis=1)].tolist()))
            for place in np.ndindex(*shape[:-1])
        ]
        assert found.reshape(-1).tolist() == wanted
        assert (found.shape, found.dtype) == (shape[:-1], np.int32)


@pytest.mark.parametrize("place", [[2, 0], [-1, 0], [1 << 62, 0]])
def test_elements_outside_are_refused(place: list[int]) -> None:
    parts = np.array([[0, 0], place]), np.array([1, 2]), np.array([2, 3])
    message = r"indices\[1\] = .* is out of bounds: need 0 <= index < \[2,3\]"
    with pytest.raises(InvalidArgumentError, match=message):
        ops.SetSize().compute(np, *parts)
    with pytest.raises(InvalidArgumentError, match=message):
        ops.SparseToSparseSetOperation().compute(np, *parts, *parts, set_operation="union")


def test_other_failures() -> None:
    a, b = np.zeros((2, 3), np.int64), np.zeros((3, 3), np.int64)
    with pytest.raises(InvalidArgumentError, match=r"Mismatched group shapes \[2\] and \[3\]"):
        ops.DenseToDenseSetOperation().compute(np, a, b, set_operation="union")
    with pytest.raises(InvalidArgumentError, match="Invalid set_operation c"):
        ops.DenseToDenseSetOperation().compute(np, a, a, set_operation="c")
