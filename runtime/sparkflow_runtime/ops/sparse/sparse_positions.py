"""Row-major positions of the elements of sparse tensors, their order, and how they are found."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sparkflow_runtime.codegen.rows import radix
from sparkflow_runtime.codegen.sparse import positions, searching
from sparkflow_runtime.codegen.sparse.positions import Positions
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.static import bracketed


def checked_positions(
    indices: Array, shape: Sequence[int], kept: Sequence[int] | None = None
) -> Positions:
    """Returns the row-major position of every coordinate vector.

    Args:
        indices: [n, rank] int64.
        shape: The sizes of the dimensions; if there are more elements than an int64 counts,
            positions wrap around.
        kept: The dimensions among which the positions are; None for all.

    Raises:
        InvalidArgumentError: One is outside, or their rank is not that of the shape.
    """
    if indices.ndim != 2 or indices.shape[1] != len(shape):
        raise InvalidArgumentError(
            message=f"indices must be a matrix with {len(shape)} columns for dense_shape "
            f"{bracketed(shape)}, got shape {bracketed(indices.shape)}"
        )
    quick = positions.positions(indices, shape, kept)
    if quick is not None:
        return quick
    bounds = np.asarray(shape, np.int64)
    outside = ((indices < 0) | (indices >= bounds)).any(axis=1)
    if outside.any():
        at = int(outside.argmax())
        raise InvalidArgumentError(
            message=f"indices[{at}] = {bracketed(indices[at].tolist())} is out of bounds: need 0 "
            f"<= index < {bracketed(shape)}"
        )
    numbers = np.zeros(len(indices), np.int64)
    for axis in range(len(shape)) if kept is None else kept:
        numbers = numbers * shape[axis] + indices[:, axis]
    rises = bool((numbers[1:] > numbers[:-1]).all())
    return Positions(numbers, rises, bool((numbers[1:] < numbers[:-1]).any()))


def flat_positions(indices: Array, shape: Sequence[int]) -> Array:
    """Returns the numbers of `checked_positions`; raises what it raises."""
    return checked_positions(indices, shape).numbers


def coordinates(numbers: Array, shape: Sequence[int]) -> Array:
    """Returns the coordinate vectors of row-major positions, the inverse of `flat_positions`."""
    quick = positions.coordinates(numbers, shape)
    if quick is not None:
        return quick
    result = np.empty((len(numbers), len(shape)), np.int64)
    for axis in reversed(range(len(shape))):
        result[:, axis] = numbers % shape[axis]
        numbers = numbers // shape[axis]
    return result


def ascending(numbers: Array) -> Array:
    """Returns the indices that sort positions; of equal ones the first is first."""
    quick = radix.ascending_order(numbers)
    return np.argsort(numbers, kind="stable") if quick is None else quick


def are_new(ordered: Array) -> Array:
    """Whether each number differs from the one before it."""
    found = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=found[1:])
    return found


def in_order(indices: Array, values: Array, shape: Sequence[int]) -> tuple[Array, Array]:
    """Returns copies of the elements, ordered by their positions.

    Raises:
        InvalidArgumentError: A coordinate vector is outside of the shape.
    """
    found = checked_positions(indices, shape)
    if math.prod(shape) > np.iinfo(np.int64).max:
        order = np.lexsort(indices.T[::-1])
    elif found.falls:
        order = ascending(found.numbers)
    else:
        return indices.copy(), values.copy()
    return indices.take(order, axis=0), values.take(order)


def values_among(indices: Array, others: Array, start: Array, values: Array) -> Array:
    """Returns for each coordinate vector the value of the last equal one among others; else 0.

    Args:
        indices: [n, rank] int64.
        others: [m, rank] int64.
        start: [rank] int64, which is added to the others.
        values: [m].

    Returns:
        [n].
    """
    places = searching.found_among(indices, others, start)
    if places is None:
        moved = (others + start).tolist()
        known = {tuple(each): number for number, each in enumerate(moved)}
        found = [known.get(tuple(each), -1) for each in indices.tolist()]
        places = np.array(found, np.int64)
    with_zero = np.zeros(len(values) + 1, values.dtype)
    with_zero[:-1] = values
    return with_zero.take(places)
