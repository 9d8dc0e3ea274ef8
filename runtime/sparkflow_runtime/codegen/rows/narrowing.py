"""Conversion between float32 and the two 16-bit formats: to nearest, ties to even.

numpy converts float16 one number at a time: 16 MB take 100 ms there and 35 ms back, here 1.2
(2026-11-21, a loaded machine; a copy took 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sparkflow_runtime.codegen.rows.sparse_rows import Header, fields, loads, share
from sparkflow_runtime.dtypes import DType, bfloat16, float16, float32

_LANES: Final = 16
SPREAD: Final = 0x9E3779B1
"""Multiplier of a position before mixing."""
MIXES: Final = ((16, 0x85EBCA6B), (13, 0xC2B2AE35))
"""How a number's bits are mixed: xor with itself shifted right, then a multiplication.

The constants are those of MurmurHash3 (Appleby)."""
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


def _number(of: str, value: int) -> str:
    return f"splat (i32 {value})" if of != _ONE else str(value)


def _to_bfloat(of: str) -> str:
    wide = of % "i32"
    return f"""
  %odd_high = lshr {wide} %x, {_number(of, 16)}
  %odd = and {wide} %odd_high, {_number(of, 1)}
  %more = add {wide} %odd, {_number(of, 0x7FFF)}{_cut(of)}"""


def _by_chance(of: str) -> str:
    """As `_to_bfloat`, with random bits instead of half a unit in the last place."""
    wide = of % "i32"
    mixes, bits = "", "%spread"
    for n, (shift, factor) in enumerate(MIXES):
        mixes += f"""
  %shifted{n} = lshr {wide} {bits}, {_number(of, shift)}
  %folded{n} = xor {wide} {bits}, %shifted{n}
  %mixed{n} = mul {wide} %folded{n}, {_number(of, factor)}"""
        bits = f"%mixed{n}"
    return f"""
  %scaled = mul {wide} %places, {_number(of, SPREAD)}
  %spread = add {wide} %scaled, %seeds{mixes}
  %more = lshr {wide} {bits}, {_number(of, 16)}{_cut(of)}"""


def _cut(of: str) -> str:
    """Truncates the sum of %x and %more; NaN stays NaN."""
    wide, bit = of % "i32", of % "i1"

    def number(value: int) -> str:
        return _number(of, value)

    return f"""
  %high = lshr {wide} %x, {number(16)}
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
"""The supported conversions, as (from, to)."""


def by_chance() -> str:
    """Returns code that converts float32 to bfloat16 by stochastic rounding.

    Arrays: as for `conversion`, plus a 32-bit seed, an int64. The random bits are a hash of
    position and seed, so they do not depend on the number of threads.
    """
    lanes = ", ".join(f"i32 {n}" for n in range(_LANES))

    def step(name: str, of: str) -> str:
        wide = of % "i32"
        if of == _ONE:
            places = "%places = trunc i64 %i to i32\n  %seeds = trunc i64 %seed to i32"
        else:
            places = f"""%first = trunc i64 %i to i32
  %one_first = insertelement {wide} poison, i32 %first, i64 0
  %firsts = shufflevector {wide} %one_first, {wide} poison, {wide} zeroinitializer
  %places = add {wide} %firsts, <{lanes}>
  %short = trunc i64 %seed to i32
  %one_seed = insertelement {wide} poison, i32 %short, i64 0
  %seeds = shufflevector {wide} %one_seed, {wide} poison, {wide} zeroinitializer"""
        return f"""
define internal void @{name}(ptr %source, ptr %target, i64 %i, i64 %seed) alwaysinline {{
  {places}
  %at = getelementptr i32, ptr %source, i64 %i
  %x = load {wide}, ptr %at, align 1{_by_chance(of)}
  %to_at = getelementptr i16, ptr %target, i64 %i
  store {of % "i16"} %y, ptr %to_at, align 1
  ret void
}}"""

    load = "  %seed = load i64, ptr %seeds"
    body = _blocks(("header", "source", "target", "seeds"), load, ", i64 %seed")
    return f"{step('one', _ONE)}{step('many', _MANY)}\n{body}"


def conversion(source: DType, target: DType) -> str:
    """Returns code that converts arrays: `target[i] = source[i]`.

    Arrays: header, see `sparse_rows.Header`, of which `COUNT` and `PARTS` are read; the source; the
    target, which must not overlap it.
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
{_blocks(("header", "source", "target"))}"""


def _blocks(arrays: Sequence[str], before: str = "", given: str = "") -> str:
    """Returns the body: `many` for each block of a part, `one` for the remainder.

    Args:
        arrays: Names of the arrays.
        before: Lines to put first.
        given: Arguments of the two in addition to the arrays and the position.
    """
    return f"""
define void @body(ptr %sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part) {{
start:{loads(arrays)}
  {fields(Header.COUNT, Header.PARTS)}
  {share("COUNT")}
{before}
  br label %blocks
blocks:
  %i = phi i64 [%from, %start], [%after, %block]
  %after = add i64 %i, {_LANES}
  %whole = icmp sle i64 %after, %to
  br i1 %whole, label %block, label %rest
block:
  call void @many(ptr %source, ptr %target, i64 %i{given})
  br label %blocks
rest:
  %k = phi i64 [%i, %blocks], [%next_k, %single]
  %more = icmp slt i64 %k, %to
  br i1 %more, label %single, label %end
single:
  call void @one(ptr %source, ptr %target, i64 %k{given})
  %next_k = add i64 %k, 1
  br label %rest
end:
  ret void
}}
"""
