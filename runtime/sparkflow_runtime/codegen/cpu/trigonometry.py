"""Sines and cosines of arrays of known size, for loops that call the kernel in every iteration.

x is k π/2 + r with r between -π/4 and π/4, where polynomials approximate both. π/2 is subtracted in
parts, so that r is exact unless k is too large; larger arguments are refused. For float32, r is
computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value, Vectors
from sparkflow_runtime.dtypes import DType, float32, float64
from sparkflow_runtime.once import once

_KINDS: Final = {float32: "float", float64: "double"}
NUMBERS: Final = tuple(_KINDS)
MOST: Final = 2.0**19
"""Upper bound of arguments: 19 bits of k and 33 bits of a part of π/2 fit into a float64."""
_QUARTERS: Final = 0.6366197723675814
"""2 / π."""
_PARTS: Final = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""Parts of π/2, as in fdlibm's e_rem_pio2.c (Sun, 1993): 33 bits, 33 bits, and the rest."""
_SINE: Final = {
    float32: (-0.16666654611, 8.3321608736e-3, -1.9515295891e-4),
    float64: (
        *(-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04),
        *(2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10),
    ),
}
"""(sin(r) / r - 1) / r^2 as a polynomial of r^2: Cephes' sinf.c (Moshier), fdlibm's k_sin.c."""
_COSINE: Final = {
    float32: (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5),
    float64: (
        *(4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05),
        *(-2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11),
    ),
}
"""(cos(r) - 1 + r^2 / 2) / r^4, likewise."""


def bind_sine(number: DType, count: int, is_cosine: bool) -> Callable[..., bool]:
    """Returns a function of an array, the sines or cosines that it fills, and an int32.

    The int32 becomes 0, or 1 if the absolute value of an element is not below `MOST`.

    Args:
        number: Element type, one of `NUMBERS`.
        count: Number of elements.
        is_cosine: Whether to compute cosines.
    """
    return _body(number).bind((count, int(is_cosine)), [entry.NOT_COUNTED] * 3, 0)


@once
def _body(number: DType) -> native.Body:
    code, kind, width = Code(), _KINDS[number], 8 * number.size
    vectors = Vectors.whole(code, kind)
    wide = Vectors(code, "double", vectors.lanes)
    count, first = code.sizes(2)
    first = code.let(f"trunc i64 {first} to i{width}") if width < 64 else first
    source, target, failure = code.arrays(3)
    is_wrong = code.variable("i1", "false")
    with code.loop(0, count, vectors.lanes) as i:
        mask = vectors.first(code.subtract(count, i))
        x = vectors.load(source, i, mask)
        size = code.call(vectors.kind, f"llvm.fabs.{vectors.suffix}", (vectors.kind, x))
        is_large = code.let(f"fcmp oge {vectors.kind} {size}, {vectors.constant(MOST)}")
        reduce = f"llvm.vector.reduce.or.v{vectors.lanes}i1"
        any_large = code.call("i1", reduce, (vectors.truth, is_large))
        code.set(is_wrong, code.either(code.get(is_wrong, "i1"), any_large), "i1")
        r, quarters = _reduced(vectors, wide, vectors.select(is_large, "zeroinitializer", x))
        square = vectors.multiply(r, r)
        sine = vectors.multiply(_polynomial(vectors, square, number, _SINE), square)
        sine = vectors.multiply_add(sine, r, r)
        cosine = vectors.multiply(_polynomial(vectors, square, number, _COSINE), square)
        cosine = vectors.multiply(vectors.add(cosine, vectors.constant(-0.5)), square)
        cosine = vectors.add(cosine, vectors.constant(1.0))
        bits = f"<{vectors.lanes} x i{width}>"
        quarters = code.let(f"add {bits} {quarters}, {_splat_whole(code, bits, first)}")
        one, two, shift = (_splat_whole(code, bits, n) for n in (1, 2, width - 2))
        is_odd = code.let(
            f"icmp ne {bits} {code.let(f'and {bits} {quarters}, {one}')}, zeroinitializer"
        )
        found = code.let(f"bitcast {vectors.kind} {vectors.select(is_odd, cosine, sine)} to {bits}")
        sign = code.let(f"shl {bits} {code.let(f'and {bits} {quarters}, {two}')}, {shift}")
        found = code.let(f"xor {bits} {found}, {sign}")
        vectors.store(code.let(f"bitcast {bits} {found} to {vectors.kind}"), target, i, mask)
    code.store("i32", code.let(f"zext i1 {code.get(is_wrong, 'i1')} to i32"), failure, 4)
    return native.body(code.module())


def _reduced(vectors: Vectors, wide: Vectors, x: str) -> tuple[str, str]:
    """Returns r, and k as integers of the same width as the numbers."""
    code, is_single = vectors.code, vectors.element == "float"
    given = code.let(f"fpext {vectors.kind} {x} to {wide.kind}") if is_single else x
    turns = wide.multiply(given, wide.constant(_QUARTERS))
    turns = code.call(wide.kind, f"llvm.rint.{wide.suffix}", (wide.kind, turns))
    back = code.let(f"fneg {wide.kind} {turns}")
    r = given
    for part in _PARTS:
        r = wide.multiply_add(back, wide.constant(part), r)
    is_first = code.let(f"fcmp oeq {wide.kind} {turns}, zeroinitializer")
    r = wide.select(is_first, given, r)  # keeps -0.0
    is_number = code.let(f"fcmp ord {wide.kind} {turns}, {turns}")
    turns = wide.select(is_number, turns, "zeroinitializer")
    kind = f"<{vectors.lanes} x i{8 * vectors.size_bytes}>"
    quarters = code.let(f"fptosi {wide.kind} {turns} to {kind}")
    return (code.let(f"fptrunc {wide.kind} {r} to {vectors.kind}") if is_single else r), quarters


def _polynomial(
    vectors: Vectors, x: str, number: DType, known: Mapping[DType, Sequence[float]]
) -> str:
    *rest, result = (vectors.constant(each) for each in known[number])
    for each in reversed(rest):
        result = vectors.multiply_add(result, x, each)
    return result


def _splat_whole(code: Code, kind: str, value: Value) -> str:
    scalar = kind.rpartition(" ")[2].rstrip(">")
    first = code.let(f"insertelement {kind} poison, {scalar} {value}, i64 0")
    lanes = kind.partition(" ")[0]
    return code.let(f"shufflevector {kind} {first}, {kind} poison, {lanes} x i32> zeroinitializer")
