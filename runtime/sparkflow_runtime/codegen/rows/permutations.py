"""The inverse of a permutation, in one pass of scattered writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.llvm_text import INDEX_KINDS, Code
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_GIL_ELEMENTS: Final = 1 << 16
"""Smaller inputs are processed while holding the GIL."""


def inverse(x: Array) -> Array | None:
    """Returns the array y with y[x[i]] = i, and -1 at each position that x does not contain.

    So y contains no -1 exactly if x is a permutation.

    Args:
        x: A vector of int32 or int64, of any values.

    Returns:
        A new array; None if there is no machine code for it.
    """
    kind = INDEX_KINDS.get(x.dtype)
    if kind is None or not native.available():
        return None
    y = np.full(x.shape, -1, x.dtype)
    return y if _bound(kind, x.size)(x, y) else None


@latest(64)
def _bound(kind: str, count: int) -> Callable[..., bool]:
    return _body(kind).bind((count,), (count, count), count, 1, count >= _GIL_ELEMENTS)


@once
def _body(kind: str) -> native.Body:
    code = Code()
    size_bytes = int(kind[1:]) // 8
    (count,) = code.sizes(1)
    source, target = code.arrays(2)
    with code.loop("%lo", "%hi") as number:
        place = code.load_index(kind, source, number)
        with code.when(code.compare("ult", place, count)):
            shown = number if kind == "i64" else code.let(f"trunc i64 {number} to {kind}")
            code.store(kind, shown, code.at(kind, target, place), size_bytes)
    return native.body(code.module())
