"""What the generators for sparse tensors share: coordinate vectors, values, and how they are bound.

The numbers of elements and the sizes differ from call to call, so they are not bound: the first
array of every body holds them. The callers guarantee the sizes of the other arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.once import once

Array = np.ndarray[Any, Any]
MOST_DIMENSIONS: Final = 8
"""Coordinate vectors of more dimensions have no code."""
_GIL_ELEMENTS: Final = 1 << 16
"""Fewer elements are processed while holding the GIL."""
_NUMBERS: Final = {"f": "float", "d": "double", "i": "i32", "l": "i64"}
_CELLS: Final = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


def bound(
    write: Callable[..., str], arguments: tuple[Hashable, ...], arrays: int, elements: int
) -> Callable[..., bool]:
    """Returns the code for a number of arrays, as `native.Body.bind` does; it checks no sizes."""
    return _bound(write, arguments, arrays, elements >= _GIL_ELEMENTS)


@once
def _bound(
    write: Callable[..., str], arguments: tuple[Hashable, ...], arrays: int, releases_gil: bool
) -> Callable[..., bool]:
    body = native.written_body(write, arguments)
    return body.bind((), (NOT_COUNTED,) * arrays, 1, 1, releases_gil)


def has_code(indices: Array) -> bool:
    """Whether there is code for these [n, rank] coordinate vectors."""
    return (
        indices.dtype == np.int64
        and indices.ndim == 2
        and 0 < indices.shape[1] <= MOST_DIMENSIONS
        and native.available()
    )


def number_kind(dtype: np.dtype[Any]) -> str | None:
    """LLVM's name of numbers that are added; None if there is no code for them."""
    return _NUMBERS.get(dtype.char) if dtype.isnative else None


def cell_kind(dtype: np.dtype[Any]) -> str | None:
    """LLVM's name of values that are only moved; None if they cannot be."""
    return None if dtype.hasobject else _CELLS.get(dtype.itemsize)


def cell_bytes(kind: str) -> int:
    """The size of values of an LLVM type."""
    return {"float": 4, "double": 8}.get(kind) or int(kind[1:]) // 8


def first_numbers(code: Code, array: str, count: int) -> list[str]:
    """Loads the first int64 of an array."""
    return [code.load_index("i64", array, n) for n in range(count)]


def vector(code: Code, indices: str, row: Value, dimensions: int) -> list[str]:
    """Loads a coordinate vector."""
    first = code.multiply(row, dimensions)
    return [code.load_index("i64", indices, code.add(first, n)) for n in range(dimensions)]


def put_vector(code: Code, indices: str, row: Value, places: Sequence[Value]) -> None:
    """Stores a coordinate vector."""
    first = code.multiply(row, len(places))
    for n, place in enumerate(places):
        code.store("i64", place, code.at("i64", indices, code.add(first, n)))


def load_value(code: Code, kind: str, values: str, row: Value) -> str:
    """Loads a value."""
    return code.load(kind, code.at(kind, values, row), cell_bytes(kind))


def put_value(code: Code, kind: str, values: str, row: Value, value: str) -> None:
    """Stores a value."""
    code.store(kind, value, code.at(kind, values, row), cell_bytes(kind))


def count_if(code: Code, variable: str, condition: str) -> None:
    """Adds 1 to a variable if a condition holds."""
    one = code.let(f"zext i1 {condition} to i64")
    code.set(variable, code.add(code.get(variable), one))
