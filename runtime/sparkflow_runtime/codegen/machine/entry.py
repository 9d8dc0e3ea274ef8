"""How Python calls machine code: one function in C's calling convention for all kernels.

CPython calls it as a builtin (METH_FASTCALL). It reads the arrays' fields directly, which takes
about a hundred nanoseconds where `ndarray.ctypes` takes a microsecond each, and then calls the
kernel's `body` with the raw addresses. Its data about a kernel is a record of int64 numbers, the
contents of the array that CPython passes as `self`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import denormals
from sparkflow_runtime.codegen.machine.builtin import Builtin, address_in_python
from sparkflow_runtime.codegen.machine.host import (
    C_CONTIGUOUS,
    DATA,
    DIMENSIONS,
    DIMENSIONS_NUMBER,
    FLAGS,
)

NOT_COUNTED: Final = -1
"""The element count for an array of any size and strides, which is not checked."""


class _Field(IntEnum):
    """Fields of the record; the arrays' counts follow them, then the sizes."""

    BODY = 0
    RUN_PARTS = 1
    POOL = 2
    PARTS = 3
    RELEASES_GIL = 4
    EXTENT = 5
    ARRAYS = 6
    ARRAY_TYPE = 7
    TRUE = 8
    FALSE = 9
    INCREMENT = 10
    SAVE_THREAD = 11
    RESTORE_THREAD = 12
    SIZES = 13
    COUNTS = 14


def _load_field(field: _Field, kind: str = "i64") -> str:
    return f"""
  %at_{field.name} = getelementptr i64, ptr %record, i64 {field.value}
  %{field.name} = load {kind}, ptr %at_{field.name}"""


def _loads(*fields: tuple[_Field, str]) -> str:
    return "".join(_load_field(field, kind) for field, kind in fields)


RUN_PART: Final = """
%arguments = type { ptr, ptr, ptr, i64, i64 }

define void @run_part(ptr %given, i64 %part) {
  %body = load ptr, ptr %given
  %at_sizes = getelementptr %arguments, ptr %given, i32 0, i32 1
  %sizes = load ptr, ptr %at_sizes
  %at_arrays = getelementptr %arguments, ptr %given, i32 0, i32 2
  %arrays = load ptr, ptr %at_arrays
  %at_extent = getelementptr %arguments, ptr %given, i32 0, i32 3
  %extent = load i64, ptr %at_extent
  %at_parts = getelementptr %arguments, ptr %given, i32 0, i32 4
  %parts = load i64, ptr %at_parts
  %next = add i64 %part, 1
  %low_product = mul i64 %extent, %part
  %low = sdiv i64 %low_product, %parts
  %high_product = mul i64 %extent, %next
  %high = sdiv i64 %high_product, %parts
  call void %body(ptr %sizes, ptr %arrays, i64 %low, i64 %high, i64 %part)
  ret void
}
"""
"""Code that runs one part of a body, for the thread pool; `%arguments` describes the call."""


def run_parts(
    run: str, pool: str, body: str, sizes: str, arrays: str, extent: str, parts: str
) -> str:
    """Returns code that runs all parts of a body by `RUN_PART` on a thread pool and waits.

    `%given` is a slot for `%arguments`; allocating it in a function's entry block avoids dynamic
    stack adjustment.

    Args:
        run: The register with the address of the pool's `run`; the others are registers or numbers.
        pool: The threads.
        body: The code.
        sizes: Its sizes.
        arrays: Addresses of the arrays.
        extent: End of the outermost loop; 0 for a body that divides the work itself.
        parts: Number of parts.
    """
    values = (f"ptr {body}", f"ptr {sizes}", f"ptr {arrays}", f"i64 {extent}", f"i64 {parts}")
    stores = "".join(
        f"""
  %given_{place} = getelementptr %arguments, ptr %given, i32 0, i32 {place}
  store {value}, ptr %given_{place}"""
        for place, value in enumerate(values)
    )
    return f"""{stores}
  %parts_32 = trunc i64 {parts} to i32
  call void {run}(ptr {pool}, ptr @run_part, ptr %given, i32 %parts_32)"""


