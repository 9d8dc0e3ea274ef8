"""Copies rows from many places into one array, in machine code, without Python's lock.

Measured 2026-11-22 on a busy machine, CPU time of a whole batch of 128 of 30,000 rows of 784 floats
that lie in 6 chunks: 399 µs by numpy, chunk by chunk; 177 µs with this.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.once import once

_TEXT: Final = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define void @gather_rows(ptr %out, ptr %addresses, i64 %count, i64 %bytes) {
start:
  %last = sub i64 %count, 1
  br label %head
head:
  %i = phi i64 [0, %start], [%next, %row]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %row, label %end
row:
  %plus = add i64 %i, 8
  %inside = icmp slt i64 %plus, %count
  %later = select i1 %inside, i64 %plus, i64 %last
  %at_later = getelementptr i64, ptr %addresses, i64 %later
  %later_address = load i64, ptr %at_later
  %later_from = inttoptr i64 %later_address to ptr
  call void @llvm.prefetch.p0(ptr %later_from, i32 0, i32 1, i32 1)
  %at = getelementptr i64, ptr %addresses, i64 %i
  %address = load i64, ptr %at
  %from = inttoptr i64 %address to ptr
  %offset = mul i64 %i, %bytes
  %to = getelementptr i8, ptr %out, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}
"""


@once
def _function() -> Callable[..., None] | None:
    if not native.available():
        return None
    address = native.link(_TEXT, ("gather_rows",)).address("gather_rows")
    word = ctypes.c_int64
    function: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, word, word)(address)
    return function  # type: ignore[no-any-return]  # ctypes' functions have no types


def gather_rows(out: npt.NDArray[Any], addresses: npt.NDArray[np.int64], row_bytes: int) -> bool:
    """Copies the rows at some addresses of this process, one after the other.

    Args:
        out: Contiguous, of `len(addresses) * row_bytes` bytes.
        addresses: [n] int64, contiguous.
        row_bytes: Of each row.

    Returns:
        Whether it did; not where there is no compiler.
    """
    function = _function()
    if function is None:
        return False
    assert out.flags.c_contiguous
    assert out.nbytes == len(addresses) * row_bytes
    function(out.ctypes.data, addresses.ctypes.data, len(addresses), row_bytes)
    return True
