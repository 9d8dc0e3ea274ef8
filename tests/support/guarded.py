"""Memory of numpy's arrays between inaccessible pages.

Every array created while this is enabled lies in its own pages, with its first or its last byte
next to an inaccessible page: reading or writing one byte too many ends the process with SIGSEGV,
also in machine code. So does using a freed array. numpy calls the allocator with errors pending, so
it is machine code itself. Requires Linux on processors with pages of 4 KiB.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from numpy._core import _multiarray_umath  # type: ignore[attr-defined]  # no stubs

_SET_HANDLER: Final = 304
"""The index of `PyDataMem_SetHandler` in numpy's table of C functions, part of its stable ABI."""
_CODE: Final = """
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @mprotect(ptr, i64, i32)
declare i32 @munmap(ptr, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; A page that says how large all is, a guard, the array's pages, a guard. The array begins in the
; first of its pages, be it at its start or so that its end is the end of the last.
define ptr @allocate(ptr %state, i64 %size) {
  %none = icmp eq i64 %size, 0
  %need = select i1 %none, i64 1, i64 %size
  %up = add i64 %need, 4095
  %room = and i64 %up, -4096
  %whole = add i64 %room, 12288
  %pages = call ptr @mmap(ptr null, i64 %whole, i32 3, i32 34, i32 -1, i64 0)
  %address = ptrtoint ptr %pages to i64
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %nothing, label %there
nothing:
  ret ptr null
there:
  store i64 %whole, ptr %pages
  %sized = getelementptr i64, ptr %pages, i64 1
  store i64 %size, ptr %sized
  %guard = getelementptr i8, ptr %pages, i64 4096
  %first = getelementptr i8, ptr %pages, i64 8192
  %end = getelementptr i8, ptr %first, i64 %room
  call i32 @mprotect(ptr %guard, i64 4096, i32 0)
  call i32 @mprotect(ptr %end, i64 4096, i32 0)
  %counter = getelementptr i64, ptr %state, i64 1
  %before = load i64, ptr %counter
  %after = add i64 %before, 1
  store i64 %after, ptr %counter
  %old = load i64, ptr %state
  %times = mul i64 %old, 6364136223846793005
  %new = add i64 %times, 1442695040888963407
  %is_off = icmp eq i64 %old, 0
  %kept = select i1 %is_off, i64 0, i64 %new
  store i64 %kept, ptr %state
  %high = lshr i64 %kept, 33
  %part = urem i64 %high, 5
  %low = icmp ult i64 %part, 2
  %on = xor i1 %is_off, true
  %at_start = and i1 %low, %on
  %back = sub i64 0, %need
  %last = getelementptr i8, ptr %end, i64 %back
  %place = select i1 %at_start, ptr %first, ptr %last
  ret ptr %place
}

define ptr @pages_of(ptr %place) {
  %address = ptrtoint ptr %place to i64
  %page = and i64 %address, -4096
  %start = sub i64 %page, 8192
  %pages = inttoptr i64 %start to ptr
  ret ptr %pages
}

define void @free(ptr %state, ptr %place, i64 %size) {
  %none = icmp eq ptr %place, null
  br i1 %none, label %done, label %there
there:
  %pages = call ptr @pages_of(ptr %place)
  %whole = load i64, ptr %pages
  call i32 @munmap(ptr %pages, i64 %whole)
  br label %done
done:
  ret void
}

define ptr @zeros(ptr %state, i64 %count, i64 %size) {
  %all = mul i64 %count, %size
  %place = call ptr @allocate(ptr %state, i64 %all)
  ret ptr %place
}

define ptr @resize(ptr %state, ptr %old, i64 %size) {
  %place = call ptr @allocate(ptr %state, i64 %size)
  %none = icmp eq ptr %old, null
  br i1 %none, label %done, label %there
there:
  %pages = call ptr @pages_of(ptr %old)
  %sized = getelementptr i64, ptr %pages, i64 1
  %had = load i64, ptr %sized
  %grows = icmp ult i64 %had, %size
  %kept = select i1 %grows, i64 %had, i64 %size
  call void @llvm.memcpy.p0.p0.i64(ptr %place, ptr %old, i64 %kept, i1 false)
  call void @free(ptr %state, ptr %old, i64 0)
  br label %done
done:
  ret ptr %place
}
"""


class _Handler(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("state", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    ]


class Guarded:
    """An allocator for numpy. The GIL guards all of it."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        assert mmap.PAGESIZE == 4096
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_CODE), machine)
        self._engine.finalize_object()
        self._state = (ctypes.c_int64 * 2)()
        names = "allocate", "zeros", "resize", "free"
        functions = map(self._engine.get_function_address, names)
        self._handler = _Handler(b"guarded", 1, ctypes.addressof(self._state), *functions)

    @property
    def arrays(self) -> int:
        """The number of arrays created."""
        return int(self._state[1])

    def draw(self, seed: int) -> None:
        """Puts two of five later arrays at the start of their pages; with seed 0, none."""
        self._state[0] = seed

    @contextmanager
    def on(self) -> Iterator[None]:
        """Guards arrays created within the block, for as long as they live."""
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        api.PyCapsule_New.restype = ctypes.py_object
        api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        table: Any = _multiarray_umath._ARRAY_API
        start = api.PyCapsule_GetPointer(table, None)
        functions = ctypes.cast(start, ctypes.POINTER(ctypes.c_void_p))
        function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(functions[_SET_HANDLER])
        _kept.append(self)
        before = function(api.PyCapsule_New(ctypes.addressof(self._handler), b"mem_handler", None))
        try:
            yield
        finally:
            function(before)


_kept: Final[list[Guarded]] = []
"""Arrays may outlive the caller that enabled this."""
