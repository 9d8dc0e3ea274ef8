"""Splitting strings at bytes in machine code: first their parts are counted, then created."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine.llvm_text import Code
from sparkflow_runtime.codegen.strings.objects import Array, Elements, byte_at, for_each

Split = Callable[[bytes], Sequence[bytes]]
_FEW: Final = 4
"""So many strings are split sooner by Python."""


def split(
    strings: Array, separators: bytes, *, skips_empty: bool, by_python: Split
) -> tuple[Array, Array, Array]:
    """Splits strings at each of several bytes.

    Args:
        strings: [n] objects, bytes, contiguous.
        separators: The bytes.
        skips_empty: Whether empty parts are left out. If not, a string has a part more than
            separators, and an empty string is as `by_python` has it: no part, or an empty one.
        by_python: Splits one string.

    Returns:
        The counts of parts, [n] int64; the parts of all strings, objects; and for each its number
        in its string, int64.
    """
    if strings.size <= _FEW:
        return split_by_python(strings, by_python)
    is_separator = np.zeros(256, np.uint8)
    is_separator[np.frombuffer(separators, np.uint8)] = 1
    counts = np.empty(strings.size, np.int64)
    empty = len(by_python(b""))

    def count(number: int) -> None:
        counts[number] = len(by_python(strings[number]))

    arguments = (skips_empty,)
    for_each(counts_text, arguments, (strings, is_separator, counts), count, (empty,))
    starts = np.cumsum(counts) - counts
    parts = np.empty(int(counts.sum()), np.object_)
    places = np.empty(parts.size, np.int64)

    def create(number: int) -> None:
        start, found = starts[number], by_python(strings[number])
        parts[start : start + len(found)] = found
        places[start : start + len(found)] = np.arange(len(found))

    given = (strings, is_separator, counts, starts, parts, places)
    for_each(parts_text, arguments, given, create)
    return counts, parts, places


def split_by_python(strings: Array, split: Split) -> tuple[Array, Array, Array]:
    """Splits strings by Python; the results are those of the function `split`.

    Args:
        strings: [n] objects, bytes.
        split: Splits one string.
    """
    rows = [split(each) for each in strings.tolist()]
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    found = list(itertools.chain.from_iterable(rows))
    parts = np.empty(len(found), np.object_)
    parts[:] = found
    places = np.arange(len(found))
    if len(rows) > 1:
        places -= np.repeat(np.cumsum(counts) - counts, counts)
    return counts, parts, places


def counts_text(skips_empty: bool) -> str:
    """Returns the kernel: of strings, a truth value for each byte, and the counts.

    Args:
        skips_empty: See `split`.
    """
    elements = Elements(3, 1)
    code = elements.code
    strings, is_separator, counts = elements.arrays
    (empty,) = elements.parameters
    count, before = code.variable("i64"), code.variable("i64")
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        code.set(count, 0 if skips_empty else 1)
        code.set(before, 1)
        with code.loop(0, length) as at:
            separates = _separates(code, is_separator, address, at)
            if skips_empty:  # a part begins at a byte after a separator
                other = code.let(f"xor i64 {separates}, 1")
                more = code.let(f"and i64 {other}, {code.get(before)}")
                code.set(before, separates)
            else:
                more = separates
            code.set(count, code.add(code.get(count), more))
        found = code.get(count)
        if not skips_empty:
            found = code.select(code.compare("eq", length, 0), empty, found)
        code.store("i64", found, code.at("i64", counts, number))
    return elements.module()


def parts_text(skips_empty: bool) -> str:
    """Returns the kernel.

    Arrays: strings, a truth value for each byte, counts, where the parts of each string begin; the
    parts and their numbers.

    Args:
        skips_empty: See `split`.
    """
    elements = Elements(6)
    code = elements.code
    strings, is_separator, counts, starts, parts, places = elements.arrays
    start, number_of_part = code.variable("i64"), code.variable("i64")
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        first = code.load("i64", code.at("i64", starts, number))
        count = code.load("i64", code.at("i64", counts, number))
        code.set(start, 0)
        code.set(number_of_part, 0)
        with code.loop(0, code.add(length, 1)) as at:
            is_end = code.variable("i1")
            code.set(is_end, code.compare("eq", at, length), "i1")
            with code.unless(code.get(is_end, "i1")):
                separates = _separates(code, is_separator, address, at)
                code.set(is_end, code.compare("ne", separates, 0), "i1")
            with code.when(code.get(is_end, "i1")):
                begin, part = code.get(start), code.get(number_of_part)
                size = code.subtract(at, begin)
                is_wanted = code.compare("slt", part, count)  # an empty string may have no part
                if skips_empty:
                    is_wanted = code.both(is_wanted, code.compare("sgt", size, 0))
                with code.when(is_wanted):
                    place = code.add(first, part)
                    data = code.at("i8", address, begin)
                    elements.create(data, size, parts, place, leave_unless)
                    code.store("i64", part, code.at("i64", places, place))
                    code.set(number_of_part, code.add(part, 1))
                code.set(start, code.add(at, 1))
    return elements.module()


def _separates(code: Code, is_separator: str, address: str, at: str) -> str:
    return byte_at(code, is_separator, byte_at(code, address, at))
