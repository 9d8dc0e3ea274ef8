"""Element types: one `DType` per TensorFlow DataType, with its number and its numpy type.

A `_ref` type is the type of a variable's mutable output. bfloat16 comes from ml_dtypes. A quantised
type is a numpy record with one integer field, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from sparkflow_runtime.once import once

_REF_OFFSET = 100


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type. Instances are unique per number: compare with `is` or `==`.

    Attributes:
        name: TensorFlow's name, e.g. `float32` or `float32_ref`.
        number: TensorFlow's DataType number.
        numpy: The numpy scalar type; of quantised types a dtype of one integer field.
    """

    name: str
    number: int
    numpy: Any

    @property
    def is_ref(self) -> bool:
        """Whether this is the type of a mutable variable output."""
        return self.number > _REF_OFFSET

    @property
    def base(self) -> DType:
        """The value type of a reference type; itself otherwise."""
        return _BY_NUMBER[self.number - _REF_OFFSET] if self.is_ref else self

    @property
    def ref(self) -> DType:
        """The reference type of a value type; itself otherwise."""
        return self if self.is_ref else _BY_NUMBER[self.number + _REF_OFFSET]

    # TensorFlow 1's spellings of the above.
    base_dtype = base
    _as_ref = ref
    _is_ref_dtype = is_ref

    @property
    def as_numpy_dtype(self) -> Any:
        """The numpy scalar type; `object` for strings, a dtype of one field where quantised."""
        return self.numpy

    @property
    def as_datatype_enum(self) -> int:
        """TensorFlow's DataType number."""
        return self.number

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers, booleans and quantised ones included."""
        return self.base not in (string, resource, variant)

    @property
    def is_floating(self) -> bool:
        """Whether values are real floating-point numbers."""
        return self.base in FLOATING

    @property
    def is_integer(self) -> bool:
        """Whether values are integers (not bool)."""
        return self.base in INTEGER

    @property
    def is_complex(self) -> bool:
        """Whether values are complex numbers."""
        return self.base in COMPLEX

    @property
    def is_bool(self) -> bool:
        """Whether values are booleans."""
        return self.base is bool_

    @property
    def is_quantized(self) -> bool:
        """Whether values stand for real numbers in a range given beside them."""
        return self.base in QUANTIZED

    @property
    def is_unsigned(self) -> bool:
        """Whether values are integers that are never negative."""
        return self.base in UNSIGNED

    @property
    def is_numpy_compatible(self) -> bool:
        """Whether numpy arrays of this type exist."""
        return self.base not in (resource, variant)

    @property
    def real_dtype(self) -> DType:
        """The type of the real part; itself unless complex."""
        return {complex64: float32, complex128: float64}.get(self.base, self)

    @property
    def limits(self) -> tuple[Any, Any]:
        """What images of this type range over: [0, 1] for floating point, else min and max."""
        return (0, 1) if self.is_floating else (self.min, self.max)

    @property
    def size(self) -> int:
        """Bytes per element; 1 for strings and handles, as in TensorFlow."""
        if self.numpy is np.object_:
            return 1
        return int(np.dtype(self.numpy).itemsize)

    @property
    def min(self) -> Any:
        """The smallest finite value (numeric types).

        Raises:
            TypeError: The type is no numeric one.
        """
        return False if self.is_bool else _limits(self).min

    @property
    def max(self) -> Any:
        """The largest finite value (numeric types)."""
        return True if self.is_bool else _limits(self).max

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a value of `other` may stand where this type is asked for."""
        return as_dtype(other).base is self.base

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        if other is None:
            return False
        try:
            return self is as_dtype(other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return self.number

    def __int__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.number,)


_BY_NUMBER: dict[int, DType] = {}
_BY_NAME: dict[str, DType] = {}


def _define(name: str, number: int, numpy: Any) -> DType:
    dtype = DType(name, number, numpy)
    reference = DType(name + "_ref", number + _REF_OFFSET, numpy)
    for each in (dtype, reference):
        _BY_NUMBER[each.number] = each
        _BY_NAME[each.name] = each
    return dtype


