"""Matrix products of float32 and float64 in machine code, on the kernels' thread pool.

numpy's BLAS has its own threads, which spin when idle and take processors from ours;
`docs/adr/0008` explains why products are computed here.
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
"""Rows and vectors of a tile by vector register size: most registers are accumulators.

With 14 rows of 64 bytes one accumulator spills, see `test_instructions`; 12 are 1 to 5 % faster
(Zen 5, November 2026)."""
_NARROW_TILES: Final = {"x86_64": (6, 2), "i686": (6, 2)}
_MANY_REGISTERS: Final = 64
"""Processors with vectors of this size have 32 vector registers; others may have only 16."""
_MANY_REGISTERS_TILE: Final = (8, 3)
"""For 16-byte vectors with 32 registers."""
_DEPTH_BYTES: Final = 1536
"""Bytes along the depth of a block: a slice of the right factor then fills half of the L1 cache."""
_LEFT_BLOCK_BYTES: Final = 1 << 20
_RIGHT_COLUMNS: Final = 128


def bind_gemm(
    dtype: DType,
    transpose_left: bool = False,
    transpose_right: bool = False,
    adds: bool = False,
) -> Callable[..., bool] | None:
    """Returns a function that computes `out[...] = left @ right` and returns True.

    Its arguments are three numpy arrays, matrices or stacks of them: `left` [..., m, k] (or [...,
    k, m] if transposed), `right` [..., k, n], `out` [..., m, n], which overlaps neither. A factor
    may be in C or Fortran order or a slice of such a matrix, and broadcasts along the stack
    dimensions of `out`; no factor is copied as a whole. An optional fourth array of one element, of
    the same dtype, scales the products. The function does nothing and returns False for other
    arrays: other dtypes or strides, more than two stack dimensions that cannot be merged, sizes
    that do not fit or are 0; and if `out` has one row or one column, since numpy's own product is
    as fast then.

    Large products release the GIL and run on several threads, according to the current
    `threads.count()`. Thread-safe.

    Args:
        dtype: The dtype of all three arrays.
        transpose_left: Whether the last two dimensions of `left` are swapped first.
        transpose_right: The same for `right`.
        adds: Whether the products are added to `out`: as a whole if the sum is short, otherwise
            block by block.

    Returns:
        The function; None for another dtype, or without a code generator.
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
    """Returns the shape of tiles and blocks for this processor.

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
    """Returns the code for all products of a dtype, see `gemm_ir`."""
    return native.written_body(text, (form(dtype),), is_tidy=True)


@once
def packed_body(dtype: DType) -> native.Body:
    """Returns the code for all products of a dtype with packed right factors."""
    return native.written_body(text, (replace(form(dtype), right_is_packed=True),), is_tidy=True)


@once
def packing_body(dtype: DType) -> native.Body:
    """Returns the code that packs right factors, see `packing_ir`."""
    return native.written_body(packing_ir.text, (form(dtype),), is_tidy=True)


@once
def small_body(dtype: DType) -> native.Body:
    """Returns the code for small products, see `small_product`."""
    here = form(dtype)
    arguments = here.element, here.lanes, small_rows()
    return native.written_body(small_product.stack_text, arguments, is_tidy=True)


def small_rows() -> int:
    """Rows of a tile of a small product: two registers each, of possibly only 16."""
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
    """Whether an array's dtype is at the offset that generated code reads, see `host.available`."""
    array = np.zeros(1, np.float32)
    place = id(array) + gemm_entry.DESCRIPTOR
    return ctypes.c_int64.from_address(place).value == id(np.dtype(np.float32))
