"""Machine code that sorts rows digit by digit, from the last to the first (LSD radix sort).

A number becomes a key: an unsigned integer whose order is that of the result. Keys of 32 bits are
moved together with their position in 64 bits, longer ones in 128.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native, scratch, threads
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
DIGIT_BITS: Final = 8
"""With 11 bits, 64 rows of 4,096 int32 take as long, one of 4,000,000 1.4 times, 512 of 512 twice
(2026-11-29, Zen 4)."""
_KINDS: Final = {"f": "float", "d": "double", "i": "i32", "l": "i64"}
_KEY_BITS: Final = {"float": 32, "double": 64, "i32": 32, "i64": 64}
_LEAST: Final = {32: 1 << 9, 64: 1 << 8}
"""The least row length by bits of keys; numpy sorts shorter rows as fast."""
_MOST: Final = (1 << 31) - 1
_KEPT_BYTES: Final = 1 << 24
"""Larger scratch memory is not kept."""
_SHARED_ELEMENTS: Final = 1 << 15
"""Fewer elements are sorted by a single thread."""
_LONG_ELEMENTS: Final = 4096
"""Larger inputs are processed without holding the GIL."""


def descending(values: Array, count: int) -> tuple[Array, Array] | None:
    """Returns the first elements of each row in descending order, and their positions (int32).

    Of equal elements the first is first; NaN is larger than all numbers.

    Args:
        values: [..., row], contiguous.
        count: How many of each row.

    Returns:
        [..., count] of both; None without machine code, or if rows are too short for it.
    """
    if not 1 <= count <= values.shape[-1]:
        return None
    shape = (*values.shape[:-1], count)
    found, places = np.empty(shape, values.dtype), np.empty(shape, np.int32)
    return (found, places) if _sort(values, found, places, True) else None


def ascending_order(numbers: Array) -> Array | None:
    """Returns the indices that sort a vector; of equal numbers the first is first, NaN is last.

    Returns:
        [n] int32; None without machine code, or if the vector is too short for it.
    """
    if numbers.dtype == np.int64 and numbers.size >= _LEAST[32]:
        limits = np.iinfo(np.int32)
        if limits.min <= numbers.min() and numbers.max() <= limits.max:
            numbers = numbers.astype(np.int32)
    places = np.empty(numbers.size, np.int32)
    return places if _sort(np.ascontiguousarray(numbers), None, places, False) else None


def _sort(values: Array, found: Array | None, places: Array, is_descending: bool) -> bool:
    """Writes the first elements of each row, if they are wanted, and their positions."""
    kind = _KINDS.get(values.dtype.char)
    if kind is None or not values.dtype.isnative or not native.available():
        return False
    size, rows, count = values.shape[-1], prod(values.shape[:-1]), places.shape[-1]
    bits = _KEY_BITS[kind]
    if not _LEAST[bits] <= size <= _MOST or not rows:
        return False
    parts = min(threads.count(), rows) if values.size >= _SHARED_ELEMENTS else 1
    words = 2 * size * bits // 32 + (bits // DIGIT_BITS << DIGIT_BITS)
    memory = _memory(8 * words * parts)
    way = (kind, is_descending, found is not None)
    run = _bound(way, (rows, size, count), parts, words)
    return run(values, places, memory, *[] if found is None else [found])


def _memory(size_bytes: int) -> Array:
    if size_bytes > _KEPT_BYTES:
        return np.empty(size_bytes, np.uint8)
    return scratch.take(size_bytes, "radix")


@latest(256)
def _bound(
    way: tuple[str, bool, bool], shape: tuple[int, int, int], parts: int, words: int
) -> Callable[..., bool]:
    rows, size, count = shape
    counts = [rows * size, rows * count, NOT_COUNTED]
    if way[-1]:
        counts.append(rows * count)
    is_long = rows * size >= _LONG_ELEMENTS
    return _body(*way).bind((size, count, words), counts, rows, parts, is_long)


@once
def _body(kind: str, is_descending: bool, has_values: bool) -> native.Body:
    return native.written_body(text, (kind, is_descending, has_values))


def text(kind: str, is_descending: bool, has_values: bool) -> str:
    """Returns the module; its loop is over rows.

    Sizes: elements per row, results per row, and int64 of scratch memory per part. Arrays: the
    rows; the positions of their elements in order; scratch memory: two arrays of keys with
    positions, and the counters of all digits; and the elements in order.

    Args:
        kind: LLVM's type of an element.
        is_descending: Whether the largest is first.
        has_values: Whether there is the last array.
    """
    return _Writer(kind, is_descending).text(has_values)


class _Writer:
    def __init__(self, kind: str, is_descending: bool) -> None:
        self._code = Code()
        self._kind = kind
        self._is_descending = is_descending
        self._bits = _KEY_BITS[kind]
        self._key = f"i{self._bits}"
        self._words = self._bits // 32  # of a key with its position
        self._size, self._count, self._memory_words = self._code.sizes(3)

    def text(self, has_values: bool) -> str:
        code, kind = self._code, self._kind
        values, places, memory, *found = code.arrays(3 + has_values)
        memory = code.at("i64", memory, code.multiply("%part", self._memory_words))
        half = code.multiply(self._size, self._words)
        first, second = memory, code.at("i64", memory, half)
        counters = code.at("i64", memory, code.multiply(half, 2))
        digits = self._bits // DIGIT_BITS
        with code.loop("%lo", "%hi") as row:
            line = code.at(kind, values, code.multiply(row, self._size))
            source, target = code.variable("ptr", first), code.variable("ptr", second)
            code.set(source, first, "ptr")
            code.set(target, second, "ptr")
            code.clear(counters, digits * 8 << DIGIT_BITS)
            self._count_digits(line, first, counters, digits)
            for digit in range(digits):
                table = code.at("i64", counters, digit << DIGIT_BITS)
                self._pass(digit, table, source, target)
            start = code.multiply(row, self._count)
            with code.loop(0, self._count) as column:
                place = self._get(code.get(source, "ptr"), column)[1]
                to = code.add(start, column)
                narrow = code.let(f"trunc i64 {place} to i32")
                code.store("i32", narrow, code.at("i32", places, to), 4)
                for array in found:
                    value = self._load(line, place)
                    code.store(kind, value, code.at(kind, array, to), self._bits // 8)
        return code.module()

    def _count_digits(self, line: str, keys: str, counters: str, digits: int) -> None:
        """Makes the keys, and counts the numbers of all their digits."""
        code = self._code
        with code.loop(0, self._size) as column:
            key = self._key_of(self._load(line, column))
            self._put(keys, column, key, column)
            for digit in range(digits):
                number = self._digit(key, digit * DIGIT_BITS)
                counter = code.at("i64", counters, code.add(number, digit << DIGIT_BITS))
                code.store("i64", code.add(code.load("i64", counter), 1), counter)

    def _pass(self, digit: int, table: str, source: str, target: str) -> None:
        """Orders the keys by one digit, unless all have the same."""
        code = self._code
        shift = digit * DIGIT_BITS
        keys = code.get(source, "ptr")
        of_first = code.load_index("i64", table, self._digit(self._get(keys, 0)[0], shift))
        with code.when(code.compare("ne", of_first, self._size)):
            total = code.variable("i64", 0)
            code.set(total, 0)
            with code.loop(0, 1 << DIGIT_BITS) as number:
                counter = code.at("i64", table, number)
                here = code.get(total)
                code.set(total, code.add(here, code.load("i64", counter)))
                code.store("i64", here, counter)
            result = code.get(target, "ptr")
            with code.loop(0, self._size) as column:
                key, place = self._get(keys, column)
                counter = code.at("i64", table, self._digit(key, shift))
                to = code.load("i64", counter)
                code.store("i64", code.add(to, 1), counter)
                self._put(result, to, key, place)
            code.set(source, result, "ptr")
            code.set(target, keys, "ptr")

    def _load(self, line: str, column: Value) -> str:
        return self._code.load(self._kind, self._code.at(self._kind, line, column), self._bits // 8)

    def _key_of(self, value: str) -> str:
        """The key of an element, as an int64."""
        code, key, bits = self._code, self._key, self._bits
        most = (1 << (bits - 1)) - 1
        if self._kind in ("float", "double"):
            number = code.let(f"bitcast {self._kind} {value} to {key}")
            is_zero = code.let(f"icmp eq {key} {number}, {-most - 1}")  # -0 becomes 0
            number = code.let(f"select i1 {is_zero}, {key} 0, {key} {number}")
            # The other bits of negative numbers count backwards.
            sign = code.let(f"ashr {key} {number}, {bits - 1}")
            backwards = code.let(f"and {key} {sign}, {most}")
            number = code.let(f"xor {key} {number}, {backwards}")
            is_missing = code.let(f"fcmp uno {self._kind} {value}, {value}")
            number = code.let(f"select i1 {is_missing}, {key} {most}, {key} {number}")
        else:
            number = value
        number = code.let(f"xor {key} {number}, {most if self._is_descending else -most - 1}")
        return number if bits == 64 else code.let(f"zext {key} {number} to i64")

    def _digit(self, key: str, shift: int) -> str:
        shifted = self._code.let(f"lshr i64 {key}, {shift}")
        return self._code.let(f"and i64 {shifted}, {(1 << DIGIT_BITS) - 1}")

    def _put(self, keys: str, column: Value, key: str, place: Value) -> None:
        code = self._code
        if self._words == 2:
            at = code.at("i64", keys, code.multiply(column, 2))
            code.store("i64", key, at)
            code.store("i64", place, code.at("i64", at, 1))
            return
        high = code.let(f"shl i64 {place}, 32")
        key = code.let(f"and i64 {key}, {(1 << 32) - 1}")
        code.store("i64", code.let(f"or i64 {high}, {key}"), code.at("i64", keys, column))

    def _get(self, keys: str, column: Value) -> tuple[str, str]:
        """A key, of which only the digits count, and its position."""
        code = self._code
        if self._words == 2:
            at = code.at("i64", keys, code.multiply(column, 2))
            return code.load("i64", at), code.load("i64", code.at("i64", at, 1))
        both = code.load_index("i64", keys, column)
        return both, code.let(f"lshr i64 {both}, 32")
