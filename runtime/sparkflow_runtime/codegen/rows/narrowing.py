"""Machine code between float32 and the two formats of 16 bits: to the nearest, ties to even.

numpy converts float16 one number at a time: 16 MB take it 100 ms there and 35 ms back, this 1.2
(2026-11-21, a loaded machine; a copy took 2).
"""

from __future__ import annotations

from typing import Final

from sparkflow_runtime.codegen.rows.sparse_rows import Header, fields, loads, share
from sparkflow_runtime.dtypes import DType, bfloat16, float16, float32

_LANES: Final = 16
_BITS: Final = {float32: "i32", bfloat16: "i16", float16: "i16"}


def _to_half(of: str) -> str:
    return f"""
  %wide = bitcast {of % "i32"} %x to {of % "float"}
  %half = fptrunc {of % "float"} %wide to {of % "half"}
  %y = bitcast {of % "half"} %half to {of % "i16"}"""


def _from_half(of: str) -> str:
    return f"""
  %half = bitcast {of % "i16"} %x to {of % "half"}
  %wide = fpext {of % "half"} %half to {of % "float"}
  %y = bitcast {of % "float"} %wide to {of % "i32"}"""


def _to_bfloat(of: str) -> str:
    wide, bit = of % "i32", of % "i1"

    def number(value: int) -> str:
        return f"splat (i32 {value})" if of != _ONE else str(value)

    return f"""
  %high = lshr {wide} %x, {number(16)}
  %odd = and {wide} %high, {number(1)}
  %more = add {wide} %odd, {number(0x7FFF)}
  %sum = add {wide} %x, %more
  %rounded = lshr {wide} %sum, {number(16)}
  %size = and {wide} %x, {number(0x7FFFFFFF)}
  %is_number = icmp ule {wide} %size, {number(0x7F800000)}
  %sign = and {wide} %high, {number(0x8000)}
  %quiet = or {wide} %sign, {number(0x7FC0)}
  %chosen = select {bit} %is_number, {wide} %rounded, {wide} %quiet
  %y = trunc {wide} %chosen to {of % "i16"}"""


def _from_bfloat(of: str) -> str:
    sixteen = "splat (i32 16)" if of != _ONE else "16"
    return f"""
  %extended = zext {of % "i16"} %x to {of % "i32"}
  %y = shl {of % "i32"} %extended, {sixteen}"""


_ONE: Final = "%s"
_MANY: Final = f"<{_LANES} x %s>"
_CONVERSIONS: Final = {
    (float32, float16): _to_half,
    (float16, float32): _from_half,
    (float32, bfloat16): _to_bfloat,
    (bfloat16, float32): _from_bfloat,
}
PAIRS: Final = frozenset(_CONVERSIONS)
"""The conversions there are, as (from, to)."""


def conversion(source: DType, target: DType) -> str:
    """Converts arrays: `target[i] = source[i]`.

    Arrays: header, see `sparse_rows.Header`, of which `COUNT` and `PARTS` are read; the source; the
    target, which does not overlap it.
    """
    convert, here, there = _CONVERSIONS[source, target], _BITS[source], _BITS[target]

    def step(name: str, of: str) -> str:
        return f"""
define internal void @{name}(ptr %source, ptr %target, i64 %i) alwaysinline {{
  %at = getelementptr {here}, ptr %source, i64 %i
  %x = load {of % here}, ptr %at, align 1{convert(of)}
  %to_at = getelementptr {there}, ptr %target, i64 %i
  store {of % there} %y, ptr %to_at, align 1
  ret void
}}"""

    return f"""{step("one", _ONE)}{step("many", _MANY)}
define void @body(ptr %sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part) {{
start:{loads(("header", "source", "target"))}
  {fields(Header.COUNT, Header.PARTS)}
  {share("COUNT")}
  br label %blocks
blocks:
  %i = phi i64 [%from, %start], [%after, %block]
  %after = add i64 %i, {_LANES}
  %whole = icmp sle i64 %after, %to
  br i1 %whole, label %block, label %rest
block:
  call void @many(ptr %source, ptr %target, i64 %i)
  br label %blocks
rest:
  %k = phi i64 [%i, %blocks], [%next_k, %single]
  %more = icmp slt i64 %k, %to
  br i1 %more, label %single, label %end
single:
  call void @one(ptr %source, ptr %target, i64 %k)
  %next_k = add i64 %k, 1
  br label %rest
end:
  ret void
}}
"""
