"""CUDA C for single values: types, literals, and the functions of a `Kernel`'s instructions.

Semantics are numpy's: maximum and minimum propagate NaN, integers wrap around, an out-of-range
float becomes the smallest integer, and functions are CUDA's accurate ones (`expf`, not `__expf`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.kernel import COMBINING, OF_TRUTHS, Instruction
from sparkflow_runtime.dtypes import DType

TYPES: Final = {
    dtypes.float32: "float",
    dtypes.float64: "double",
    dtypes.int32: "int",
    dtypes.int64: "long long",
    dtypes.bool_: "bool",
    dtypes.float16: "unsigned short",
}
"""The C type of an element; float16 is stored as bits, which are only cast."""

COMPUTED_IN: Final = {
    dtypes.float16: dtypes.float32,
    dtypes.float32: dtypes.float32,
    dtypes.float64: dtypes.float64,
}
"""The dtypes that `elements` supports, each with its compute dtype."""
HALVES: Final = """\
__device__ float number_of(unsigned short element) {
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(element));
    return number;
}
__device__ unsigned short element_of(float number) {
    unsigned short element;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(element) : "f"(number));
    return element;
}
"""
"""From float16 to float32 and back."""
_HALF: Final = f"typedef unsigned short element_t;\ntypedef float number_t;\n{HALVES}"
_PLAIN: Final = """\
typedef {kind} element_t;
typedef {kind} number_t;
__device__ {kind} number_of({kind} element) {{ return element; }}
__device__ {kind} element_of({kind} number) {{ return number; }}
"""

PACKS: Final = """\
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T at[N]; };

"""
"""Adjacent elements that a thread loads and stores at once."""

PRELUDE: Final = """\
template <class T> __device__ T maximum_of(T a, T b) { return a >= b || a != a ? a : b; }
template <class T> __device__ T minimum_of(T a, T b) { return a <= b || a != a ? a : b; }
template <class T> __device__ T sign_of(T x) {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? T(0) : x;
}
template <class T> __device__ int to_int(T x) {
    return x >= T(-2147483648.0) && double(x) < 2147483648.0 ? int(x) : -2147483647 - 1;
}
template <class T> __device__ long long to_long(T x) {
    return x >= T(-9223372036854775808.0) && x < T(9223372036854775808.0)
        ? (long long)x : -9223372036854775807LL - 1;
}
"""
"""Functions that the expressions below call."""

_UNSIGNED: Final = {dtypes.int32: "unsigned", dtypes.int64: "unsigned long long"}
_OPERATORS: Final = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_COMPARISONS: Final = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_OF_BOOLS: Final = {"add": "|", "multiply": "&", "maximum": "|", "minimum": "&"}
_FUNCTIONS: Final = frozenset({"exp", "expm1", "log", "log1p", "sqrt", "tanh", "erf", "sigmoid"})
_OF_NUMBERS: Final = frozenset({"negative", "absolute", "sign"})
_ROUNDINGS: Final = frozenset({"floor", "ceil", "trunc", "rint"})


def elements(dtype: DType) -> str:
    """Returns the C types of an element in memory and in arithmetic, and their conversions."""
    return _HALF if dtype is dtypes.float16 else _PLAIN.format(kind=TYPES[dtype])


def is_supported(instruction: Instruction, given: Sequence[DType]) -> bool:
    """Whether there is CUDA C for an instruction with arguments of these dtypes."""
    function, dtype = instruction.function, instruction.dtype
    if not {dtype, *given} <= TYPES.keys():
        return False
    if function == "cast" and dtypes.float16 in (dtype, *given):
        return {dtype, *given} == {dtypes.float16, dtypes.float32}
    if function in ("constant", "index", "cast"):
        return True
    if dtypes.float16 in (dtype, *given):
        return False
    if function in _COMPARISONS or function in _LOGIC:
        return dtype is dtypes.bool_ and len(set(given)) == 1
    if function == "where":
        return given[0] is dtypes.bool_ and given[1] is given[2] is dtype
    if function in COMBINING:
        return dtype is not dtypes.bool_ or function in OF_TRUTHS
    if set(given) != {dtype}:
        return False
    if dtype is dtypes.bool_:
        return function in _OF_BOOLS
    if dtype.is_floating:
        return function in {*_FUNCTIONS, *_OPERATORS, *_OF_BOOLS, *_OF_NUMBERS, *_ROUNDINGS}
    return function in {*_OPERATORS, *_OF_BOOLS, *_OF_NUMBERS, *_ROUNDINGS} - {"divide"}


def literal(value: float | int | bool, dtype: DType) -> str:
    """Returns a constant of this dtype as C."""
    if dtype is dtypes.bool_:
        return "true" if value else "false"
    if dtype in _UNSIGNED:
        suffix = "LL" if dtype is dtypes.int64 else ""
        lowest = -(2**63) if dtype is dtypes.int64 else -(2**31)
        whole = int(value)
        return f"({whole + 1}{suffix} - 1)" if whole == lowest else f"({whole}{suffix})"
    single = dtype is dtypes.float32
    number = float(np.float32(value)) if single else float(value)
    if math.isfinite(number):
        return f"({number!r}{'f' if single else ''})"
    if single:
        bits = int(np.float32(number).view(np.uint32))
        return f"__uint_as_float(0x{bits:08x}u)"
    bits = int(np.float64(number).view(np.uint64))
    return f"__longlong_as_double((long long)0x{bits:016x}ULL)"


def arithmetic(instruction: Instruction, names: Sequence[str], given: Sequence[DType]) -> str:
    """Returns an instruction of `ARITHMETIC` as a C expression.

    Args:
        instruction: The instruction.
        names: The C names of its arguments.
        given: The dtypes of its arguments.
    """
    function, dtype = instruction.function, instruction.dtype
    if function == "cast":
        return cast(names[0], given[0], dtype)
    if function in _COMPARISONS:
        return f"{names[0]} {_COMPARISONS[function]} {names[1]}"
    if function == "where":
        return f"{names[0]} ? {names[1]} : {names[2]}"
    if function in _LOGIC:
        return _LOGIC[function](names, given[0].is_floating)
    return (
        combination(function, names, dtype) if len(names) == 2 else _unary(function, names, dtype)
    )


def combination(function: str, names: Sequence[str], dtype: DType) -> str:
    """Combines two values of one dtype, as C."""
    a, b = names
    if dtype is dtypes.bool_:
        return f"bool({a} {_OF_BOOLS[function]} {b})"
    if function in ("maximum", "minimum"):
        return f"{function}_of({a}, {b})"
    operator = _OPERATORS[function]
    if dtype in _UNSIGNED:  # wraps around; overflow of signed integers is undefined
        unsigned = _UNSIGNED[dtype]
        return f"({TYPES[dtype]})(({unsigned}){a} {operator} ({unsigned}){b})"
    return f"{a} {operator} {b}"


def reduction(function: str, names: Sequence[str], dtype: DType) -> str:
    """Accumulates one element into a reduction, as C."""
    return combination(COMBINING[function], names, dtype)


def start_of(function: str, dtype: DType) -> str:
    """Returns the identity of a reduction, as C."""
    if function in ("reduce_sum", "reduce_prod"):
        return literal(function == "reduce_prod", dtype)
    highest = function == "reduce_min"
    if dtype is dtypes.bool_:
        return literal(highest, dtype)
    if dtype in _UNSIGNED:
        limits = np.iinfo(dtype.numpy)
        return literal(int(limits.max if highest else limits.min), dtype)
    return literal(math.inf if highest else -math.inf, dtype)


def cast(name: str, given: DType, dtype: DType) -> str:
    """Returns the equivalent of numpy's `astype`, as C."""
    if given is dtype:
        return name
    if dtypes.float16 in (given, dtype):
        return f"{'element' if dtype is dtypes.float16 else 'number'}_of({name})"
    if dtype is dtypes.bool_:
        return f"{name} != {literal(0, given)}"
    if given.is_floating and dtype in _UNSIGNED:
        return f"{'to_long' if dtype is dtypes.int64 else 'to_int'}({name})"
    return f"({TYPES[dtype]}){name}"


