"""Code of tiles that is called as threads call it, with small blocks."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy.typing as npt

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.tiles.gemm_form import Form

_BODY: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)
FORMS: Final = {
    "sse": Form("float", 4, 6, 2, 24, 400, 24),
    "avx": Form("double", 4, 6, 2, 24, 400, 24),
    "wide": Form("float", 16, 5, 2, 24, 600, 64),
    "neon": Form("double", 2, 8, 3, 20, 600, 12),
}
"""Blocks are small, so that small products have several of each."""


def strides(array: npt.NDArray[Any]) -> list[int]:
    """The strides in elements."""
    return [stride // array.itemsize for stride in array.strides]


def body_of(module: str) -> Any:
    """The function `body` of a module."""
    return _BODY(native.link(module, ("body",)).address("body"))
