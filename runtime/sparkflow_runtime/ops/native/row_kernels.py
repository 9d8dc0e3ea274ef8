"""Gathers, sums, updates and deduplication of rows of host tables by machine code.

Ops try these functions first. If machine code does not support the arrays (no code generator, other
dtypes, gaps between rows), they return None and the op uses numpy. For an index out of bounds they
return None or False, and the op then reports the error.

The kernels' scratch memory is kept per thread and grows to the largest size needed.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.kernel import Instruction, Kernel, Operand
from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.rows import sparse_rows, sparse_rows_update
from sparkflow_runtime.codegen.rows.sparse_rows import HEADER_SIZE, Header
from sparkflow_runtime.codegen.rows.sparse_rows_update import Rule
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.once import latest, once
from sparkflow_runtime.ops.op import Array

_INDICES: Final = {np.dtype(np.int32): dtypes.int32, np.dtype(np.int64): dtypes.int64}
_FLOATS: Final = {np.dtype(np.float32): dtypes.float32, np.dtype(np.float64): dtypes.float64}
_NUMBERS: Final = {**_INDICES, **_FLOATS}
_MOST_INDICES: Final = 2**31 - 1
_SHARED_BYTES: Final = 1 << 20
"""Smaller inputs are processed by a single thread."""
_SHARED_COPY_BYTES: Final = 1 << 22
"""The same for gathers: 1 MB takes two threads as long as one (2026-11-21)."""
_KNOWN_ROW_BYTES: Final = 512
"""Larger rows share one gathering kernel."""
_MOST_KERNELS: Final = 256
_SHARED_COLUMNS: Final = 32
"""Smaller rows are not split."""
_SHORT_BYTES: Final = 1 << 14
"""Larger inputs are processed without holding the GIL."""
_SHORT_COUNT: Final = 1 << 11
_MOST_KEPT: Final = 1 << 20
"""Scratch memory for more indices, or for larger rows, is not kept."""
_PACK_HEADER: Final = struct.Struct(f"{HEADER_SIZE}q").pack_into


SET: Final = "set"
"""The function for `scatter` that replaces the row by the update."""


class _Memory(threading.local):
    """The scratch memory of one thread's kernels.

    Attributes:
        header: See `sparse_rows.Header`.
    """

    def __init__(self) -> None:
        self._bytes = bytearray(8 * HEADER_SIZE)
        self.header = np.frombuffer(self._bytes, np.int64)
        self._chains: tuple[Array, ...] = ()
        self._capacity = -1
        self._parts = np.empty(1, np.int64)
        self._row = np.empty(0, np.uint8)

    def fill(
        self, count: int, bound: int, row: int, parts: int, shift: int = 0, sources: int = 0
    ) -> Array:
        """The header with these numbers."""
        _PACK_HEADER(self._bytes, 0, count, bound, shift, row, sources, parts, 0, -1)
        return self.header

    def chains(self, count: int) -> tuple[int, tuple[Array, ...]]:
        """The header's `SHIFT`, and the arrays of `sparse_rows.distinct` after the indices."""
        bits = max(1, (2 * count - 1).bit_length())
        if count <= self._capacity:
            return 64 - bits, self._chains
        chains = (
            np.empty(1 << bits, np.int32),
            np.empty(count, np.int64),
            *(np.empty(count, np.int32) for _ in range(4)),
        )
        if count <= _MOST_KEPT:
            self._chains, self._capacity = chains, count
        return 64 - bits, chains

    def parts(self, parts: int) -> Array:
        """One int64 per part."""
        if self._parts.size < parts:
            self._parts = np.empty(parts, np.int64)
        return self._parts

    def row(self, size_bytes: int) -> Array:
        """Scratch bytes of at least this size."""
        if size_bytes > _MOST_KEPT:
            return np.empty(size_bytes, np.uint8)
        if self._row.size < size_bytes:
            self._row = np.empty(size_bytes, np.uint8)
        return self._row


_memory = _Memory()