def _unary(function: str, names: Sequence[str], dtype: DType) -> str:
    (x,) = names
    suffix = "f" if dtype is dtypes.float32 else ""
    if function == "sign":
        return f"sign_of({x})"
    if function in ("negative", "absolute"):
        if dtype in _UNSIGNED:
            negated = f"({TYPES[dtype]})(0u - ({_UNSIGNED[dtype]}){x})"
            return negated if function == "negative" else f"{x} < 0 ? {negated} : {x}"
        return f"-{x}" if function == "negative" else f"fabs{suffix}({x})"
    if function in _ROUNDINGS:
        return f"{function}{suffix}({x})" if dtype.is_floating else x
    if function == "sigmoid":
        one = literal(1, dtype)
        return f"{one} / ({one} + exp{suffix}(-{x}))"
    if function in _FUNCTIONS:
        return f"{function}{suffix}({x})"
    raise KeyError(function)


def _bits(operator: str) -> Callable[[Sequence[str], bool], str]:
    return lambda names, _: f"({names[0]} != 0) {operator} ({names[1]} != 0)"


_LOGIC: Final[dict[str, Callable[[Sequence[str], bool], str]]] = {
    "logical_and": _bits("&"),
    "logical_or": _bits("|"),
    "logical_not": lambda names, _: f"!{names[0]}",
    "isnan": lambda names, real: f"{names[0]} != {names[0]}" if real else "false",
    "isfinite": lambda names, real: f"{names[0]} - {names[0]} == 0" if real else "true",
    "isinf": lambda names, real: (
        f"{names[0]} == {names[0]} && {names[0]} - {names[0]} != 0" if real else "false"
    ),
}
