"""Lines of delimited fields as columns, in machine code: one pass over each line.

Source: RFC 4180. Lines with doubled quotes, and all that is wrong, are left to Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.codegen.strings.numerals import POWERS, parsed_float, parsed_integer
from sparkflow_runtime.codegen.strings.objects import (
    Array,
    Elements,
    Leave,
    byte_at,
    for_each,
    packed,
)
from sparkflow_runtime.codegen.strings.parts import are_same

_QUOTE: Final = ord('"')
_KINDS: Final = {
    np.dtype(each): code
    for code, each in enumerate((np.object_, np.float32, np.float64, np.int32, np.int64))
}
_TEXT, _FLOAT32, _FLOAT64, _INT32, _INT64 = range(5)
_SIZES: Final = {"i32": (_FLOAT32, _INT32), "i64": (_FLOAT64, _INT64)}
"""The kinds of numbers by the type that copies them."""
_IN_NUMBERS: Final = b"0123456789.+-eExX_aAfFiInN"
_PARAMETERS: Final = 5


@dataclass(frozen=True, slots=True)
class Format:
    """How lines are written.

    Attributes:
        dtypes: Of the columns: objects, float32, float64, int32 or int64.
        column_of_field: The column of each field, -1 for none.
        is_exact: Whether lines have no more fields than these.
        delimiter: The byte between fields.
        quotes: Whether fields may be quoted.
        missing: A field that counts as empty.
    """

    dtypes: tuple[np.dtype[Any], ...]
    column_of_field: tuple[int, ...]
    is_exact: bool
    delimiter: int
    quotes: bool
    missing: bytes


class Decoder:
    """Decodes lines of one format.

    Args:
        format: The format.
    """

    def __init__(self, format: Format) -> None:
        # A number would not end at such a delimiter.
        self._is_for_python = format.delimiter in _IN_NUMBERS
        self._dtypes = format.dtypes
        self._fields = np.array(format.column_of_field, np.int64)
        self._kinds = np.array([_KINDS[each] for each in format.dtypes], np.int64)
        self._missing = np.frombuffer(format.missing or b"\0", np.uint8)
        self._parameters = (
            *(len(self._fields), int(format.is_exact), format.delimiter, int(format.quotes)),
            len(format.missing),
        )

    def decode(
        self,
        lines: Array,
        columns: Sequence[Array],
        defaults: Sequence[Array],
        by_python: Callable[[int], None],
    ) -> None:
        """Writes the fields of lines to columns.

        Args:
            lines: [n] objects, bytes, contiguous.
            columns: Of n elements each, contiguous, of the format's dtypes.
            defaults: What empty fields become, for each column: one value of its dtype; none if
                fields must not be empty.
            by_python: Writes all fields of one line, given its number, or raises.
        """
        if self._is_for_python:
            for number in range(lines.size):
                by_python(number)
            return
        pairs = zip(defaults, self._dtypes, strict=True)
        filled = [np.asarray(each, dtype) for each, dtype in pairs]
        sizes = np.array([each.size for each in filled], np.int64)
        given = (packed(columns), packed(filled), sizes)
        arrays = (lines, self._fields, self._kinds, *given, self._missing, POWERS)
        for_each(lines_text, (), arrays, by_python, self._parameters)


def lines_text() -> str:
    """Returns the kernel; its arrays and parameters are those of `Decoder.decode`."""
    return _Writer().text()


class _Writer:
    def __init__(self) -> None:
        self._elements = Elements(8, _PARAMETERS)
        self._code = self._elements.code
        self._lines, self._columns, self._kinds, self._outs, *rest = self._elements.arrays
        self._defaults, self._default_sizes, self._missing, self._powers = rest
        self._fields, exact, self._delimiter, quotes, self._missing_size = self._elements.parameters
        self._is_exact = self._code.compare("ne", exact, 0)
        self._has_quotes = self._code.compare("ne", quotes, 0)

    def text(self) -> str:
        code, elements = self._code, self._elements
        at, field, start, end = (code.variable("i64") for _ in range(4))
        has_more, is_quoted = code.variable("i1"), code.variable("i1")
        with elements.each() as (number, leave_unless):
            line, length = elements.read(self._lines, number, leave_unless)
            code.set(at, 0)
            code.set(field, 0)
            code.set(has_more, "true", "i1")
            with code.turns() as go_on_if:
                go_on_if(code.get(has_more, "i1"))
                here = code.get(at)
                # The byte behind the last one is zero.
                first = code.compare("eq", byte_at(code, line, here), _QUOTE)
                code.set(is_quoted, code.both(first, self._has_quotes), "i1")
                with code.when(code.get(is_quoted, "i1")):
                    code.set(start, code.add(here, 1))
                    self._find_quote(line, length, code.add(here, 1), end, leave_unless)
                    code.set(at, code.add(code.get(end), 1))
                with code.unless(code.get(is_quoted, "i1")):
                    code.set(start, here)
                    self._find_delimiter(line, length, here, end, leave_unless)
                    code.set(at, code.get(end))
                behind = code.get(at)
                code.set(has_more, code.compare("slt", behind, length), "i1")
                code.set(at, code.add(behind, 1))
                index = code.get(field)
                with code.when(code.compare("slt", index, self._fields)):
                    column = code.load("i64", code.at("i64", self._columns, index))
                    with code.when(code.compare("sge", column, 0)):
                        begin = code.get(start)
                        size = code.let(f"sub i64 {code.get(end)}, {begin}")
                        value = code.at("i8", line, begin)
                        self._convert(value, size, column, number, leave_unless)
                code.set(field, code.add(index, 1))
            count = code.get(field)
            leave_unless(code.compare("sge", count, self._fields))
            as_many = code.compare("eq", count, self._fields)
            leave_unless(code.either(as_many, code.negated(self._is_exact)))
        return elements.module()

    def _find_quote(
        self, line: str, length: str, start: Value, end: str, leave_unless: Leave
    ) -> None:
        """Sets `end` to the closing quote."""
        code = self._code
        code.set(end, start)
        with code.turns() as go_on_if:
            here = code.get(end)
            go_on_if(code.compare("slt", here, length))
            go_on_if(code.compare("ne", byte_at(code, line, here), _QUOTE))
            code.set(end, code.add(here, 1))
        found = code.get(end)
        leave_unless(code.compare("slt", found, length))
        behind = code.add(found, 1)
        is_last = code.compare("eq", behind, length)
        is_delimited = code.compare("eq", byte_at(code, line, behind), self._delimiter)
        leave_unless(code.either(is_last, is_delimited))

    def _find_delimiter(
        self, line: str, length: str, start: str, end: str, leave_unless: Leave
    ) -> None:
        """Sets `end` to the delimiter or the end of the line."""
        code = self._code
        code.set(end, start)
        with code.turns() as go_on_if:
            here = code.get(end)
            go_on_if(code.compare("slt", here, length))
            byte = byte_at(code, line, here)
            go_on_if(code.compare("ne", byte, self._delimiter))
            is_end = code.either(
                code.compare("eq", byte, ord("\r")), code.compare("eq", byte, ord("\n"))
            )
            is_quote = code.both(code.compare("eq", byte, _QUOTE), self._has_quotes)
            leave_unless(code.negated(code.either(is_end, is_quote)))
            code.set(end, code.add(here, 1))

    def _convert(
        self, value: str, size: str, column: str, number: str, leave_unless: Leave
    ) -> None:
        code, elements = self._code, self._elements
        is_missing = code.variable("i1")
        code.set(is_missing, code.compare("eq", size, 0), "i1")
        with code.when(code.compare("eq", size, self._missing_size)):
            same = are_same(code, value, self._missing, size)
            code.set(is_missing, same, "i1")
        kind = code.load("i64", code.at("i64", self._kinds, column))
        out = elements.data_at(self._outs, column)
        with code.when(code.get(is_missing, "i1")):
            count = code.load("i64", code.at("i64", self._default_sizes, column))
            leave_unless(code.compare("ne", count, 0))
            self._copy_default(kind, elements.data_at(self._defaults, column), out, number)
        with code.unless(code.get(is_missing, "i1")):
            with code.when(code.compare("eq", kind, _TEXT)):
                elements.create(value, size, out, number, leave_unless)
            is_float = code.let(f"icmp ult i64 {code.let(f'sub i64 {kind}, {_FLOAT32}')}, 2")
            with code.when(is_float):
                found = parsed_float(elements, value, size, self._powers, leave_unless)
                narrow = code.let(f"fptrunc double {found} to float")
                self._store(kind, _FLOAT32, "float", narrow, out, number)
                self._store(kind, _FLOAT64, "double", found, out, number)
            with code.when(code.compare("sge", kind, _INT32)):
                whole = parsed_integer(code, value, size, leave_unless)
                short = code.let(f"trunc i64 {whole} to i32")
                again = code.let(f"sext i32 {short} to i64")
                fits = code.compare("eq", again, whole)
                leave_unless(code.either(fits, code.compare("eq", kind, _INT64)))
                self._store(kind, _INT32, "i32", short, out, number)
                self._store(kind, _INT64, "i64", whole, out, number)

    def _copy_default(self, kind: str, default: str, out: str, number: str) -> None:
        code = self._code
        with code.when(code.compare("eq", kind, _TEXT)):
            value = code.load("ptr", default)
            self._elements.keep(value)
            self._elements.put(value, out, number)
        for size, kinds in _SIZES.items():
            for each in kinds:
                self._store(kind, each, size, code.load(size, default, 4), out, number)

    def _store(self, kind: str, wanted: int, type_: str, value: str, out: str, number: str) -> None:
        code: Code = self._code
        with code.when(code.compare("eq", kind, wanted)):
            code.store(type_, value, code.at(type_, out, number), 4)
