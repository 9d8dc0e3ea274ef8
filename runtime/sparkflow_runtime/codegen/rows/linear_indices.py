"""Machine code that turns vectors of indices into numbers of slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.llvm_text import INDEX_KINDS, Code, Value
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_MOST_DIMENSIONS: Final = 8


def linear_indices(indices: Array, shape: Sequence[int]) -> Array | None:
    """Returns the number of each slice in row-major order.

    Args:
        indices: [count, dimensions] of int32 or int64, in C order.
        shape: The sizes of these dimensions.

    Returns:
        [count] int64; None if an index is out of bounds, or without machine code.
    """
    kind = INDEX_KINDS.get(indices.dtype)
    if kind is None or not 0 < len(shape) <= _MOST_DIMENSIONS or not native.available():
        return None
    count = len(indices)
    found, failure = np.empty(count, np.int64), np.zeros(1, np.int32)
    run = _bound(kind, count, tuple(shape))
    return found if run(indices, found, failure) and not failure[0] else None


@latest(1024)
def _bound(kind: str, count: int, shape: tuple[int, ...]) -> Callable[..., bool]:
    return _body(kind, len(shape)).bind(shape, (count * len(shape), count, 1), count)


@once
def _body(kind: str, dimensions: int) -> native.Body:
    return native.written_body(text, (kind, dimensions))


def text(kind: str, dimensions: int) -> str:
    """Returns the module; sizes: those of the dimensions.

    Arrays: indices, slice numbers, and an int32 that becomes 1 if an index is out of bounds.

    Args:
        kind: LLVM's type of an index.
        dimensions: The length of a vector.
    """
    code = Code()
    sizes = code.sizes(dimensions)
    indices, target, failure = code.arrays(3)
    with code.loop("%lo", "%hi") as number:
        first = code.multiply(number, dimensions)
        found = [code.load_index(kind, indices, code.add(first, n)) for n in range(dimensions)]
        place: Value = found[0]
        for index, size in zip(found[1:], sizes[1:], strict=True):
            place = code.add(code.multiply(place, size), index)
        code.store("i64", place, code.at("i64", target, number))
        for index, size in zip(found, sizes, strict=True):
            with code.unless(code.compare("ult", index, size)):
                code.store("i32", 1, failure, 4)
    return code.module()
