"""Positions, their order, and values among others, with and without machine code."""

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.sparse.sparse_positions import (
    ascending,
    checked_positions,
    coordinates,
    flat_positions,
    in_order,
    values_among,
)
from support.machine_code import with_and_without

machine_code = with_and_without()

HUGE = 1 << 40


def random_indices(shape: tuple[int, ...], count: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, size, count) for size in shape]
    return np.stack(rows, 1) if rows else np.zeros((count, 0), np.int64)


@pytest.mark.parametrize("shape", [(), (1,), (9,), (3, 40), (2, 3, 4), (2,) * 10])
@pytest.mark.parametrize("count", [0, 1, 500])
def test_positions_and_back(shape: tuple[int, ...], count: int) -> None:
    indices = random_indices(shape, count)
    found = checked_positions(np.asfortranarray(indices), shape)
    wanted = np.zeros(count, np.int64)
    for axis, size in enumerate(shape):
        wanted = wanted * size + indices[:, axis]
    np.testing.assert_array_equal(found.numbers, wanted)
    assert found.rises == bool((np.diff(wanted) > 0).all())
    assert found.falls == bool((np.diff(wanted) < 0).any())
    np.testing.assert_array_equal(coordinates(wanted, shape), indices)


@pytest.mark.parametrize("kept", [(), (0,), (2,), (0, 2), (1, 2)])
def test_positions_among_some_dimensions(kept: tuple[int, ...]) -> None:
    indices = random_indices((3, 4, 5), 200)
    found = checked_positions(indices, (3, 4, 5), kept)
    whole = np.zeros(200, np.int64)
    for axis in kept:
        whole = whole * (3, 4, 5)[axis] + indices[:, axis]
    np.testing.assert_array_equal(found.numbers, whole)
    assert found.falls == bool((np.diff(whole) < 0).any())


@pytest.mark.parametrize("place", [[-1, 0], [4, 0], [0, -1], [0, 3], [1 << 62, 1], [1, -1 << 63]])
def test_elements_outside(place: list[int]) -> None:
    for count in (1, 4):
        indices = np.ones((count, 2), np.int64)
        indices[-1] = place
        message = rf"indices\[{count - 1}\] = .* is out of bounds: need 0 <= index < \[4,3\]"
        for kept in (None, (0,), ()):
            with pytest.raises(InvalidArgumentError, match=message):
                checked_positions(indices, (4, 3), kept)


def test_other_ranks() -> None:
    message = r"a matrix with 2 columns for dense_shape \[4,3\], got shape \[2,3\]"
    with pytest.raises(InvalidArgumentError, match=message):
        flat_positions(np.zeros((2, 3), np.int64), (4, 3))
    with pytest.raises(InvalidArgumentError, match=r"got shape \[2\]"):
        flat_positions(np.zeros(2, np.int64), (4, 3))
    with pytest.raises(InvalidArgumentError, match="out of bounds"):
        flat_positions(np.zeros((2, 2), np.int64), (4, -3))


@pytest.mark.parametrize("top", [1, 50, 1 << 62])
def test_ascending(top: int) -> None:
    numbers = np.random.default_rng(1).integers(0, top, 1000)
    np.testing.assert_array_equal(ascending(numbers), np.argsort(numbers, kind="stable"))


@pytest.mark.parametrize("shape", [(30, 20), (3, 4, 5), (HUGE, HUGE)])
def test_elements_in_order(shape: tuple[int, ...]) -> None:
    indices = random_indices(shape, 400)
    for dtype in (np.float32, object):
        values = np.arange(400).astype(dtype)
        order = np.lexsort(indices.T[::-1])
        found = in_order(indices, values, shape)
        np.testing.assert_array_equal(found[0], indices[order])
        np.testing.assert_array_equal(found[1], values[order])
        again = in_order(*found, shape)
        np.testing.assert_array_equal(again[1], found[1])
        assert not any(np.shares_memory(*pair) for pair in zip(again, found, strict=True))


def test_values_among_others() -> None:
    others = np.array([[0, 1], [2, 0], [2, 1]])
    indices = np.array([[0, 1], [1, 0], [2, 1], [9, 9]])
    values, start = np.array([1.0, 2.0, 3.0]), np.array([0, 0])
    assert values_among(indices, others, start, values).tolist() == [1, 0, 3, 0]
    assert values_among(indices[::-1], others, start, values).tolist() == [0, 3, 0, 1]
    assert values_among(indices, others[::-1], start, values).tolist() == [3, 0, 1, 0]
    assert values_among(indices - 1, others, start - 1, values).tolist() == [1, 0, 3, 0]
    twice = np.array([[0, 1], [0, 1], [2, 0]])
    assert values_among(indices, twice, start, values).tolist() == [2, 0, 0, 0]
    assert values_among(indices[:0], others, start, values).tolist() == []
    assert values_among(indices, others[:0], start, values[:0]).tolist() == [0, 0, 0, 0]
