"""Matrix products of float32 and float64 in machine code, on the threads that kernels share.

numpy's BLAS brings threads of its own, which spin when they are done and take the processors from
ours; `docs/adr/0008` tells why products are computed here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import host, native, threads
from sparkflow_runtime.codegen.machine.builtin import Builtin, address_in_python
from sparkflow_runtime.codegen.tiles import gemm_entry, packing_ir, small_product
from sparkflow_runtime.codegen.tiles.gemm_entry import Field
from sparkflow_runtime.codegen.tiles.gemm_form import Form
from sparkflow_runtime.codegen.tiles.gemm_ir import text
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.once import once

_ELEMENTS: Final = {dtypes.float32: "float", dtypes.float64: "double"}
_TILES: Final = {64: (12, 2), 32: (6, 2)}
"""Rows and vectors of a tile by the size of a vector register: most registers are sums.

With 14 rows of 64 bytes one sum is in memory, see `test_instructions`; 12 are 1 to 5 % faster
(Zen 5, November 2026)."""
_NARROW_TILES: Final = {"x86_64": (6, 2), "i686": (6, 2)}
_MANY_REGISTERS: Final = 64
"""Vectors of so many bytes come in registers by 32; else there may be 16 only."""
_MANY_REGISTERS_TILE: Final = (8, 3)
"""For 16-byte vectors where there are 32 of them."""
_DEPTH_BYTES: Final = 1536
"""A slice of the right factor is then half of a first-level cache."""
_LEFT_BLOCK_BYTES: Final = 1 << 20
_RIGHT_COLUMNS: Final = 128


def bind_gemm(
    dtype: DType,
    transpose_left: bool = False,
    transpose_right: bool = False,
    adds: bool = False,
) -> Callable[..., bool] | None:
    """A function that computes `out[...] = left @ right` and returns True.

    It takes three numpy arrays, matrices or stacks of them: `left` [..., m, k] (or [..., k, m] when
    it is to be transposed), `right` [..., k, n], `out` [..., m, n], which overlaps with neither. A
    factor may be in C or Fortran order or a part of such a matrix, and may be one matrix where
    `out` is a stack, or have one along some of its dimensions; nothing is copied as a whole. A
    fourth array of one element, of the same dtype, is what the products are multiplied by. It does
    nothing and returns False where the arrays are not like that: other dtypes, other strides, more
    than two dimensions of a stack that do not follow each other, sizes that do not fit or are 0;
    and where
    `out` has one row or one column, because numpy's own product is as fast then.

    Big products run on several threads, as many as `threads.count()` says now, and let other Python
    threads run meanwhile. May be called by several threads at once.

    Args:
        dtype: Of all three arrays.
        transpose_left: Whether the last two dimensions of `left` change places first.
        transpose_right: The same of `right`.
        adds: Whether `out` grows by the products: where its elements are, the product of these
            sizes is added to them as a whole where the sum is short, block by block where not.

    Returns:
        The function; None where there is none: another dtype, or no code generator.
    """
    if dtype not in _ELEMENTS or not native.available() or not _dtypes_are_as_known():
        return None
    count = threads.count()
    record = _common().copy()
    record[Field.BODY] = body(dtype).address
    record[Field.SMALL_BODY] = small_body(dtype).address
    record[Field.SMALL_MOST] = small_product.MOST
    record[Field.THREADS] = count
    if count > 1:
        record[Field.RUN_PARTS], record[Field.POOL] = threads.pool_addresses()
    record[Field.DESCRIPTOR] = id(np.dtype(dtype.as_numpy_dtype))
    record[Field.SHIFT] = np.dtype(dtype.as_numpy_dtype).itemsize.bit_length() - 1
    record[Field.TURNS_LEFT] = transpose_left
    record[Field.TURNS_RIGHT] = transpose_right
    record[Field.ADDS] = adds
    return _entry().of(record)


def form(dtype: DType) -> Form:
    """The shape of tiles and blocks for this processor.

    Args:
        dtype: float32 or float64.
    """
    here = host.host()
    tile = _TILES.get(here.vector_bytes)
    if tile is None:
        tile = _NARROW_TILES.get(here.triple.partition("-")[0], _MANY_REGISTERS_TILE)
    size_bytes = np.dtype(dtype.as_numpy_dtype).itemsize
    return Form(
        element=_ELEMENTS[dtype],
        lanes=here.lanes(dtype),
        rows=tile[0],
        vectors=tile[1],
        depth=_DEPTH_BYTES // size_bytes,
        left_block=_LEFT_BLOCK_BYTES // size_bytes,
        right_block=_RIGHT_COLUMNS,
    )


@once
def body(dtype: DType) -> native.Body:
    """The code of all products of a dtype, see `gemm_ir`."""
    return native.written_body(text, (form(dtype),), is_tidy=True)


@once
def packed_body(dtype: DType) -> native.Body:
    """The same where the right factors are packed."""
    return native.written_body(text, (replace(form(dtype), right_is_packed=True),), is_tidy=True)


@once
def packing_body(dtype: DType) -> native.Body:
    """The code that packs right factors, see `packing_ir`."""
    return native.written_body(packing_ir.text, (form(dtype),), is_tidy=True)


@once
def small_body(dtype: DType) -> native.Body:
    """The code of small products, see `small_product`."""
    here = form(dtype)
    arguments = here.element, here.lanes, small_rows()
    return native.written_body(small_product.stack_text, arguments, is_tidy=True)


def small_rows() -> int:
    """Rows of a tile of a small product: two registers each, and there may be 16 only."""
    return 8 if host.host().vector_bytes == _MANY_REGISTERS else 4


@once
def _entry() -> Builtin:
    linked = native.link(gemm_entry.text(), ("entry",), is_tidy=True)
    return Builtin(linked.address("entry"))


@once
def _common() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    record = np.zeros(len(Field), np.int64)
    record[Field.ARRAY_TYPE] = id(np.ndarray)
    record[Field.TRUE], record[Field.FALSE] = id(True), id(False)
    for field, name in (
        (Field.INCREMENT, "Py_IncRef"),
        (Field.SAVE_THREAD, "PyEval_SaveThread"),
        (Field.RESTORE_THREAD, "PyEval_RestoreThread"),
    ):
        record[field] = address_in_python(name)
    return record


@once
def _dtypes_are_as_known() -> bool:
    """Whether an array keeps its dtype where generated code looks, see `host.available`."""
    array = np.zeros(1, np.float32)
    place = id(array) + gemm_entry.DESCRIPTOR
    return ctypes.c_int64.from_address(place).value == id(np.dtype(np.float32))
