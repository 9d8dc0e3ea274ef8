"""Elementwise ops of two broadcast inputs, one row each; see `elementwise_table`.

Comparisons are in `comparison`. Integers follow TensorFlow: `Div`, `TruncateDiv` and `Mod` round
towards zero as C does, `FloorDiv` and `FloorMod` down as Python does, division by zero is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow_runtime.codegen.ir import expressions
from sparkflow_runtime.codegen.ir.kernel import DTYPES
from sparkflow_runtime.dtypes import (
    COMPLEX,
    FLOATING,
    NUMERIC,
    REAL,
    SIGNED,
    float32,
    float64,
    int32,
    int64,
    string,
    uint8,
)
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.elementwise.elementwise_table import (
    REAL_KERNELS_ON_GPU,
    BinaryOp,
    binary,
)
from sparkflow_runtime.ops.fusion import Fused, Fusion, NotFusableError, is_uniform
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, NodeView, Op
from sparkflow_runtime.ops.signature import type_attr

if TYPE_CHECKING:
    from sparkflow_runtime.codegen.ir.builder import Value

_FIELD = FLOATING | COMPLEX
_MOST_PRODUCTS = 16
"""Powers with integer exponents up to this one are computed as products."""
_ADDABLE = _FIELD | SIGNED | {uint8}


def _checked_division(ufunc: str) -> Callable[..., Array]:
    """An integer kernel that rejects zero divisors; on a GPU the result is undefined, as in TF."""

    def kernel(xp: Any, x: Array, y: Array, out: Array | None = None) -> Array:
        if xp is np and x.size and not y.all():
            raise InvalidArgumentError(message="Integer division by zero")
        return getattr(xp, ufunc)(x, y, out=out)

    return kernel


_integer_floor_div = _checked_division("floor_divide")


def _integer_truncate_div(xp: Any, x: Array, y: Array) -> Array:
    quotient = _integer_floor_div(xp, x, y)
    return quotient + ((quotient * y != x) & ((x < 0) != (y < 0)))


def _truncate_div(xp: Any, x: Array, y: Array, out: Array | None = None) -> Array:
    return xp.trunc(xp.divide(x, y, out=out), out=out)


def _floor_div(xp: Any, x: Array, y: Array, out: Array | None = None) -> Array:
    return xp.floor(xp.divide(x, y, out=out), out=out)


def _floor_mod(xp: Any, x: Array, y: Array, out: Array | None = None) -> Array:
    if xp is np:
        return np.remainder(x, y, out=out)
    # cupy's is x - floor(x / y) y, which is NaN for infinite y.
    rest = xp.fmod(x, y)
    zero = rest == 0
    rest = xp.where(zero, xp.copysign(rest, y), rest)
    return xp.add(rest, xp.where(~zero & ((rest < 0) != (y < 0)), y, xp.zeros_like(y)), out=out)


def _has_own_kernel(op: Op, node: NodeView) -> bool:
    """Whether kernels can divide this dtype: int32 too, if the divisor is a known constant."""
    return node.attrs["T"] is int32 or BinaryOp.is_fusable(op, node)  # type: ignore[arg-type]


def _fuse_floor_div(op: Op, fusion: Fusion) -> Sequence[Fused]:
    """Divides integers in float64, which represents all quotients of int32 exactly."""
    if fusion.dtypes[0] is not int32:
        return BinaryOp.fuse(op, fusion)  # type: ignore[arg-type]
    x, _, quotient = _divided(fusion)
    return [fusion.like(x, quotient)]


def _fuse_floor_mod(op: Op, fusion: Fusion) -> Sequence[Fused]:
    """Likewise."""
    if fusion.dtypes[0] is not int32:
        return BinaryOp.fuse(op, fusion)  # type: ignore[arg-type]
    x, divisor, quotient = _divided(fusion)
    return [fusion.like(x, x.value - quotient * divisor)]


def _divided(fusion: Fusion) -> tuple[Fused, int, Value]:
    """The int32 x, the constant y, and their quotient, rounded down.

    Raises:
        NotFusableError: y is not known, or needs a kernel that checks it.
    """
    constant, shape = fusion.constants[1], fusion.output_shapes[0]
    if constant is None or not is_uniform(constant) or int(constant.flat[0]) in (0, -1):
        raise NotFusableError("the divisor is not known, or special")
    divisor, builder = int(constant.flat[0]), fusion.builder
    dims = fusion.align(shape, [0])
    x = Fused(fusion.input(0, dims), shape, dims)
    exact = builder.call("divide", builder.cast(x.value, float64), float(divisor))
    return x, divisor, builder.cast(builder.call("floor", exact), int32)


def _fuse_pow(op: Op, fusion: Fusion) -> Sequence[Fused]:
    """Products, if the exponent is a known small integer; nothing else."""
    constant, shape = fusion.constants[1], fusion.output_shapes[0]
    if constant is None or not is_uniform(constant):
        raise NotFusableError("the exponent is not known")
    exponent = float(constant.flat[0])
    if not exponent.is_integer() or not 1 <= abs(exponent) <= _MOST_PRODUCTS:
        raise NotFusableError("the exponent is not small and whole")
    dims = fusion.align(shape, [0])
    x = fusion.input(0, dims)
    power = expressions.apply(fusion.builder, f"x ** {int(exponent)}", {"x": x})
    return [Fused(power, shape, dims)]


def _is_of_kernels(op: Op, node: NodeView) -> bool:
    """Whether fused kernels support the dtype."""
    return node.attrs["T"] in DTYPES


def _integer_pow(xp: Any, x: Array, y: Array, out: Array | None = None) -> Array:
    if xp is np and y.size and y.min() < 0:
        raise InvalidArgumentError(message="Integers to negative integer powers are not allowed")
    return xp.power(x, y, out=out)


def _pow(xp: Any, x: Array, y: Array, out: Array | None = None) -> Array:
    if xp is not np or y.size != 1 or y.ndim > x.ndim or x.dtype not in (np.float32, np.float64):
        return xp.power(x, y, out=out)
    exponent = float(y.flat[0])
    if not exponent.is_integer() or not 2 <= abs(exponent) <= _MOST_PRODUCTS:
        return np.power(x, y, out=out)
    square, rest, result = x, int(abs(exponent)), None
    while rest:  # numpy takes 140 ns for a power of a negative number
        if rest & 1:
            result = square if result is None else result * square
        rest >>= 1
        square = square * square if rest else square
    assert result is not None
    if exponent < 0:
        return np.reciprocal(result, out=out)
    return result if out is None else np.positive(result, out=out)


def _squared_difference(xp: Any, x: Array, y: Array, out: Array | None = None) -> Array:
    difference = xp.subtract(x, y, out=out)
    if difference.dtype.kind == "c":
        return xp.conj(difference) * difference
    return xp.square(difference, out=out)


def _is_not_zero(g: Any, x: Any) -> Any:
    return g.Cast(g.NotEqual(x, 0.0), DstT=x.dtype.base)


def _div_gradient(g: Any, x: Any, y: Any, z: Any, dz: Any) -> tuple[Any, Any]:
    return g.RealDiv(dz, y), g.Mul(dz, g.RealDiv(g.RealDiv(g.Neg(x), y), y))


def _div_no_nan_gradient(g: Any, x: Any, y: Any, z: Any, dz: Any) -> tuple[Any, Any]:
    return g.DivNoNan(dz, y), g.Mul(dz, g.DivNoNan(g.DivNoNan(g.Neg(x), y), y))


def _pow_gradient(g: Any, x: Any, y: Any, z: Any, dz: Any) -> tuple[Any, Any]:
    """`y x^(y-1)` and `x^y log x`; the latter is 0 if x^y has no real derivative or x is 0."""
    safe = g.NotEqual(x, 0.0) if x.dtype.is_complex else g.Greater(x, 0.0)
    log = g.SelectV2(safe, g.Log(g.SelectV2(safe, x, 1.0)), 0.0)
    return g.Mul(g.Mul(dz, y), g.Pow(x, g.Sub(y, 1.0))), g.Mul(g.Mul(dz, z), log)


def _squared_difference_gradient(g: Any, x: Any, y: Any, z: Any, dz: Any) -> tuple[Any, Any]:
    dx = g.Mul(g.Mul(dz, 2.0), g.Sub(x, y))
    return dx, g.Neg(dx)


def _floor_mod_gradient(g: Any, x: Any, y: Any, z: Any, dz: Any) -> tuple[Any, Any]:
    return dz, g.Neg(g.Mul(dz, g.FloorDiv(x, y)))


def _atan2_gradient(g: Any, y: Any, x: Any, z: Any, dz: Any) -> tuple[Any, Any]:
    scaled = g.RealDiv(dz, g.Add(g.Square(x), g.Square(y)))
    return g.Mul(x, scaled), g.Neg(g.Mul(y, scaled))


def _chosen_gradient(comparison: str) -> Callable[..., tuple[Any, Any]]:
    """The gradient goes to the chosen operand, to the first one if they are equal."""

    def gradient(g: Any, x: Any, y: Any, z: Any, dz: Any) -> tuple[Any, Any]:
        first = getattr(g, comparison)(x, y)
        zero = g.const(0, dz.dtype.base)
        return g.SelectV2(first, dz, zero), g.SelectV2(first, zero, dz)

    return gradient


def _joined(x: Array, y: Array) -> Array:
    """Texts in an array, of one text too, which numpy gives as bytes: last zeros get lost."""
    return np.asarray(np.add(x, y), object)


def _bind_add(op: Op, node: NodeView, context: KernelContext) -> Callable[..., Any]:
    """The bare ufunc for numbers."""
    return _joined if node.attrs["T"] is string else BinaryOp.bind(op, node, context)  # type: ignore[arg-type]


def _compute_add(op: Op, xp: Any, x: Array, y: Array) -> Array:
    """One array."""
    return _joined(x, y) if x.dtype.kind == "O" else xp.add(x, y)


binary(
    "Add",
    _ADDABLE | {string},  # strings are concatenated
    "x + y",
    lambda g, x, y, z, dz: (dz, dz),
    kernels={"CPU": None, "GPU": _ADDABLE},
    bind=_bind_add,
    compute=_compute_add,
    commutative=True,
    tolerates_rounding=True,
    flops=1,
)
binary(
    "AddV2",
    NUMERIC,
    "x + y",
    lambda g, x, y, z, dz: (dz, dz),
    commutative=True,
    tolerates_rounding=True,
    flops=1,
)
binary(
    "Sub",
    NUMERIC,
    "x - y",
    lambda g, x, y, z, dz: (dz, g.Neg(dz)),
    tolerates_rounding=True,
    flops=1,
)
binary(
    "Mul",
    NUMERIC,
    "x * y",
    lambda g, x, y, z, dz: (g.Mul(dz, y), g.Mul(dz, x)),
    commutative=True,
    tolerates_rounding=True,
    flops=1,
)
binary(
    "Div",
    NUMERIC,
    "x / y",
    _div_gradient,
    integer_kernel=_integer_truncate_div,
    tolerates_rounding=True,
)
binary(
    "RealDiv",
    NUMERIC,
    "x / y",
    _div_gradient,
    kernels={"CPU": _FIELD, "GPU": _FIELD},
    tolerates_rounding=True,
    flops=1,
)
binary("DivNoNan", _FIELD, "where(y == 0, 0.0, x / y)", _div_no_nan_gradient)
binary(
    "FloorDiv",
    REAL,
    "floor(x / y)",
    kernel=_floor_div,
    integer_kernel=_integer_floor_div,
    is_fusable=_has_own_kernel,
    fuse=_fuse_floor_div,
)
binary(
    "TruncateDiv",
    REAL,
    "trunc(x / y)",
    kernel=_truncate_div,
    integer_kernel=_integer_truncate_div,
    flops=1,
)
binary(
    "FloorMod",
    REAL,
    "remainder(x, y)",
    _floor_mod_gradient,
    kernel=_floor_mod,
    integer_kernel=_checked_division("remainder"),
    is_fusable=_has_own_kernel,
    fuse=_fuse_floor_mod,
)
for _name in ("Mod", "TruncateMod"):
    binary(
        _name,
        FLOATING | {int32, int64},
        "fmod(x, y)",
        integer_kernel=_checked_division("fmod"),
    )
binary(
    "Maximum",
    REAL,
    "maximum(x, y)",
    _chosen_gradient("GreaterEqual"),
    tolerates_rounding=True,
    flops=1,
)
binary(
    "Minimum",
    REAL,
    "minimum(x, y)",
    _chosen_gradient("LessEqual"),
    tolerates_rounding=True,
    flops=1,
)
binary(
    "Pow",
    _FIELD | SIGNED,
    "power(x, y)",
    _pow_gradient,
    kernel=_pow,
    integer_kernel=_integer_pow,
    is_fusable=_is_of_kernels,
    fuse=_fuse_pow,
    flops=1,
)
binary(
    "SquaredDifference",
    _FIELD | {int32, int64},
    "(x - y) * (x - y)",
    _squared_difference_gradient,
    kernel=_squared_difference,
    commutative=True,
    flops=1,
)
binary("Atan2", FLOATING, "arctan2(y, x)", _atan2_gradient, inputs="y: T, x: T")
binary(
    "MulNoNan",
    _FIELD,
    "where(y == 0, 0.0, x * y)",
    lambda g, x, y, z, dz: (g.MulNoNan(dz, y), g.MulNoNan(x, dz)),
)
binary(
    "Xdivy",
    _FIELD,
    "where(x == 0, 0.0, x / y)",
    lambda g, x, y, z, dz: (
        g.Mul(g.Xdivy(_is_not_zero(g, x), y), dz),
        g.Mul(g.Xdivy(g.Neg(x), g.Square(y)), dz),
    ),
)
binary(
    "Xlogy",
    _FIELD,
    "where(x == 0, 0.0, x * log(y))",
    lambda g, x, y, z, dz: (
        g.Mul(g.Xlogy(_is_not_zero(g, x), y), dz),
        g.Mul(g.Xdivy(x, y), dz),
    ),
)
binary(
    "Xlog1py",
    _FIELD,
    "where(x == 0, 0.0, x * log1p(y))",
    lambda g, x, y, z, dz: (
        g.Mul(g.Xlog1py(_is_not_zero(g, x), y), dz),
        g.Mul(g.Xdivy(x, g.Add(y, 1.0)), dz),
    ),
    kernels=REAL_KERNELS_ON_GPU,
)
_STEPPED = frozenset({float32, float64})
binary(
    "NextAfter",
    _STEPPED,
    "nextafter(x1, x2)",
    lambda g, x, y, z, dz: (dz, g.ZerosLike(dz)),
    inputs="x1: T, x2: T",
    outputs="output: T",
    attrs={"T": type_attr(_STEPPED, float32)},
)
