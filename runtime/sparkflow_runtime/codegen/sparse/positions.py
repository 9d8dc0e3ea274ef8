"""Machine code for row-major positions of coordinate vectors, with their order; and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.codegen.sparse.sparse_code import (
    MOST_DIMENSIONS,
    Array,
    bound,
    first_numbers,
    has_code,
    put_vector,
    vector,
)

_MOST: Final = 1 << 63


class Positions(NamedTuple):
    """The positions of coordinate vectors.

    Attributes:
        numbers: [n] int64.
        rises: Whether each is greater than the one before it.
        falls: Whether one is less than the one before it.
    """

    numbers: Array
    rises: bool
    falls: bool


def positions(
    indices: Array, shape: Sequence[int], kept: Sequence[int] | None = None
) -> Positions | None:
    """Returns the row-major position of each coordinate vector.

    Args:
        indices: [n, rank] int64.
        shape: The sizes of the dimensions; products above int64 wrap around.
        kept: The dimensions, in order, among which the position is; None for all.

    Returns:
        None if one is outside of the shape, or without machine code.
    """
    rank = len(shape)
    if not has_code(indices) or indices.shape[1] != rank or min(shape) < 0:
        return None
    count, factor = len(indices), 1
    factors = [0] * rank
    for dimension in reversed(range(rank) if kept is None else kept):
        factors[dimension] = factor
        factor = signed(factor * shape[dimension])
    found, state = np.empty(count, np.int64), np.empty(3, np.int64)
    run = bound(positions_text, (rank,), 4, count)
    given = np.array([count, *shape, *factors])
    if not run(given, np.ascontiguousarray(indices), found, state):
        return None
    outside, flat, falls = state.tolist()
    return None if outside else Positions(found, not flat, bool(falls))


def positions_text(dimensions: int) -> str:
    """Returns the module.

    Arrays: n, the sizes, and the factors of the coordinates; coordinate vectors, positions, and the
    state, which becomes non-zero: if a vector is outside; if a position is not greater than the
    last one; if it is less.
    """
    code = Code()
    sizes, indices, target, state = code.arrays(4)
    count, *given = first_numbers(code, sizes, 1 + 2 * dimensions)
    shape, factors = given[:dimensions], given[dimensions:]
    last, *flags = (code.variable("i64", value) for value in (-_MOST, 0, 0, 0))
    with code.loop(0, count) as row:
        outside, flat, falls = (code.get(flag) for flag in flags)
        place = "0"
        here = vector(code, indices, row, dimensions)
        for index, size, factor in zip(here, shape, factors, strict=True):
            place = code.let(f"add i64 {place}, {code.let(f'mul i64 {index}, {factor}')}")
            outside = _noted(code, outside, code.compare("uge", index, size))
        code.store("i64", place, code.at("i64", target, row))
        before = code.get(last)
        flat = _noted(code, flat, code.compare("sle", place, before))
        falls = _noted(code, falls, code.compare("slt", place, before))
        code.set(last, place)
        for flag, value in zip(flags, (outside, flat, falls), strict=True):
            code.set(flag, value)
    for number, flag in enumerate(flags):
        code.store("i64", code.get(flag), code.at("i64", state, number))
    return code.module()


def _noted(code: Code, flag: str, condition: str) -> str:
    return code.let(f"or i64 {flag}, {code.let(f'zext i1 {condition} to i64')}")


def coordinates(numbers: Array, shape: Sequence[int]) -> Array | None:
    """Returns the coordinate vectors of positions, the inverse of `positions`.

    Args:
        numbers: [n] int64, not negative.
        shape: The sizes of the dimensions, positive.

    Returns:
        [n, rank] int64; None without machine code.
    """
    rank = len(shape)
    if not 0 < rank <= MOST_DIMENSIONS or min(shape) < 1 or not native.available():
        return None
    count = len(numbers)
    found = np.empty((count, rank), np.int64)
    given = np.array([count, *(part for size in shape for part in (size, *_divisor(size)))])
    run = bound(coordinates_text, (rank,), 3, count)
    return found if run(given, np.ascontiguousarray(numbers), found) else None


def _divisor(size: int) -> tuple[int, int]:
    """A factor and a shift that divide numbers below 2⁶³: n · factor >> 63 >> shift.

    Source: Granlund, Montgomery, Division by Invariant Integers using Multiplication, 1994.
    """
    shift = (size - 1).bit_length()
    factor = -(-(_MOST << shift) // size)
    return signed(factor), shift


def signed(number: int) -> int:
    """The int64 with the lowest 64 bits of a number."""
    return (number + _MOST) % (2 * _MOST) - _MOST


def coordinates_text(dimensions: int) -> str:
    """Returns the module.

    Arrays: n and, for every dimension, the size and its `_divisor`; positions; coordinate vectors.
    """
    code = Code()
    sizes, numbers, target = code.arrays(3)
    count, *rest = first_numbers(code, sizes, 1 + 3 * dimensions)
    divisors = [
        (rest[3 * n], code.let(f"zext i64 {rest[3 * n + 1]} to i128"), rest[3 * n + 2])
        for n in range(dimensions)
    ]
    with code.loop(0, count) as row:
        number = code.load_index("i64", numbers, row)
        places: list[Value] = []
        for size, factor, shift in reversed(divisors):
            wide = code.let(f"zext i64 {number} to i128")
            product = code.let(f"mul i128 {wide}, {factor}")
            high = code.let(f"trunc i128 {code.let(f'lshr i128 {product}, 63')} to i64")
            whole = code.let(f"lshr i64 {high}, {shift}")
            places.append(code.subtract(number, code.multiply(whole, size)))
            number = whole
        put_vector(code, target, row, places[::-1])
    return code.module()
