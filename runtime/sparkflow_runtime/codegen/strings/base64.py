"""Base 64 in the alphabet for URLs, in machine code. Source: RFC 4648, section 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.codegen.strings.objects import Array, Elements, byte_at, mapped

_ALPHABET: Final = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
_NO_DIGIT: Final = 64
_DIGITS: Final = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[_ALPHABET] = np.arange(64)
_PAD: Final = ord("=")


def encoded(strings: Array, is_padded: bool, by_python: Callable[[bytes], bytes]) -> Array:
    """Returns [n], strings in base 64.

    Args:
        strings: [n] objects, bytes, contiguous.
        is_padded: Whether `=` fills the last four characters.
        by_python: Encodes one string.
    """
    return mapped(encoded_text, (is_padded,), strings, by_python, _ALPHABET)


def decoded(strings: Array, by_python: Callable[[bytes], bytes]) -> Array:
    """Returns [n], the strings that others in base 64 stand for.

    Args:
        strings: [n] objects, bytes, contiguous; `=` at the end may be missing.
        by_python: Decodes one string, or raises.
    """
    return mapped(decoded_text, (), strings, by_python, _DIGITS)


def encoded_text(is_padded: bool) -> str:
    """Returns the kernel: of strings, the alphabet, and results.

    Args:
        is_padded: See `encoded`.
    """
    elements = Elements(3)
    code = elements.code
    strings, alphabet, found = elements.arrays
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        groups = code.let(f"udiv i64 {length}, 3")
        whole = code.multiply(groups, 3)
        rest = code.subtract(length, whole)
        has_rest = code.compare("ne", rest, 0)
        last = 4 if is_padded else code.add(rest, 1)
        size = code.add(code.multiply(groups, 4), code.select(has_rest, last, 0))
        target = elements.create("null", size, found, number, leave_unless)
        with code.loop(0, groups) as group:
            source = code.at("i8", address, code.multiply(group, 3))
            bits = _joined(code, [byte_at(code, source, n) for n in range(3)], 8)
            _write(code, alphabet, code.at("i32", target, group), bits, 4)
        source, end = code.at("i8", address, whole), code.at("i32", target, groups)
        for count in (1, 2):
            with code.when(code.compare("eq", rest, count)):
                given = [byte_at(code, source, n) for n in range(count)]
                bits = _joined(code, [*given, *["0"] * (3 - count)], 8)
                _write(code, alphabet, end, bits, count + 1)
                for place in range(count + 1, 4 if is_padded else 0):
                    code.store("i8", _PAD, code.at("i8", end, place), 1)
    return elements.module()


def decoded_text() -> str:
    """Returns the kernel: of strings, the digit of each byte, and results."""
    elements = Elements(3)
    code = elements.code
    strings, digits, found = elements.arrays
    last, wrong = code.variable("i64"), code.variable("i64")
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        code.set(last, length)
        for _ in range(2):
            end = code.get(last)
            with code.when(code.compare("sgt", end, 0)):
                at = code.subtract(end, 1)
                is_pad = code.compare("eq", byte_at(code, address, at), _PAD)
                code.set(last, code.select(is_pad, at, end))
        end = code.get(last)
        groups = code.let(f"lshr i64 {end}, 2")
        rest = code.let(f"and i64 {end}, 3")
        leave_unless(code.compare("ne", rest, 1))
        more = code.select(code.compare("eq", rest, 0), 0, code.subtract(rest, 1))
        size = code.add(code.multiply(groups, 3), more)
        target = elements.create("null", size, found, number, leave_unless)
        code.set(wrong, 0)

        def digits_at(place: Value, count: int) -> list[str]:
            values = []
            for n in range(count):
                byte = byte_at(code, address, code.add(place, n))
                values.append(byte_at(code, digits, byte))
                code.set(wrong, code.let(f"or i64 {code.get(wrong)}, {values[-1]}"))
            return values

        with code.loop(0, groups) as group:
            bits = _joined(code, digits_at(code.multiply(group, 4), 4), 6)
            _write_bytes(code, code.at("i8", target, code.multiply(group, 3)), bits, 3)
        start, place = code.at("i8", target, code.multiply(groups, 3)), code.multiply(groups, 4)
        for count in (2, 3):
            with code.when(code.compare("eq", rest, count)):
                bits = _joined(code, [*digits_at(place, count), *["0"] * (4 - count)], 6)
                _write_bytes(code, start, bits, count - 1)
        leave_unless(code.compare("ult", code.get(wrong), _NO_DIGIT))
    return elements.module()


def _joined(code: Code, values: list[str], bits: int) -> str:
    """The bits of numbers, those of the first one highest."""
    result = values[0]
    for value in values[1:]:
        result = code.let(f"or i64 {code.let(f'shl i64 {result}, {bits}')}, {value}")
    return result


def _write(code: Code, alphabet: str, target: str, bits: str, count: int) -> None:
    """Writes the characters of the first of four groups of 6 bits."""
    for n in range(count):
        digit = code.let(f"and i64 {code.let(f'lshr i64 {bits}, {18 - 6 * n}')}, 63")
        byte = code.load("i8", code.at("i8", alphabet, digit), 1)
        code.store("i8", byte, code.at("i8", target, n), 1)


def _write_bytes(code: Code, target: str, bits: str, count: int) -> None:
    """Writes the first of three bytes."""
    for n in range(count):
        byte = code.let(f"trunc i64 {code.let(f'lshr i64 {bits}, {16 - 8 * n}')} to i8")
        code.store("i8", byte, code.at("i8", target, n), 1)
