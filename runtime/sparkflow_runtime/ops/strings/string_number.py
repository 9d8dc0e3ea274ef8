"""Numbers as strings, strings as numbers, and the bytes of strings as numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.strings import numerals, parts
from sparkflow_runtime.codegen.strings.objects import SPACES
from sparkflow_runtime.dtypes import COMPLEX, FLOATING, INTEGER, DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, string_attr, type_attr
from sparkflow_runtime.ops.strings.string_arrays import (
    StringOp,
    array_of,
    flat_strings,
    mapped,
    text_of,
)
from sparkflow_runtime.shapes import Shape

_DECIMALS = 6
"""Of C's printf if no precision is given."""
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_FLOAT = re.compile(
    rb"(?i)[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)"
)
_HEX_FLOAT = re.compile(rb"(?i)[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?")


def parse_number(data: bytes, dtype: DType) -> Any:
    """The number a text means, with white space around it allowed; None when it is none.

    None too for integers that the dtype does not hold; floats become infinite instead.
    """
    text = data.strip(SPACES)
    if dtype in INTEGER:
        if not _INTEGER.fullmatch(text) or len(text) > 40:
            return None
        number = int(text)
        return number if dtype.min <= number <= dtype.max else None
    if _FLOAT.fullmatch(text):
        return float(text)
    if _HEX_FLOAT.fullmatch(text):
        return float.fromhex(text.decode())
    return None


@register
class StringToNumber(StringOp):
    """The numbers that strings mean."""

    elementwise = True
    inputs = "string_tensor: string"
    outputs = "output: out_type"
    attrs = {
        "out_type": type_attr(
            frozenset(
                {
                    dtypes.float32,
                    dtypes.float64,
                    dtypes.int32,
                    dtypes.int64,
                    dtypes.uint32,
                    dtypes.uint64,
                }
            ),
            default=dtypes.float32,
        )
    }

    def compute(self, xp: Any, text: Array, *, out_type: DType) -> Array:
        """Fails for what is no number, or an integer too large."""
        strings = flat_strings(text)
        found = np.empty(strings.size, out_type.as_numpy_dtype)

        def by_python(number: int) -> None:
            value = parse_number(strings[number], out_type)
            if value is None:
                raise InvalidArgumentError(
                    message="StringToNumberOp could not correctly convert string: "
                    f"{text_of(strings[number])}"
                )
            found[number] = value

        with np.errstate(over="ignore"):  # infinite, as in TensorFlow
            if out_type in INTEGER:
                limits = int(out_type.min), int(out_type.max)
                numerals.parse_integers(strings, found, limits, by_python)
            else:
                numerals.parse_floats(strings, found, by_python)
        return found.reshape(np.shape(text))


