"""Vector arithmetic as LLVM instructions: `emit` for every function of fused kernels.

Values are scalars or vectors of any number of lanes: LLVM splits long vectors into registers, which
adds instruction-level parallelism. float32, float64, int32 and int64 are LLVM's types of the same
size, bool is one bit, float16 and bfloat16 can only be cast. exp and similar functions are within 2
units in the last place of the true value (`maths_exponential`, `maths_logarithm`).

Importing this module requires llvmlite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu import maths_exponential, maths_logarithm
from sparkflow_runtime.codegen.cpu.maths_lanes import BIT, Lanes, constant, element, like
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError

__all__ = ["SCALARS", "cast", "constant", "emit", "type_of"]

SCALARS: Final[dict[DType, Any]] = {
    dtypes.float32: ir.FloatType(),
    dtypes.float64: ir.DoubleType(),
    dtypes.int32: ir.IntType(32),
    dtypes.int64: ir.IntType(64),
    dtypes.float16: ir.HalfType(),
    dtypes.bfloat16: ir.IntType(16),
    dtypes.bool_: BIT,
}
"""LLVM's type of a value in a register, by dtype. In memory a bool is a byte; bfloat16 are bits."""

_NARROW_SCALARS: Final = (SCALARS[dtypes.float16], SCALARS[dtypes.bfloat16])


def type_of(dtype: DType, lanes: int | None) -> Any:
    """Returns LLVM's type of a vector, or of a scalar if `lanes` is None."""
    return SCALARS[dtype] if lanes is None else ir.VectorType(SCALARS[dtype], lanes)


def emit(builder: Any, name: str, dtype: DType, *values: Any) -> Any:
    """Emits one function of `kernel.ARITHMETIC`.

    Args:
        builder: llvmlite's `IRBuilder`.
        name: The function.
        dtype: The dtype of the result, as in `Instruction`; those of the arguments follow from
            their types.
        *values: LLVM values of equal length; constants should be LLVM constants.

    Returns:
        An LLVM value of the same length.

    Raises:
        InvalidArgumentError: The function does not exist for values of these types.
    """
    if name == "cast":
        return cast(builder, values[0], dtype)
    kind = values[-1].type
    scalar = element(kind)
    if any(value.type != kind for value in values[name == "where" :]):
        raise InvalidArgumentError(
            message=f"{name} takes values of one type, got {[str(value.type) for value in values]}"
        )
    if name in _LOGIC:
        truths = [_to_bool(builder, value) for value in values]
        return _LOGIC[name](builder, *truths)
    if name == "where":
        return builder.select(_to_bool(builder, values[0]), *values[1:])
    if not isinstance(scalar, ir.IntType):
        function, emitter = _OF_FLOATS.get(name), Lanes(builder, kind)
    else:
        function, emitter = (_OF_BOOLS if scalar == BIT else _OF_INTEGERS).get(name), builder
    if function is None:
        raise InvalidArgumentError(
            message=f"Fused kernels have no function {name} of values of LLVM's type {scalar}"
        )
    return function(emitter, *values)


def cast(builder: Any, value: Any, dtype: DType) -> Any:
    """Converts like numpy's `astype` on x86: out-of-range values become the smallest integer.

    float16 and bfloat16 convert from and to float32 only.

    Args:
        builder: llvmlite's `IRBuilder`.
        value: An LLVM value.
        dtype: The target dtype.

    Raises:
        InvalidArgumentError: The conversion is between one of these two and a dtype other than
    float32.
    """
    source, target = element(value.type), SCALARS[dtype]
    kind = like(value.type, target)
    if source == target:
        return value
    if source in _NARROW_SCALARS or target in _NARROW_SCALARS:
        return _cast_narrow(builder, value, dtype)
    if target == BIT:
        return _to_bool(builder, value)
    if source == BIT:
        return builder.select(value, constant(kind, 1), constant(kind, 0))
    from_integer, to_integer = (isinstance(each, ir.IntType) for each in (source, target))
    if from_integer and to_integer:
        return (builder.sext if target.width > source.width else builder.trunc)(value, kind)
    if from_integer:
        return builder.sitofp(value, kind)
    if to_integer:
        lanes = Lanes(builder, value.type)
        fits = lanes.is_less(lanes.call("fabs", value), 2.0 ** (target.width - 1))
        least = constant(kind, -(1 << target.width - 1))
        return builder.select(fits, builder.fptosi(value, kind), least)
    is_wider = dtype is dtypes.float64
    return (builder.fpext if is_wider else builder.fptrunc)(value, kind)