float32 = _define("float32", 1, np.float32)
float64 = _define("float64", 2, np.float64)
int32 = _define("int32", 3, np.int32)
uint8 = _define("uint8", 4, np.uint8)
int16 = _define("int16", 5, np.int16)
int8 = _define("int8", 6, np.int8)
string = _define("string", 7, np.object_)
complex64 = _define("complex64", 8, np.complex64)
int64 = _define("int64", 9, np.int64)
bool_ = _define("bool", 10, np.bool_)
qint8 = _define("qint8", 11, np.dtype([("qint8", np.int8)]))
quint8 = _define("quint8", 12, np.dtype([("quint8", np.uint8)]))
qint32 = _define("qint32", 13, np.dtype([("qint32", np.int32)]))
bfloat16 = _define("bfloat16", 14, ml_dtypes.bfloat16)
qint16 = _define("qint16", 15, np.dtype([("qint16", np.int16)]))
quint16 = _define("quint16", 16, np.dtype([("quint16", np.uint16)]))
uint16 = _define("uint16", 17, np.uint16)
complex128 = _define("complex128", 18, np.complex128)
float16 = _define("float16", 19, np.float16)
resource = _define("resource", 20, np.object_)
variant = _define("variant", 21, np.object_)
uint32 = _define("uint32", 22, np.uint32)
uint64 = _define("uint64", 23, np.uint64)

FLOATING: frozenset[DType] = frozenset({float16, float32, float64, bfloat16})
COMPLEX: frozenset[DType] = frozenset({complex64, complex128})
SIGNED: frozenset[DType] = frozenset({int8, int16, int32, int64})
UNSIGNED: frozenset[DType] = frozenset({uint8, uint16, uint32, uint64})
INTEGER: frozenset[DType] = SIGNED | UNSIGNED
REAL: frozenset[DType] = FLOATING | INTEGER
NUMERIC: frozenset[DType] = REAL | COMPLEX
INDEX: frozenset[DType] = frozenset({int32, int64})
PLAIN: frozenset[DType] = NUMERIC | {bool_}
"""Every type whose values are bytes in an array."""
QUANTIZED: frozenset[DType] = frozenset({qint8, quint8, qint16, quint16, qint32})
ALL: frozenset[DType] = PLAIN | QUANTIZED | {string}

_KERNEL_NAMES = {float16: "half", float32: "float", float64: "double"}
_BY_NAME.update({name: dtype for dtype, name in _KERNEL_NAMES.items()})

_BY_NUMPY: dict[np.dtype[Any], DType] = {
    np.dtype(dtype.numpy): dtype for dtype in sorted(PLAIN | QUANTIZED, key=int)
}

_BY_PYTHON: dict[type[Any], DType] = {
    float: float32,
    int: int32,
    bool: bool_,
    complex: complex128,
    str: string,
    bytes: string,
    object: string,
}


@once
def _limits(dtype: DType) -> Any:
    if dtype.base not in NUMERIC and not dtype.is_quantized:
        raise TypeError(f"Cannot find minimum or maximum value of {dtype.name}.")
    kind = np.dtype(dtype.as_numpy_dtype)
    if dtype.is_quantized:
        kind = kind[0]
    return np.iinfo(kind) if kind.kind in "iu" else ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]  # ml_dtypes has no types here


def as_dtype(type_value: Any) -> DType:
    """The `DType` for a DType, number, name, Python type or numpy dtype.

    Raises:
        TypeError: No element type corresponds to `type_value`.
    """
    value = type_value
    if isinstance(value, DType):
        return value
    found: DType | None = None
    if isinstance(value, str):
        found = _BY_NAME.get(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        found = _BY_NUMBER.get(value)
    elif isinstance(value, type) and value in _BY_PYTHON:
        found = _BY_PYTHON[value]
    if found is None and value is not None and not isinstance(value, int):  # numpy reads None
        try:
            numpy_dtype = np.dtype(value)
        except (TypeError, ValueError, SyntaxError):  # numpy parses texts such as "3i4,f8"
            numpy_dtype = None
        if numpy_dtype is not None:
            if numpy_dtype.kind in "OSU":
                found = string
            else:
                found = _BY_NUMPY.get(numpy_dtype.newbyteorder("="))
    if found is None:
        raise TypeError(f"{value!r} is not an element type that sparkflow knows")
    return found


def is_number(number: int) -> bool:
    """Whether an element type has this number in messages."""
    return number in _BY_NUMBER


def kernel_name(dtype: DType) -> str:
    """What TensorFlow's kernels call it in messages: `float`, `int32`, `float_ref`."""
    short = _KERNEL_NAMES.get(dtype.base, dtype.base.name)
    return f"{short}_ref" if dtype.is_ref else short


def names(dtypes: Iterable[DType]) -> str:
    """The names in TensorFlow's order, for error texts: `float32, float64`."""
    return ", ".join(dtype.name for dtype in sorted(dtypes, key=int))


_SUMMED_WIDE = frozenset({np.dtype(float16.as_numpy_dtype), np.dtype(bfloat16.as_numpy_dtype)})


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which values of `dtype` are added: float32 for those of 16 bits."""
    return np.dtype(np.float32) if dtype in _SUMMED_WIDE else dtype
