"""Code of tiles, called as threads call it, with small blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.tiles import packing_ir
from sparkflow_runtime.codegen.tiles.gemm_form import Form, Size

_BODY: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)
FORMS: Final = {
    "sse": Form("float", 4, 6, 2, 24, 400, 24),
    "avx": Form("double", 4, 6, 2, 24, 400, 24),
    "wide": Form("float", 16, 5, 2, 24, 600, 64),
    "neon": Form("double", 2, 8, 3, 20, 600, 12),
}
"""Blocks are small, so that small products consist of several."""


def strides(array: npt.NDArray[Any]) -> list[int]:
    """The strides in elements."""
    return [stride // array.itemsize for stride in array.strides]


def body_of(write: Callable[[Form], str], form: Form) -> Any:
    """Returns the function `body` of the module written for a form, compiled as for products."""
    return _BODY(native.written_body(write, (form,), is_tidy=True).address)


def packed(form: Form, factor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the packed right factor, after checking that nothing is written beyond it."""
    depth, columns = factor.shape
    width = form.packed_columns(columns)
    out = np.full(depth * width + 1, np.nan, factor.dtype)
    sizes = np.zeros(len(Size), np.int64)
    sizes[[Size.N, Size.K, Size.OUT_ROW]] = columns, depth, width
    sizes[[Size.RIGHT_DEPTH, Size.RIGHT_COLUMN]] = strides(factor)
    arrays = np.array([factor.ctypes.data, out.ctypes.data], np.int64)
    body_of(packing_ir.text, form)(sizes.ctypes.data, arrays.ctypes.data, 0, 0, 0)
    assert np.isnan(out[-1])
    return out[:-1]