def gather(table: Array, indices: Array, out: Array | None = None) -> Array | None:
    """Gathers rows of a table: `table[indices]`.

    Args:
        table: [rows, ...] of any dtype but object.
        indices: Integers of any shape.
        out: `indices.shape + table.shape[1:]` of the table's dtype, contiguous, not overlapping the
            table; created if not given.

    Returns:
        `out`; None if an index is out of bounds or machine code does not support the arrays.
    """
    indices = _compact(indices)
    index = _index_of(indices)
    if index is None or not _is_plain(table) or indices.size > _MOST_INDICES:
        return None
    if out is None:
        out = np.empty(indices.shape + table.shape[1:], table.dtype)
    row = math.prod(table.shape[1:]) * table.itemsize
    parts = _parts(out.nbytes, _SHARED_COPY_BYTES)
    bad = _memory.parts(parts)
    header = _memory.fill(indices.size, table.shape[0], row, parts)
    known_row = row if row <= _KNOWN_ROW_BYTES else 0
    _gather(index, known_row, parts, out.nbytes > _SHORT_BYTES)(header, indices, table, out, bad)
    found = bad[0] >= 0 if parts == 1 else (bad[:parts] >= 0).any()
    return None if found else out


def distinct(values: Array) -> tuple[Array, Array] | None:
    """The first positions of the distinct elements of a vector, and the number of each among them.

    Args:
        values: [n] integers.

    Returns:
        Two int32 vectors, in order of appearance and [n]; None if machine code does not support the
        values.
    """
    values = _compact(values)
    index = _index_of(values)
    if index is None or values.size > _MOST_INDICES:
        return None
    count = values.size
    shift, chains = _memory.chains(count)
    header = _memory.fill(count, 0, 0, 1, shift)
    _distinct(index, False, count > _SHORT_COUNT)(header, values, *chains)
    _, _, number, first, _, _ = chains
    return first[: header[Header.DISTINCT]].copy(), number[:count].copy()


def update(
    rule: Rule, tables: Sequence[Array], indices: Array, updates: Array, scalars: Sequence[Array]
) -> bool | None:
    """Applies a rule once to each distinct row, with the sum of its updates.

    Args:
        rule: A rule for these dtypes, see `codegen.sparse_rows_update`.
        tables: [rows, ...] each, of one shape and dtype, float32 or float64; changed in place.
        indices: [n] integers.
        updates: [n, ...] of that dtype and shape of rows.
        scalars: Numbers of the rule's dtypes, as arrays of one element.

    Returns:
        True on success; False if an index is out of bounds, None if machine code does not support
        the arrays. Nothing is changed then.
    """
    first_table, indices, updates = tables[0], _compact(indices), _compact(updates)
    index, dtype = _index_of(indices), _FLOATS.get(first_table.dtype)
    if index is None or dtype is None or indices.size > _MOST_INDICES:
        return None
    if not all(map(_is_plain, tables)) or not _is_plain(updates):
        return None
    if any(np.may_share_memory(updates, table) for table in tables):
        updates = updates.copy()
    count, bound, row = indices.size, first_table.shape[0], math.prod(first_table.shape[1:])
    parts = _parts(updates.nbytes * len(tables))
    is_long = updates.nbytes > _SHORT_BYTES
    shift, chains = _memory.chains(count)
    header = _memory.fill(count, bound, row, parts, shift)
    _distinct(index, True, is_long)(header, indices, *chains)
    if header[Header.BAD] >= 0:
        return False
    memory = _memory.row(parts * row * dtype.size)
    _, rows, _, first, _, following = chains
    run = _update(rule, dtype, parts, is_long)
    return run(header, rows, first, following, updates, memory, *tables, *scalars)


def scatter(
    function: str,
    table: Array,
    indices: Array,
    updates: Array,
    sources: Array | None = None,
    factors: Array | None = None,
) -> bool | None:
    """Updates one row per index, in order: `table[indices[i]] = f(that row, updates[i])`.

    Args:
        function: A binary function: `add`, ..., see `codegen.kernel.ARITHMETIC`; or `SET`.
        table: [rows, ...], changed in place.
        indices: Integers of any shape.
        updates: `indices.shape + table.shape[1:]` of the table's dtype, or a scalar; with `sources`
            any number of rows.
        sources: The row of `updates` to use for each index.
        factors: What to multiply each row of `updates` by, of the table's dtype, as many as
            indices.

    Returns:
        As `update`.
    """
    indices, updates = _compact(indices), _compact(updates)
    index, dtype = _index_of(indices), _NUMBERS.get(table.dtype)
    source = None if sources is None else _index_of(sources)
    is_scalar = not updates.ndim
    if index is None or dtype is None or (sources is not None and source is None):
        return None
    if function == SET and is_scalar:  # numpy is faster at that
        return None
    if not _is_plain(table) or not _is_plain(updates) or updates.dtype != table.dtype:
        return None
    if factors is not None and (
        not _is_plain(factors) or factors.dtype != table.dtype or factors.size != indices.size
    ):
        return None
    if np.may_share_memory(updates, table):
        updates = updates.copy()
    row = math.prod(table.shape[1:])
    size_bytes = indices.size * row * dtype.size
    parts = _parts(size_bytes) if row >= _SHARED_COLUMNS else 1
    rows = updates.shape[0] if sources is not None else 0
    header = _memory.fill(indices.size, table.shape[0], row, parts, sources=rows)
    is_long, is_scaled = size_bytes > _SHORT_BYTES, factors is not None
    run = _scatter(function, index, dtype, is_scalar, source, is_scaled, parts, is_long)
    given = [each for each in (sources, factors) if each is not None]
    if not run(header, indices, table, updates, *given):
        return None
    return bool(header[Header.BAD] < 0)


