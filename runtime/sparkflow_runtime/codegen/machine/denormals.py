"""Denormal numbers are zero while kernels run (ADR 0070).

Many processors take a hundred times longer for a sum or product with a denormal number, and
training produces them: values that decay, such as a moment that gets no more gradients, end there.
As in TensorFlow, machine code and numpy's computations within a step read and write denormals as
zeros. The mode is per thread, and is restored afterwards.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine import host
from sparkflow_runtime.codegen.machine.builtin import Builtin, address_in_python
from sparkflow_runtime.codegen.machine.host import DATA
from sparkflow_runtime.codegen.machine.linking import link
from sparkflow_runtime.once import once

_X86_BITS: Final = 1 << 15 | 1 << 6
"""Control bits that flush denormal results and arguments."""
_ARM_BITS: Final = 1 << 24
_X86: Final = f"""
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal i64 @flush_denormals() {{
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %before = load i32, ptr %place
  %flushing = or i32 %before, {_X86_BITS}
  store i32 %flushing, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  %mode = zext i32 %before to i64
  ret i64 %mode
}}

define internal void @restore_denormals(i64 %mode) {{
  %place = alloca i32
  %before = trunc i64 %mode to i32
  store i32 %before, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}}
"""
_ARM: Final = f"""
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal i64 @flush_denormals() {{
  %mode = call i64 @llvm.aarch64.get.fpcr()
  %flushing = or i64 %mode, {_ARM_BITS}
  call void @llvm.aarch64.set.fpcr(i64 %flushing)
  ret i64 %mode
}}

define internal void @restore_denormals(i64 %mode) {{
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}}
"""
_NONE: Final = """
define internal i64 @flush_denormals() {
  ret i64 0
}

define internal void @restore_denormals(i64 %mode) {
  ret void
}
"""
_TEXTS: Final = {"x86_64": _X86, "aarch64": _ARM}
_BITS: Final = {"x86_64": _X86_BITS, "aarch64": _ARM_BITS}


def text(machine: str = platform.machine()) -> str:
    """`i64 flush_denormals()`, which returns the previous mode, and `void restore_denormals(i64)`.

    Args:
        machine: The processor, as `platform.machine` names it; others keep denormal numbers.
    """
    return _TEXTS.get(machine, _NONE)


@once
def switches() -> tuple[Callable[[], bool], Callable[[], bool]]:
    """Functions that turn flushing of denormals on, returning whether it was, and off."""
    if not host.available():
        return (lambda: True), (lambda: True)
    linked = link(_builtins(), ("flush", "keep"))
    record = np.array([id(True), id(False), address_in_python("Py_IncRef")], np.int64)
    flush, keep = (Builtin(linked.address(name)).of(record) for name in ("flush", "keep"))
    return flush, keep


def _builtins() -> str:
    """Both as METH_FASTCALL functions, whose `self` is an array of True, False, `Py_IncRef`."""
    bits = _BITS.get(platform.machine(), 0)
    parts = []
    for name, is_kept in (("flush", False), ("keep", True)):
        mode = f"and i64 %before, {~bits}" if is_kept else f"or i64 %before, {bits}"
        parts.append(f"""
define ptr @{name}(ptr %self, ptr %args, i64 %nargs) {{
  %at_record = getelementptr i8, ptr %self, i64 {DATA}
  %record = load ptr, ptr %at_record
  %before = call i64 @flush_denormals()
  %after = {mode}
  call void @restore_denormals(i64 %after)
  %set = and i64 %before, {bits}
  %was_set = icmp eq i64 %set, {bits}
  %at_false = getelementptr ptr, ptr %record, i64 1
  %at_increment = getelementptr ptr, ptr %record, i64 2
  %true = load ptr, ptr %record
  %false = load ptr, ptr %at_false
  %increment = load ptr, ptr %at_increment
  %result = select i1 %was_set, ptr %true, ptr %false
  call void %increment(ptr %result)
  ret ptr %result
}}""")
    return text() + "".join(parts)
