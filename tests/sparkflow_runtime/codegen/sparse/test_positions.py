"""Positions of coordinate vectors and back, against numpy's."""

import math

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.sparse.positions import coordinates, positions, signed

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")

SHAPES = [(7,), (1,), (3, 50), (50, 1, 3), (2, 3, 4, 5, 6, 1, 2, 3), (1 << 31, 1 << 31)]


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
@pytest.mark.parametrize("shape", SHAPES)
def test_positions_in_row_major_order(shape: tuple[int, ...], count: int) -> None:
    rng = np.random.default_rng(0)
    indices = np.stack([rng.integers(0, size, count) for size in shape], 1)
    for given in (indices, np.asfortranarray(indices), np.repeat(indices, 2, axis=0)[::2]):
        found = positions(given, shape)
        assert found is not None
        np.testing.assert_array_equal(found.numbers, np.ravel_multi_index(tuple(indices.T), shape))


def test_positions_among_some_dimensions() -> None:
    rng = np.random.default_rng(0)
    shape = (3, 4, 5)
    indices = np.stack([rng.integers(0, size, 100) for size in shape], 1)
    for kept in ((), (0,), (1,), (0, 2), (1, 2), (0, 1, 2)):
        found = positions(indices, shape, kept)
        assert found is not None
        wanted = np.zeros(100, np.int64)
        for axis in kept:
            wanted = wanted * shape[axis] + indices[:, axis]
        np.testing.assert_array_equal(found.numbers, wanted)


@pytest.mark.parametrize(
    ("rows", "rises", "falls"),
    [
        ([], True, False),
        ([3], True, False),
        ([0, 1, 5], True, False),
        ([0, 1, 1, 5], False, False),
        ([0, 0], False, False),
        ([0, 4, 3, 5], False, True),
        ([0, 1, 5, 4], False, True),
    ],
)
def test_order(rows: list[int], rises: bool, falls: bool) -> None:
    found = positions(np.array(rows, np.int64).reshape(-1, 1), (6,))
    assert found is not None
    assert (found.rises, found.falls) == (rises, falls)


@pytest.mark.parametrize("wrong", [-1, 5, 1 << 62, (1 << 63) - 1, -(1 << 63)])
@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("row", [0, 13, 19])
def test_an_index_out_of_bounds_is_found(wrong: int, column: int, row: int) -> None:
    indices = np.zeros((20, 2), np.int64)
    indices[row, column] = wrong
    assert positions(indices, (5, 5)) is None
    assert positions(indices, (5, 5), (0,)) is None


def test_positions_wrap_around() -> None:
    found = positions(np.array([[1, 2], [3, 4]]), (1 << 40, (1 << 62) + 1))
    assert found is not None
    assert found.numbers.tolist() == [signed((1 << 62) + 3), signed(3 * ((1 << 62) + 1) + 4)]
    assert (signed((1 << 63) - 1), signed(1 << 63)) == ((1 << 63) - 1, -(1 << 63))


def test_what_there_is_no_code_for() -> None:
    assert positions(np.zeros((3, 2), np.int32), (5, 5)) is None
    assert positions(np.zeros((3, 2), np.int64), (5, 5, 5)) is None
    assert positions(np.zeros((3, 2), np.int64), (5, -5)) is None
    assert positions(np.zeros((3, 9), np.int64), (2,) * 9) is None
    assert positions(np.zeros((3, 0), np.int64), ()) is None
    assert positions(np.zeros(3, np.int64), (5,)) is None
    assert coordinates(np.zeros(3, np.int64), ()) is None
    assert coordinates(np.zeros(0, np.int64), (3, 0)) is None
    assert coordinates(np.zeros(3, np.int64), (2,) * 9) is None


@pytest.mark.parametrize(
    "shape",
    [*SHAPES, (1 << 62,), ((1 << 63) - 1,), (3, 1 << 61), (10**9, 9 * 10**9), (7, 1, 11, 13)],
)
def test_coordinates_of_positions(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    total = math.prod(shape)
    last = (1 << 63) - 1
    random = rng.integers(0, last, 3000, endpoint=True)
    edges = np.concatenate([size * np.arange(4) + np.array([[0], [-1]]) for size in (1, *shape)])
    numbers = np.concatenate([random, random >> 20, [0, 1, last], np.abs(edges.ravel())]) % total
    found = coordinates(numbers, shape)
    assert found is not None
    np.testing.assert_array_equal(found, np.stack(np.unravel_index(numbers, shape), 1))
    none = coordinates(numbers[:0], shape)
    assert none is not None
    assert none.shape == (0, len(shape))
