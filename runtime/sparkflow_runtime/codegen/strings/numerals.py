"""Numbers as strings and strings as numbers, in machine code: plain decimal notation.

Python reads and writes what is not plain: infinities, hexadecimal and very large numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine.llvm_text import Code, constant
from sparkflow_runtime.codegen.strings.objects import (
    Array,
    Elements,
    Leave,
    byte_at,
    for_each,
    is_space,
)

_DIGITS: Final = 18
"""int64 holds all whole numbers of so many digits."""
_EXACT_INTEGER: Final = 1 << 53
_EXACT_POWER: Final = 22
"""float64 holds all powers of ten up to here."""
_MANTISSA_BITS: Final = 52
_ROOM: Final = 48
"""Bytes for the digits of a number."""
MOST_DECIMALS: Final = 9


def parse_floats(strings: Array, found: Array, by_python: Callable[[int], None]) -> None:
    """Writes the numbers that strings mean, rounded to float64 and then to the result's dtype.

    Args:
        strings: [n] objects, bytes, contiguous.
        found: [n] float32 or float64 to write to.
        by_python: Does it for one element, given its number, or raises.
    """
    kind = "float" if found.dtype == np.float32 else "double"
    for_each(floats_text, (kind,), (strings, POWERS, found), by_python)


def parse_integers(
    strings: Array, found: Array, limits: tuple[int, int], by_python: Callable[[int], None]
) -> None:
    """Writes the whole numbers that strings mean.

    Args:
        strings: [n] objects, bytes, contiguous.
        found: [n] of an integer dtype of 32 or 64 bits, to write to.
        limits: Its least and greatest number.
        by_python: Does it for one element, given its number, or raises.
    """
    bits = found.dtype.itemsize * 8
    low, high = max(limits[0], -(10**_DIGITS)), min(limits[1], 10**_DIGITS)
    for_each(integers_text, (bits,), (strings, found), by_python, (low, high))


POWERS: Final = np.array([10.0**n for n in range(_EXACT_POWER + 1)])
"""Powers of ten that float64 holds."""


def floats_text(kind: str) -> str:
    """Returns the kernel: of strings, powers of ten, and results.

    Args:
        kind: LLVM's type of the results.
    """
    elements = Elements(3)
    code = elements.code
    strings, powers, found = elements.arrays
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        value = parsed_float(elements, address, length, powers, leave_unless)
        if kind == "float":
            value = code.let(f"fptrunc double {value} to float")
        code.store(kind, value, code.at(kind, found, number), 4)
    return elements.module()


def parsed_float(
    elements: Elements, address: str, length: str, powers: str, leave_unless: Leave
) -> str:
    """Emits parsing a number; returns it as float64.

    Args:
        elements: The kernel being emitted.
        address: Address of the first byte; the byte behind the last one can be read, and does not
            continue a number.
        length: Number of bytes.
        powers: Address of `POWERS`.
        leave_unless: Leaves what is not plain to Python.
    """
    code = elements.code
    scale, exponent = code.variable("i64"), code.variable("i64")
    is_whole, result = code.variable("i1"), code.variable("double")
    text = _Text(code, address, length)
    start = text.here()
    is_negative = text.sign()
    code.set(scale, 0)
    text.digits(fresh=True)
    with code.when(text.is_at(ord("."))):
        text.advance()
        before = code.get(text.count)
        text.digits(fresh=False)
        code.set(scale, code.subtract(before, code.get(text.count)))
    mantissa, count = code.get(text.value), code.get(text.count)
    leave_unless(code.compare("sgt", count, 0))
    code.set(exponent, 0)
    code.set(is_whole, code.compare("sle", count, _DIGITS), "i1")
    has_exponent = code.either(text.is_at(ord("e")), text.is_at(ord("E")))
    with code.when(has_exponent):
        text.advance()
        is_below = text.sign()
        text.digits(fresh=True)
        value, count = code.get(text.value), code.get(text.count)
        leave_unless(code.compare("sgt", count, 0))
        is_short = code.compare("sle", count, _DIGITS)
        code.set(is_whole, code.both(is_short, code.get(is_whole, "i1")), "i1")
        code.set(exponent, code.select(is_below, code.let(f"sub i64 0, {value}"), value))
    leave_unless(text.is_end())
    power = code.add(code.get(exponent), code.get(scale))
    size = code.call("i64", "llvm.abs.i64", ("i64", power), ("i1", "false"))
    # A product or quotient of exact numbers is rounded once.
    is_exact = code.both(code.get(is_whole, "i1"), code.compare("ule", size, _EXACT_POWER))
    is_exact = code.both(is_exact, code.compare("sle", mantissa, _EXACT_INTEGER))
    with code.when(is_exact):
        whole = code.let(f"sitofp i64 {mantissa} to double")
        factor = code.load("double", code.at("double", powers, size))
        larger = code.let(f"fmul double {whole}, {factor}")
        smaller = code.let(f"fdiv double {whole}, {factor}")
        is_small = code.compare("slt", power, 0)
        value = code.let(f"select i1 {is_small}, double {smaller}, double {larger}")
        other = code.let(f"fneg double {value}")
        value = code.let(f"select i1 {is_negative}, double {other}, double {value}")
        code.set(result, value, "double")
    with code.unless(is_exact):
        code.set(result, elements.parse_float(start), "double")
    return code.get(result, "double")


def integers_text(bits: int) -> str:
    """Returns the kernel: of strings and results, with their limits.

    Args:
        bits: Of a result.
    """
    elements = Elements(2, 2)
    code = elements.code
    strings, found = elements.arrays
    low, high = elements.parameters
    with elements.each() as (number, leave_unless):
        address, length = elements.read(strings, number, leave_unless)
        value = parsed_integer(code, address, length, leave_unless)
        leave_unless(code.compare("sge", value, low))
        leave_unless(code.compare("sle", value, high))
        if bits < 64:
            value = code.let(f"trunc i64 {value} to i{bits}")
        code.store(f"i{bits}", value, code.at(f"i{bits}", found, number), bits // 8)
    return elements.module()


def parsed_integer(code: Code, address: str, length: str, leave_unless: Leave) -> str:
    """Emits parsing a whole number; returns it as int64. Arguments as for `parsed_float`."""
    text = _Text(code, address, length)
    is_negative = text.sign()
    text.digits(fresh=True)
    size, count = code.get(text.value), code.get(text.count)
    leave_unless(code.both(code.compare("sgt", count, 0), code.compare("sle", count, _DIGITS)))
    leave_unless(text.is_end())
    return code.select(is_negative, code.let(f"sub i64 0, {size}"), size)


class _Text:
    """Emits reading a string from left to right.

    Attributes:
        value: The variable of the digits read, as a whole number.
        count: The variable of their number.
    """

    def __init__(self, code: Code, address: str, length: str) -> None:
        self._code, self._address, self._length = code, address, length
        self._at, self.value, self.count = (code.variable("i64") for _ in range(3))
        code.set(self._at, 0)
        self._skip_spaces()

    def _skip_spaces(self) -> None:
        code = self._code
        with code.turns() as go_on_if:
            go_on_if(is_space(code, self._byte()))
            self.advance()

    def _byte(self) -> str:
        """The byte here, as int64; 0 at the end."""
        code = self._code
        at = code.get(self._at)
        inside = code.compare("slt", at, self._length)
        return code.select(inside, byte_at(code, self._address, at), 0)

    def here(self) -> str:
        """The address of the next byte."""
        return self._code.at("i8", self._address, self._code.get(self._at))

    def is_at(self, byte: int) -> str:
        return self._code.compare("eq", self._byte(), byte)

    def advance(self) -> None:
        self._code.set(self._at, self._code.add(self._code.get(self._at), 1))

    def sign(self) -> str:
        """Reads a sign, if there is one; returns whether it is a minus."""
        code = self._code
        is_negative = self.is_at(ord("-"))
        is_sign = code.either(is_negative, self.is_at(ord("+")))
        more = code.let(f"zext i1 {is_sign} to i64")
        code.set(self._at, code.add(code.get(self._at), more))
        return is_negative

    def digits(self, *, fresh: bool) -> None:
        """Reads digits; the value is undefined if there are more than fit."""
        code = self._code
        if fresh:
            code.set(self.value, 0)
            code.set(self.count, 0)
        with code.turns() as go_on_if:
            digit = code.let(f"sub i64 {self._byte()}, {ord('0')}")
            go_on_if(code.compare("ult", digit, 10))
            larger = code.let(f"mul i64 {code.get(self.value)}, 10")
            code.set(self.value, code.let(f"add i64 {larger}, {digit}"))
            code.set(self.count, code.add(code.get(self.count), 1))
            self.advance()

    def is_end(self) -> str:
        """Skips white space; returns whether nothing follows."""
        self._skip_spaces()
        return self._code.compare("eq", self._code.get(self._at), self._length)


def write_integers(numbers: Array, found: Array, by_python: Callable[[int], None]) -> None:
    """Writes whole numbers in decimal notation.

    Args:
        numbers: [n] int64 or uint64, contiguous.
        found: [n] objects to write to.
        by_python: Does it for one element, given its number.
    """
    is_signed = numbers.dtype == np.int64
    for_each(written_integers_text, (is_signed,), (numbers, found), by_python)


def write_fixed(
    numbers: Array, decimals: int, found: Array, by_python: Callable[[int], None]
) -> None:
    """Writes numbers with some decimals, exactly rounded, half to even: as C's `%f`.

    Args:
        numbers: [n] float64, contiguous.
        decimals: At most `MOST_DECIMALS`.
        found: [n] objects to write to.
        by_python: Does it for one element, given its number; for those of 10¹⁸ units or more.
    """
    for_each(fixed_text, (decimals,), (numbers, found), by_python)


def written_integers_text(is_signed: bool) -> str:
    """Returns the kernel: of numbers and results.

    Args:
        is_signed: Whether they are int64, else uint64.
    """
    elements = Elements(2)
    code = elements.code
    numbers, found = elements.arrays
    room = code.variable(f"[{_ROOM} x i8]")
    with elements.each() as (number, leave_unless):
        value = code.load("i64", code.at("i64", numbers, number))
        start = code.variable("i64")
        code.set(start, _ROOM)
        size = value
        if is_signed:
            size = code.call("i64", "llvm.abs.i64", ("i64", value), ("i1", "false"))
        _write_digits(code, room, start, size, 1)
        if is_signed:
            _write_sign(code, room, start, code.compare("slt", value, 0))
        first = code.get(start)
        length = code.subtract(_ROOM, first)
        elements.create(code.at("i8", room, first), length, found, number, leave_unless)
    return elements.module()


def fixed_text(decimals: int) -> str:
    """Returns the kernel: of numbers and results.

    Args:
        decimals: Number of decimals.
    """
    elements = Elements(2)
    code = elements.code
    numbers, found = elements.arrays
    room = code.variable(f"[{_ROOM} x i8]")
    unit = 10**decimals
    with elements.each() as (number, leave_unless):
        value = code.load("double", code.at("double", numbers, number))
        size = code.call("double", "llvm.fabs.f64", ("double", value))
        limit = constant(float(10**_DIGITS // unit), "double")
        leave_unless(code.let(f"fcmp olt double {size}, {limit}"))
        units = _units(code, size, unit)
        start = code.variable("i64")
        code.set(start, _ROOM)
        if decimals:
            _write_digits(code, room, start, code.let(f"urem i64 {units}, {unit}"), decimals)
            _write_byte(code, room, start, ord("."))
        _write_digits(code, room, start, code.let(f"udiv i64 {units}, {unit}"), 1)
        bits = code.let(f"bitcast double {value} to i64")
        _write_sign(code, room, start, code.compare("slt", bits, 0))
        first = code.get(start)
        length = code.subtract(_ROOM, first)
        elements.create(code.at("i8", room, first), length, found, number, leave_unless)
    return elements.module()


def _units(code: Code, size: str, unit: int) -> str:
    """Returns a number ≥ 0 in units of 1 / `unit`, rounded half to even, in whole numbers."""
    bits = code.let(f"bitcast double {size} to i64")
    field = code.let(f"lshr i64 {bits}, {_MANTISSA_BITS}")
    fraction = code.let(f"and i64 {bits}, {(1 << _MANTISSA_BITS) - 1}")
    is_normal = code.compare("ne", field, 0)
    hidden = code.select(is_normal, 1 << _MANTISSA_BITS, 0)
    mantissa = code.let(f"or i64 {fraction}, {hidden}")
    exponent = code.subtract(code.select(is_normal, field, 1), 1023 + _MANTISSA_BITS)
    wide = code.let(f"zext i64 {mantissa} to i128")
    scaled = code.let(f"mul i128 {wide}, {unit}")
    # Beyond 127 bits to the right nothing is left: the product has 83 bits at most.
    down = code.larger(code.smaller(code.let(f"sub i64 0, {exponent}"), 127), 0)
    up = code.larger(exponent, 0)
    by = code.let(f"zext i64 {down} to i128")
    whole = code.let(f"lshr i128 {scaled}, {by}")
    rest = code.let(f"sub i128 {scaled}, {code.let(f'shl i128 {whole}, {by}')}")
    double_rest = code.let(f"shl i128 {rest}, 1")
    one = code.let(f"shl i128 1, {by}")
    is_above = code.let(f"icmp ugt i128 {double_rest}, {one}")
    is_half = code.let(f"icmp eq i128 {double_rest}, {one}")
    narrow = code.let(f"trunc i128 {whole} to i64")
    is_odd = code.compare("ne", code.let(f"and i64 {narrow}, 1"), 0)
    goes_up = code.either(is_above, code.both(is_half, is_odd))
    goes_up = code.both(goes_up, code.compare("sgt", down, 0))
    rounded = code.let(f"add i64 {narrow}, {code.let(f'zext i1 {goes_up} to i64')}")
    return code.let(f"shl i64 {rounded}, {up}")


def _write_digits(code: Code, room: str, start: str, value: str, least: int) -> None:
    """Writes at least so many digits of an unsigned number before `start`, which is moved."""
    rest, count = code.variable("i64"), code.variable("i64")
    code.set(rest, value)
    code.set(count, 0)
    with code.turns() as go_on_if:
        now, written = code.get(rest), code.get(count)
        go_on_if(code.either(code.compare("ne", now, 0), code.compare("slt", written, least)))
        tenth = code.let(f"udiv i64 {now}, 10")
        digit = code.subtract(now, code.multiply(tenth, 10))
        _write_byte(code, room, start, code.let(f"add i64 {digit}, {ord('0')}"))
        code.set(rest, tenth)
        code.set(count, code.add(written, 1))


def _write_byte(code: Code, room: str, start: str, byte: str | int) -> None:
    at = code.subtract(code.get(start), 1)
    code.set(start, at)
    narrow = byte if isinstance(byte, int) else code.let(f"trunc i64 {byte} to i8")
    code.store("i8", narrow, code.at("i8", room, at), 1)


def _write_sign(code: Code, room: str, start: str, is_negative: str) -> None:
    with code.when(is_negative):
        _write_byte(code, room, start, ord("-"))