def sum_rows(
    data: Array,
    ids: Array,
    count: int,
    sources: Array | None = None,
    factors: Array | None = None,
) -> Array | None:
    """Row s of the result is the sum of the rows of `data` whose id is s, in order.

    Args:
        data: [rows, ...].
        ids: [rows] integers in [0, count).
        count: Rows of the result.
        sources: [rows] integers: sums `data[sources]` instead.
        factors: [rows] numbers of the dtype of `data` to multiply the rows by.

    Returns:
        [count, ...]; None if machine code does not support the arrays.
    """
    if data.dtype not in _NUMBERS or not data.ndim:
        return None
    sums = np.zeros((count, *data.shape[1:]), data.dtype)
    return sums if scatter("add", sums, ids, data, sources, factors) else None


def _compact(array: Array) -> Array:
    """The same, contiguous: gradients of concatenated parts and columns of a matrix are not."""
    if type(array) is not np.ndarray or array.flags.c_contiguous:
        return array
    return np.ascontiguousarray(array)


def _index_of(indices: Array) -> DType | None:
    """The dtype of indices, if machine code supports it."""
    if type(indices) is not np.ndarray or not indices.flags.c_contiguous or not native.available():
        return None
    return _INDICES.get(indices.dtype)


def _is_plain(array: Array) -> bool:
    return type(array) is np.ndarray and array.flags.c_contiguous and not array.dtype.hasobject


def _parts(size_bytes: int, least: int = _SHARED_BYTES) -> int:
    return threads.count() if size_bytes >= least else 1


@latest(_MOST_KERNELS)
def _gather(index: DType, row_bytes: int, parts: int, releases_gil: bool) -> Callable[..., bool]:
    return _bound(sparse_rows.gather(index, row_bytes), 5, parts, releases_gil)


@once
def _distinct(index: DType, checked: bool, releases_gil: bool) -> Callable[..., bool]:
    return _bound(sparse_rows.distinct(index, checked), 8, 1, releases_gil)


@once
def _update(rule: Rule, dtype: DType, parts: int, releases_gil: bool) -> Callable[..., bool]:
    text = sparse_rows_update.update(rule, dtype)
    return _bound(text, 6 + rule.count("table") + rule.count("scalar"), parts, releases_gil)


@once
def _scatter(
    function: str,
    index: DType,
    dtype: DType,
    is_scalar: bool,
    source: DType | None,
    is_scaled: bool,
    parts: int,
    releases_gil: bool,
) -> Callable[..., bool]:
    row, given = Operand(dtype, (True,)), Operand(dtype, (not is_scalar,))
    inputs, roles = [given], ["scalar0" if is_scalar else "update"]
    if is_scaled:
        inputs.append(Operand(dtype, (False,)))
        roles.append("factor")
    if function != SET:
        inputs.append(row)
        roles.append("table0")
    result, instructions = 0, []
    if is_scaled:
        result = len(inputs)
        instructions.append(Instruction("multiply", (0, 1), dtype))
    if function != SET:
        instructions.append(Instruction(function, (len(inputs) - 1, result), dtype))
        result = len(inputs) + len(instructions) - 1
    kernel = Kernel(1, tuple(inputs), tuple(instructions), (result,))
    rule = sparse_rows_update.rule(kernel, (*roles, "table0"))
    text = sparse_rows_update.scatter(rule, index, dtype, source)
    return _bound(text, 4 + (source is not None) + is_scaled, parts, releases_gil)


def _bound(text: str, arrays: int, parts: int, releases_gil: bool) -> Callable[..., bool]:
    counts = [NOT_COUNTED] * arrays
    return native.body(text).bind((), counts, parts, threads=parts, releases_gil=releases_gil)