TEXT: Final = f"""{RUN_PART}{denormals.text()}
define ptr @entry(ptr %self, ptr %args, i64 %nargs) {{
start:
  %at_record = getelementptr i8, ptr %self, i64 {DATA}
  %record = load ptr, ptr %at_record
  {_loads((_Field.ARRAYS, "i64"), (_Field.ARRAY_TYPE, "ptr"))}
  {_loads((_Field.TRUE, "ptr"), (_Field.FALSE, "ptr"), (_Field.INCREMENT, "ptr"))}
  %counts = getelementptr i64, ptr %record, i64 {_Field.COUNTS.value}
  %right_number = icmp eq i64 %nargs, %ARRAYS
  br i1 %right_number, label %begin, label %refuse

begin:
  %pointers = alloca ptr, i64 %ARRAYS
  %any = icmp sgt i64 %ARRAYS, 0
  br i1 %any, label %look, label %run

look:
  %i = phi i64 [0, %begin], [%next_i, %accept]
  %at_object = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %at_object
  %at_type = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %at_type
  %is_array = icmp eq ptr %type, %ARRAY_TYPE
  br i1 %is_array, label %take, label %refuse

take:
  %at_data = getelementptr i8, ptr %object, i64 {DATA}
  %data = load ptr, ptr %at_data
  %at_pointer = getelementptr ptr, ptr %pointers, i64 %i
  store ptr %data, ptr %at_pointer
  %at_count = getelementptr i64, ptr %counts, i64 %i
  %count = load i64, ptr %at_count
  %counted = icmp sge i64 %count, 0
  br i1 %counted, label %check, label %accept

check:
  %at_flags = getelementptr i8, ptr %object, i64 {FLAGS}
  %flags = load i32, ptr %at_flags
  %contiguous_bit = and i32 %flags, {C_CONTIGUOUS}
  %contiguous = icmp ne i32 %contiguous_bit, 0
  br i1 %contiguous, label %measure, label %refuse

measure:
  %at_rank = getelementptr i8, ptr %object, i64 {DIMENSIONS_NUMBER}
  %rank32 = load i32, ptr %at_rank
  %rank = sext i32 %rank32 to i64
  %at_dims = getelementptr i8, ptr %object, i64 {DIMENSIONS}
  %dims = load ptr, ptr %at_dims
  br label %multiply

multiply:
  %d = phi i64 [0, %measure], [%next_d, %factor]
  %product = phi i64 [1, %measure], [%larger, %factor]
  %more_dims = icmp slt i64 %d, %rank
  br i1 %more_dims, label %factor, label %compare

factor:
  %at_dim = getelementptr i64, ptr %dims, i64 %d
  %dim = load i64, ptr %at_dim
  %larger = mul i64 %product, %dim
  %next_d = add i64 %d, 1
  br label %multiply

compare:
  %right_count = icmp eq i64 %product, %count
  br i1 %right_count, label %accept, label %refuse

accept:
  %next_i = add i64 %i, 1
  %more = icmp slt i64 %next_i, %ARRAYS
  br i1 %more, label %look, label %run

refuse:
  call void %INCREMENT(ptr %FALSE)
  ret ptr %FALSE

run:
  {_loads((_Field.BODY, "ptr"), (_Field.SIZES, "ptr"), (_Field.EXTENT, "i64"))}
  {_loads((_Field.PARTS, "i64"), (_Field.RELEASES_GIL, "i64"))}
  %releases = icmp ne i64 %RELEASES_GIL, 0
  br i1 %releases, label %release, label %go

release:
  {_loads((_Field.SAVE_THREAD, "ptr"))}
  %state = call ptr %SAVE_THREAD()
  br label %go

go:
  %thread = phi ptr [null, %run], [%state, %release]
  %denormals = call i64 @flush_denormals()
  %serial = icmp sle i64 %PARTS, 1
  br i1 %serial, label %alone, label %together

alone:
  call void %BODY(ptr %SIZES, ptr %pointers, i64 0, i64 %EXTENT, i64 0)
  br label %done

together:
  {_loads((_Field.RUN_PARTS, "ptr"), (_Field.POOL, "ptr"))}
  %given = alloca %arguments
  {run_parts("%RUN_PARTS", "%POOL", "%BODY", "%SIZES", "%pointers", "%EXTENT", "%PARTS")}
  br label %done

done:
  call void @restore_denormals(i64 %denormals)
  br i1 %releases, label %restore, label %accepted

restore:
  {_loads((_Field.RESTORE_THREAD, "ptr"))}
  call void %RESTORE_THREAD(ptr %thread)
  br label %accepted

accepted:
  call void %INCREMENT(ptr %TRUE)
  ret ptr %TRUE
}}
"""
"""The module of the entry, without its target."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What other code needs to run a bound kernel; addresses are valid while the kernel lives.

    Attributes:
        body: Address of its code.
        sizes: Address of its sizes.
        extent: End of the outermost loop.
        parts: Number of concurrent parts.
        run_parts: Address of the pool's `run`; 0 for a single part.
        pool: Address of the threads that run them.
    """

    body: int
    sizes: int
    extent: int
    parts: int
    run_parts: int
    pool: int


def bound(kernel: Any) -> Bound:
    """Returns the fields of a function that `Entry.bind` returned."""
    record = kernel.__self__
    fields = (_Field.BODY, _Field.SIZES, _Field.EXTENT, _Field.PARTS, _Field.RUN_PARTS, _Field.POOL)
    return Bound(*(int(record[field]) for field in fields))


class Entry:
    """Creates callables from bodies.

    Args:
        address: Address of the compiled `entry`.
    """

    def __init__(self, address: int) -> None:
        self._builtin = Builtin(address)
        self._common = {
            _Field.ARRAY_TYPE: id(np.ndarray),
            _Field.TRUE: id(True),
            _Field.FALSE: id(False),
            _Field.INCREMENT: address_in_python("Py_IncRef"),
            _Field.SAVE_THREAD: address_in_python("PyEval_SaveThread"),
            _Field.RESTORE_THREAD: address_in_python("PyEval_RestoreThread"),
        }

    def bind(
        self,
        body: int,
        sizes: Sequence[int],
        counts: Sequence[int],
        extent: int,
        parts: int,
        pool: tuple[int, int],
        releases_gil: bool,
    ) -> Callable[..., bool]:
        """Returns a builtin that runs the body at this address; see `native.Body.bind`."""
        record = np.zeros(_Field.COUNTS + len(counts) + len(sizes), np.int64)
        for field, value in self._common.items():
            record[field] = value
        record[_Field.BODY] = body
        record[_Field.RUN_PARTS], record[_Field.POOL] = pool
        record[_Field.PARTS] = parts
        record[_Field.RELEASES_GIL] = releases_gil
        record[_Field.EXTENT] = extent
        record[_Field.ARRAYS] = len(counts)
        sizes_at = _Field.COUNTS + len(counts)
        record[_Field.COUNTS : sizes_at] = counts
        record[sizes_at:] = sizes
        record[_Field.SIZES] = record.ctypes.data + sizes_at * record.itemsize
        return self._builtin.of(record)