@register
class AsString(StringOp):
    """The texts of numbers, as C's printf writes them."""

    elementwise = True
    inputs = "input: T"
    outputs = "output: string"
    attrs = {
        "T": type_attr(FLOATING | INTEGER | COMPLEX | {dtypes.bool_, dtypes.string}),
        "precision": int_attr(-1),
        "scientific": bool_attr(False),
        "shortest": bool_attr(False),
        "width": int_attr(-1),
        "fill": string_attr(""),
    }

    def compute(
        self,
        xp: Any,
        values: Array,
        *,
        T: DType,
        precision: int,
        scientific: bool,
        shortest: bool,
        width: int,
        fill: str,
    ) -> Array:
        """Fails for formats that do not go together."""
        array = np.asarray(values)
        if T is dtypes.bool_:
            return array_of([b"true" if v else b"false" for v in array.ravel()], array.shape)
        kind = "e" if scientific else ("g" if shortest else "f")
        whole = T in INTEGER or T is dtypes.string
        if scientific and shortest:
            _refuse("Cannot select both scientific and shortest notation")
        if whole and (scientific or shortest):
            _refuse(f"scientific and shortest format not supported for datatype {T.name}")
        if whole and precision > -1:
            _refuse(f"precision not supported for datatype {T.name}")
        if len(fill) > 1:
            _refuse(f"Fill string must be one or fewer characters, got {fill!r}")
        if fill not in ("", " ", "+", "-", "0", "#"):
            _refuse(f"Fill argument not supported: {fill}")
        size = f"{width}" if width > -1 else ""
        digits = f".{precision}" if precision > -1 else ""
        if T is dtypes.string:
            form = f"%{fill if fill != '0' else ''}{size}s"
            return mapped(lambda data: (form % data.decode("latin-1")).encode("latin-1"), array)
        if whole:
            form = f"%{fill}{size}d"
            if fill or size:
                return _formatted(form, array, int)
            return _integers(array)
        form = f"%{fill}{size}{digits}{kind}"
        if T.is_complex:
            texts = [f"({form % v.real},{form % v.imag})".encode() for v in array.ravel().tolist()]
            return array_of(texts, array.shape)
        blank = f"%{'' if fill == '0' else fill}{size}s"

        def text(value: Any) -> str:
            if np.isfinite(value):
                return str(form % value)
            return blank % str(value)  # no zeros before nan and inf

        decimals = precision if precision > -1 else _DECIMALS
        if kind != "f" or fill or size or decimals > numerals.MOST_DECIMALS:
            return array_of([text(float(v)).encode() for v in array.ravel()], array.shape)
        wide = np.ascontiguousarray(array, np.float64).reshape(-1)
        found = np.empty(wide.size, np.object_)

        def by_python(number: int) -> None:
            found[number] = text(float(wide[number])).encode()

        numerals.write_fixed(wide, decimals, found, by_python)
        return found.reshape(array.shape)


def _integers(array: Array) -> Array:
    wide = np.uint64 if array.dtype.kind == "u" else np.int64
    numbers = np.ascontiguousarray(array, wide).reshape(-1)
    found = np.empty(numbers.size, np.object_)

    def by_python(number: int) -> None:
        found[number] = b"%d" % int(numbers[number])

    numerals.write_integers(numbers, found, by_python)
    return found.reshape(array.shape)


def _refuse(text: str) -> None:
    raise InvalidArgumentError(message=text)


def _formatted(form: str, array: Array, convert: Any) -> Array:
    return array_of([(form % convert(v)).encode() for v in array.ravel()], array.shape)


_RAW = frozenset(
    {
        dtypes.float16,
        dtypes.float32,
        dtypes.float64,
        dtypes.int32,
        dtypes.uint16,
        dtypes.uint8,
        dtypes.int16,
        dtypes.int8,
        dtypes.int64,
        dtypes.complex64,
        dtypes.complex128,
        dtypes.bool_,
        dtypes.bfloat16,
    }
)


@register
class DecodeRaw(StringOp):
    """The bytes of strings as numbers; all strings must have the same length."""

    widens = ()  # the bits count
    inputs = "bytes: string"
    outputs = "output: out_type"
    attrs = {"out_type": type_attr(_RAW), "little_endian": bool_attr(True)}

    def infer(self, node: Inference) -> list[Shape]:
        """The input's shape and an axis for the numbers."""
        shape = node.shapes[0]
        return [None if shape is None else (*shape, None)]

    def compute(self, xp: Any, data: Array, *, out_type: DType, little_endian: bool) -> Array:
        """Fails where lengths differ, or are no multiple of a number's size."""
        strings = flat_strings(data)
        dtype = np.dtype(out_type.as_numpy_dtype)
        size = len(strings[0]) if strings.size else 0
        rows, same = parts.joined_rows(strings, size)
        if same < strings.size:
            raise InvalidArgumentError(
                message="DecodeRaw requires input strings to all be the same size, but element "
                f"{same} has size {size} != {len(strings[same])}"
            )
        if size % dtype.itemsize:
            raise InvalidArgumentError(
                message=f"Input to DecodeRaw has length {size} that is not a multiple of "
                f"{dtype.itemsize}, the size of {out_type.name}"
            )
        numbers = rows.reshape(-1).view(dtype)
        if not little_endian:
            numbers = numbers.byteswap()
        return numbers.reshape(*np.shape(data), size // dtype.itemsize)
