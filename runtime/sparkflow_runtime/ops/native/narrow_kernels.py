"""Casts between float32 and float16 or bfloat16 by machine code, see `codegen.narrow`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.rows import narrowing as narrow
from sparkflow_runtime.codegen.rows.sparse_rows import HEADER_SIZE, Header
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.once import once
from sparkflow_runtime.ops.op import Array

_SHARED_SIZE: Final = 1 << 20
"""Arrays of fewer elements are converted by one thread."""
_SHORT_SIZE: Final = 1 << 12
"""More are worth letting other Python threads run meanwhile."""


def kernel(source: DType, target: DType) -> Callable[[Array, Array], bool] | None:
    """A function that fills its second array with the first, converted; None where there is none.

    It answers False, and does nothing, where the arrays are not contiguous arrays of numpy. That
    they are of these dtypes and one shape is the promise of whoever calls.
    """
    if (source, target) not in narrow.PAIRS or not native.available():
        return None

    def convert(x: Array, out: Array) -> bool:
        if not _is_plain(x) or not _is_plain(out):
            return False
        header = np.zeros(HEADER_SIZE, np.int64)
        parts = threads.count() if x.size >= _SHARED_SIZE else 1
        header[Header.COUNT], header[Header.PARTS] = x.size, parts
        return _bound(source, target, parts, x.size > _SHORT_SIZE)(header, x, out)

    return convert


def _is_plain(array: Array) -> bool:
    return type(array) is np.ndarray and array.flags.c_contiguous


@once
def _bound(source: DType, target: DType, parts: int, releases_gil: bool) -> Callable[..., bool]:
    body = native.body(narrow.conversion(source, target))
    return body.bind((), [NOT_COUNTED] * 3, parts, threads=parts, releases_gil=releases_gil)