def _cast_narrow(builder: Any, value: Any, dtype: DType) -> Any:
    """Converts to or from float32, rounding to nearest, ties to even."""
    source, target = element(value.type), SCALARS[dtype]
    kind = like(value.type, target)
    if ir.FloatType() not in (source, target):
        raise InvalidArgumentError(
            message=f"There is no conversion from LLVM's type {source} to {dtype.name}"
        )
    if source == SCALARS[dtypes.float16]:
        return builder.fpext(value, kind)
    if dtype is dtypes.float16:
        return builder.fptrunc(_fenced(builder, value), kind)
    # As in `codegen.rows.narrowing`: the hardware instructions flush denormals.
    bits_kind = like(value.type, ir.IntType(32))

    def number(each: int) -> Any:
        return constant(bits_kind, each)

    if source == SCALARS[dtypes.bfloat16]:
        bits = builder.shl(builder.zext(value, bits_kind), number(16))
        return builder.bitcast(bits, kind)
    bits = builder.bitcast(value, bits_kind)
    high = builder.lshr(bits, number(16))
    more = builder.add(builder.and_(high, number(1)), number(0x7FFF))
    rounded = builder.lshr(builder.add(bits, more), number(16))
    quiet = builder.or_(builder.and_(high, number(0x8000)), number(0x7FC0))
    is_number = builder.fcmp_ordered("ord", value, value)
    return builder.trunc(builder.select(is_number, rounded, quiet), kind)


def _fenced(builder: Any, value: Any) -> Any:
    """Prevents LLVM from fusing the rounding of a value into later operations.

    Where the processor supports it, LLVM would compute expressions of float16 alone in float16, and
    then contract a product and a sum into one rounding.
    """
    kind = value.type
    lanes = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
    name = f"llvm.arithmetic.fence.{lanes}f32"
    found = builder.module.globals.get(name)
    if found is None:
        found = ir.Function(builder.module, ir.FunctionType(kind, [kind]), name=name)
    return builder.call(found, [value])


def _to_bool(builder: Any, value: Any) -> Any:
    scalar = element(value.type)
    if scalar == BIT:
        return value
    zero = constant(value.type, 0)
    if isinstance(scalar, ir.IntType):
        return builder.icmp_signed("!=", value, zero)
    return builder.fcmp_unordered("!=", value, zero)


def _sign(lanes: Lanes, x: Any) -> Any:
    builder, zero = lanes.builder, lanes.number(0.0)
    one = lanes.call("copysign", lanes.number(1.0), x)
    other = builder.select(builder.fcmp_ordered("==", x, zero), zero, x)  # 0 or NaN
    return builder.select(builder.fcmp_ordered("!=", x, zero), one, other)


def _is_infinite(lanes: Lanes, x: Any) -> Any:
    size = lanes.call("fabs", x)
    return lanes.builder.fcmp_ordered("==", size, lanes.number(math.inf))


def _is_finite(lanes: Lanes, x: Any) -> Any:
    return lanes.is_less(lanes.call("fabs", x), math.inf)


def _of_floats(instruction: str) -> Callable[..., Any]:
    """Allows contraction into a fused multiply-add."""

    def operation(lanes: Lanes, a: Any, b: Any) -> Any:
        return getattr(lanes.builder, instruction)(a, b, flags=("contract",))

    return operation


