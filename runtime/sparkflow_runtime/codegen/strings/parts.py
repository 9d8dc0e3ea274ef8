"""Lengths, parts, and comparisons of strings in machine code."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.codegen.machine.llvm_text import Code
from sparkflow_runtime.codegen.strings.objects import (
    SPACES,
    Array,
    Elements,
    byte_at,
    for_each,
    is_space,
    mapped,
)


def lengths(strings: Array, *, in_characters: bool) -> Array:
    """Returns [n] int32, the lengths in bytes or in UTF-8 characters.

    Args:
        strings: [n] objects, bytes, contiguous.
        in_characters: Whether characters are counted: bytes that do not continue one.
    """

    def length(data: bytes) -> int:
        return len(char_starts(data)) if in_characters else len(data)

    return mapped(lengths_text, (in_characters,), strings, length, dtype=np.int32)


def char_starts(data: bytes) -> list[int]:
    """Returns where UTF-8 characters begin; every byte that does not continue one begins one."""
    return [index for index, byte in enumerate(data) if byte & 0xC0 != 0x80]


def lengths_text(in_characters: bool) -> str:
    """Returns the kernel: of strings and lengths, int32."""
    elements = Elements(2)
    code = elements.code
    strings, found = elements.arrays
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        if in_characters:
            count = code.variable("i64", 0)
            with code.loop(0, length) as at:
                byte = code.load("i8", code.at("i8", address, at), 1)
                # As signed numbers, the bytes that continue a character are the smallest.
                begins = code.let(f"icmp sge i8 {byte}, -64")
                more = code.let(f"zext i1 {begins} to i64")
                code.set(count, code.add(code.get(count), more))
            length = code.get(count)
        narrow = code.let(f"trunc i64 {length} to i32")
        code.store("i32", narrow, code.at("i32", found, number), 4)
    return elements.module()


def equal(a: Array, b: Array) -> Array:
    """Returns [n] bool, whether strings are equal.

    Args:
        a: [n] objects, bytes, contiguous.
        b: [n], likewise.
    """
    found = np.empty(a.size, np.bool_)

    def by_python(number: int) -> None:
        found[number] = a[number] == b[number]

    for_each(equal_text, (), (a, b, found), by_python)
    return found


def equal_text() -> str:
    """Returns the kernel: of two arrays of strings, and bool."""
    elements = Elements(3)
    code = elements.code
    first, second, found = elements.arrays
    is_equal = code.variable("i1")
    with elements.each() as (number, leave_unless):
        a, length = elements.read(first, number, leave_unless)
        b, other_length = elements.read(second, number, leave_unless)
        code.set(is_equal, code.compare("eq", length, other_length), "i1")
        with code.when(code.get(is_equal, "i1")):
            code.set(is_equal, are_same(code, a, b, length), "i1")
        truth = code.let(f"zext i1 {code.get(is_equal, 'i1')} to i8")
        code.store("i8", truth, code.at("i8", found, number), 1)
    return elements.module()


def are_same(code: Code, a: str, b: str, length: str) -> str:
    """Whether memory is equal: words of 8 bytes, then the last bytes one by one."""
    differences = code.variable("i64", 0)
    whole = code.let(f"and i64 {length}, -8")
    for kind, size, start, stop in (("i64", 8, 0, whole), ("i8", 1, whole, length)):
        with code.loop(start, stop, size) as at:
            x, y = (code.load(kind, code.at("i8", each, at), 1) for each in (a, b))
            found = code.let(f"xor {kind} {x}, {y}")
            if kind == "i8":
                found = code.let(f"zext i8 {found} to i64")
            code.set(differences, code.let(f"or i64 {code.get(differences)}, {found}"))
    return code.compare("eq", code.get(differences), 0)


def substrings(strings: Array, starts: Array, counts: Array, by_python: Any, found: Array) -> None:
    """Writes the bytes of each string from a start on.

    Args:
        strings: [n] objects, bytes, contiguous.
        starts: [n] int64; negative ones count from the end.
        counts: [n] int64: at most so many bytes; all, if negative.
        by_python: Does it for one element, given its number, or raises.
        found: [n] objects to write to.
    """
    for_each(substrings_text, (), (strings, starts, counts, found), by_python)


def substrings_text() -> str:
    """Returns the kernel: of strings, starts, counts, and results."""
    elements = Elements(4)
    code = elements.code
    strings, starts, counts, found = elements.arrays
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        start = code.load("i64", code.at("i64", starts, number))
        count = code.load("i64", code.at("i64", counts, number))
        from_end = code.let(f"add i64 {start}, {length}")
        first = code.select(code.compare("slt", start, 0), from_end, start)
        leave_unless(code.compare("ule", first, length))
        rest = code.subtract(length, first)
        size = code.call("i64", "llvm.umin.i64", ("i64", count), ("i64", rest))
        elements.create(code.at("i8", address, first), size, found, number, leave_unless)
    return elements.module()


def stripped(strings: Array) -> Array:
    """Returns [n], the strings without ASCII's white space at both ends.

    Args:
        strings: [n] objects, bytes, contiguous.
    """
    return mapped(stripped_text, (), strings, lambda data: data.strip(SPACES))


def stripped_text() -> str:
    """Returns the kernel: of strings and results."""
    elements = Elements(2)
    code = elements.code
    strings, found = elements.arrays
    first, last = code.variable("i64"), code.variable("i64")
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        code.set(first, 0)
        code.set(last, length)
        with code.turns() as go_on_if:
            at = code.get(first)
            go_on_if(code.compare("slt", at, length))
            go_on_if(is_space(code, byte_at(code, address, at)))
            code.set(first, code.add(at, 1))
        with code.turns() as go_on_if:
            at = code.let(f"sub i64 {code.get(last)}, 1")
            go_on_if(code.compare("sge", at, code.get(first)))
            go_on_if(is_space(code, byte_at(code, address, at)))
            code.set(last, at)
        start = code.get(first)
        size = code.subtract(code.get(last), start)
        elements.create(code.at("i8", address, start), size, found, number, leave_unless)
    return elements.module()


def in_ascii_case(strings: Array, *, is_upper: bool) -> Array:
    """Returns [n], the strings with ASCII's letters in one case.

    Args:
        strings: [n] objects, bytes, contiguous.
        is_upper: Whether it is the upper case.
    """

    def change(data: bytes) -> bytes:
        return data.upper() if is_upper else data.lower()

    return mapped(case_text, (is_upper,), strings, change)


def case_text(is_upper: bool) -> str:
    """Returns the kernel: of strings and results."""
    elements = Elements(2)
    code = elements.code
    strings, found = elements.arrays
    first = ord("a" if is_upper else "A")
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        target = elements.create("null", length, found, number, leave_unless)
        with code.loop(0, length) as at:
            byte = code.load("i8", code.at("i8", address, at), 1)
            is_other = code.let(f"icmp ult i8 {code.let(f'sub i8 {byte}, {first}')}, 26")
            changed = code.let(f"xor i8 {byte}, 32")
            chosen = code.let(f"select i1 {is_other}, i8 {changed}, i8 {byte}")
            code.store("i8", chosen, code.at("i8", target, at), 1)
    return elements.module()


def joined_rows(strings: Array, size: int) -> tuple[Array, int]:
    """Returns the bytes of strings of one length, [n, size] uint8, and how many have it.

    Only the rows before the first string of another length are written.

    Args:
        strings: [n] objects, bytes, contiguous.
        size: The length.
    """
    found = np.empty((strings.size, size), np.uint8)
    wrong: list[int] = []

    def by_python(number: int) -> None:
        if len(strings[number]) == size:
            found[number] = np.frombuffer(strings[number], np.uint8)
        elif not wrong:
            wrong.append(number)

    for_each(rows_text, (), (strings, found), by_python, (size,))
    return found, wrong[0] if wrong else strings.size


def rows_text() -> str:
    """Returns the kernel: of strings and their bytes, with their length."""
    elements = Elements(2, 1)
    code = elements.code
    strings, found = elements.arrays
    (size,) = elements.parameters
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        leave_unless(code.compare("eq", length, size))
        code.copy(code.at("i8", found, code.multiply(number, size)), address, size)
    return elements.module()