def _intrinsic(name: str) -> Callable[..., Any]:
    return lambda lanes, x: lanes.call(name, x)


_COMPARISONS: Final = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


def _float_comparison(sign: str) -> Callable[..., Any]:
    kind = "fcmp_unordered" if sign == "!=" else "fcmp_ordered"
    return lambda lanes, a, b: getattr(lanes.builder, kind)(sign, a, b)


def _integer_comparison(sign: str, kind: str) -> Callable[..., Any]:
    return lambda builder, a, b: getattr(builder, kind)(sign, a, b)


def _integer_chooser(sign: str) -> Callable[..., Any]:
    return lambda builder, a, b: builder.select(builder.icmp_signed(sign, a, b), a, b)


def _integer_absolute(builder: Any, x: Any) -> Any:
    is_negative = builder.icmp_signed("<", x, constant(x.type, 0))
    return builder.select(is_negative, builder.neg(x), x)


def _integer_sign(builder: Any, x: Any) -> Any:
    zero = constant(x.type, 0)
    is_positive, is_negative = (builder.icmp_signed(sign, x, zero) for sign in (">", "<"))
    return builder.sub(builder.zext(is_positive, x.type), builder.zext(is_negative, x.type))


_OF_FLOATS: Final[dict[str, Callable[..., Any]]] = {
    "add": _of_floats("fadd"),
    "subtract": _of_floats("fsub"),
    "multiply": _of_floats("fmul"),
    "divide": lambda lanes, a, b: lanes.builder.fdiv(a, b),
    "negative": lambda lanes, x: lanes.builder.fneg(x),
    "absolute": _intrinsic("fabs"),
    "sign": _sign,
    "maximum": lambda lanes, a, b: lanes.larger(a, b),
    "minimum": lambda lanes, a, b: lanes.smaller(a, b),
    "exp": maths_exponential.exp,
    "expm1": maths_exponential.expm1,
    "log": maths_logarithm.log,
    "log1p": maths_logarithm.log1p,
    "tanh": maths_exponential.tanh,
    "erf": maths_exponential.erf,
    "sigmoid": maths_exponential.sigmoid,
    "sqrt": _intrinsic("sqrt"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "rint": _intrinsic("rint"),
    "isnan": lambda lanes, x: lanes.builder.fcmp_unordered("uno", x, x),
    "isinf": _is_infinite,
    "isfinite": _is_finite,
    **{name: _float_comparison(sign) for name, sign in _COMPARISONS.items()},
}
_OF_INTEGERS: Final[dict[str, Callable[..., Any]]] = {
    "add": lambda builder, a, b: builder.add(a, b),
    "subtract": lambda builder, a, b: builder.sub(a, b),
    "multiply": lambda builder, a, b: builder.mul(a, b),
    "negative": lambda builder, x: builder.neg(x),
    "absolute": _integer_absolute,
    "sign": _integer_sign,
    "maximum": _integer_chooser(">"),
    "minimum": _integer_chooser("<"),
    **{name: _integer_comparison(sign, "icmp_signed") for name, sign in _COMPARISONS.items()},
}
_OF_BOOLS: Final[dict[str, Callable[..., Any]]] = {
    **dict.fromkeys(("add", "maximum"), lambda builder, a, b: builder.or_(a, b)),
    **dict.fromkeys(("multiply", "minimum"), lambda builder, a, b: builder.and_(a, b)),
    **{name: _integer_comparison(sign, "icmp_unsigned") for name, sign in _COMPARISONS.items()},
}
_LOGIC: Final[dict[str, Callable[..., Any]]] = {
    "logical_and": lambda builder, a, b: builder.and_(a, b),
    "logical_or": lambda builder, a, b: builder.or_(a, b),
    "logical_not": lambda builder, x: builder.not_(x),
}
