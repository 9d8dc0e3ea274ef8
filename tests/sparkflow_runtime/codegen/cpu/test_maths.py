"""Every function of fused kernels as machine code, against numpy and against higher precision."""

import itertools
import platform
import re

import numpy as np
import pytest
from scipy import special

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.dtypes import bfloat16, bool_, float16, float32, float64, int32, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernel import StepArithmetic

ir = pytest.importorskip("llvmlite.ir")
maths = pytest.importorskip("sparkflow_runtime.codegen.cpu.maths")

FLOATS, INTEGERS = (float32, float64), (int32, int64)
pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")
POINTER, I64, BYTE = ir.PointerType(), ir.IntType(64), ir.IntType(8)
ULPS = 1.75  # of every seventh float32 and 180 million float64, also without FMA: at most 1.66
SPECIAL = (
    *(0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, 1e-30, -1e-30, 80.0, -80.0, 1e30, -1e30),
    *(np.nan, np.inf, -np.inf, 3e9, -3e9, 2.0**31, 2.0**63, -(2.0**63), 1e-42, -1e-42),
)


def memory_type(dtype):
    return BYTE if dtype is bool_ else maths.SCALARS[dtype]


def module(name, inputs, output, lanes, emit=None):
    """Returns the text of a body that processes `lanes` elements per iteration."""
    made = ir.Module(context=ir.Context())
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, I64, I64])
    function = ir.Function(made, kind, name="body")
    entry, loop, end = (function.append_basic_block() for _ in range(3))
    builder = ir.IRBuilder(entry)
    arrays = [
        builder.load(builder.gep(function.args[1], [I64(n)], source_etype=POINTER), typ=POINTER)
        for n in range(len(inputs) + 1)
    ]
    low, high = function.args[2:4]
    builder.cbranch(builder.icmp_signed("<", low, high), loop, end)
    builder = ir.IRBuilder(loop)
    turn = builder.phi(I64)
    turn.add_incoming(low, entry)
    first = builder.mul(turn, I64(lanes or 1))

    def wide(kind):
        return kind if lanes is None else ir.VectorType(kind, lanes)

    values = []
    for dtype, array in zip(inputs, arrays, strict=False):
        place = builder.gep(array, [first], source_etype=memory_type(dtype))
        value = builder.load(place, typ=wide(memory_type(dtype)), align=1)
        values.append(builder.trunc(value, wide(ir.IntType(1))) if dtype is bool_ else value)
    emit = emit or (lambda builder, *values: maths.emit(builder, name, output, *values))
    result = emit(builder, *values)
    assert result.type == maths.type_of(output, lanes)
    if output is bool_:
        result = builder.zext(result, wide(BYTE))
    place = builder.gep(arrays[-1], [first], source_etype=memory_type(output))
    builder.store(result, place, align=1)
    following = builder.add(turn, I64(1))
    turn.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, high), loop, end)
    ir.IRBuilder(end).ret_void()
    return str(made)


NARROW = (float16, bfloat16)
DTYPE_OF = {np.dtype(each.as_numpy_dtype): each for each in (*FLOATS, *INTEGERS, bool_, *NARROW)}


def run(name, *arrays, output=None, lanes=8, emit=None):
    """Applies the function to arrays of any equal length."""
    size = arrays[0].size
    turns = -(-size // (lanes or 1))
    padded = [np.pad(each, (0, turns * (lanes or 1) - size)) for each in arrays]
    inputs = [DTYPE_OF[each.dtype] for each in padded]
    output = output or inputs[-1]
    result = np.empty(padded[0].size, output.as_numpy_dtype)
    body = native.body(module(name, inputs, output, lanes, emit))
    assert body.bind([], [each.size for each in (*padded, result)], turns)(*padded, result)
    return result[:size]


def of(dtype, values):
    with np.errstate(all="ignore"):
        return np.array(values).astype(dtype.as_numpy_dtype)


def pairs(dtype, values):
    return [
        np.ascontiguousarray(each) for each in of(dtype, list(itertools.product(values, values))).T
    ]


# ------------------------------------------------------------------------------------- precision


def _long_erf(x):
    """A series without cancellation: 2 / sqrt(pi) e^(-x^2) sum 2^n x^(2n+1) / (2n+1)!!"""
    x = np.clip(x, -6.5, 6.5)
    term = total = x
    for n in range(1, 160):
        term = term * 2 * x * x / (2 * n + 1)
        total = total + term
    return total * np.exp(-x * x) / np.sqrt(np.arctan(x.dtype.type(1)))


def _long_sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


LONG = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": _long_sigmoid,
    "erf": _long_erf,
}
DOUBLE = {**LONG, "sigmoid": special.expit, "erf": special.erf}


def error_in_ulps(found, true):
    """Returns the largest error, in units in the last place of found; inf for wrong specials.

    Denormals may be zero.
    """
    with np.errstate(all="ignore"):
        nearest = true.astype(found.dtype)
    special_value = ~np.isfinite(nearest) | ~np.isfinite(found)
    np.testing.assert_array_equal(found[special_value], nearest[special_value])
    zero = (nearest == 0) & (found == 0)
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(nearest[zero]))
    tiny = np.finfo(found.dtype).tiny
    denormal = np.abs(nearest) < tiny
    assert np.all(np.abs(found[denormal]) <= tiny)
    numbers = ~special_value & ~denormal
    found, true, nearest = (each[numbers] for each in (found, true, nearest))
    ulp = np.spacing(np.abs(nearest)).astype(true.dtype)
    return float(np.max(np.abs(found.astype(true.dtype) - true) / ulp, initial=0))


def without_denormals(x):
    """Replaces denormals by zero, like machine code."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def floats(dtype, rng):
    """Numbers of all sizes, of medium size, and around points where the function changes."""
    kind = np.dtype(dtype.as_numpy_dtype)
    bits = rng.integers(0, 2 ** (8 * kind.itemsize), 100_000, dtype=np.uint64)
    yield bits.astype(f"u{kind.itemsize}").view(kind)
    for scale in (0.01, 0.5, 1.0, 3.0, 20.0, 100.0, 750.0):
        yield rng.uniform(-scale, scale, 20_000).astype(kind)
    yield (1 + rng.uniform(-0.5, 1, 20_000)).astype(kind)
    edges = (0.625, 1.0, 2**0.5, 0.5**0.5, 88.72284, 87.33655, 103.97208, 709.782713, 745.1332)
    halves = (np.arange(-1075, 1025) + 0.5) * np.log(2)
    around = np.array([*edges, 17.3, 37.4, *(np.array([2**0.5, 0.5**0.5]) - 1), *halves], kind)
    steps = np.arange(-20, 21) * np.finfo(kind).eps
    both = (around[:, None] * (1 + steps)).astype(kind).ravel()
    yield np.concatenate([both, -both])
    yield of(dtype, SPECIAL)


@pytest.mark.parametrize("name", sorted(LONG))
def test_float32_functions_are_precise(name):
    with np.errstate(all="ignore"):
        for x in floats(float32, np.random.default_rng(1)):
            x = without_denormals(x)
            true = DOUBLE[name](x.astype(np.float64))
            assert error_in_ulps(run(name, x), true) < ULPS


@pytest.mark.skipif(
    np.finfo(np.longdouble).nmant <= 52, reason="longdouble is no longer than float64"
)
@pytest.mark.parametrize("name", sorted(LONG))
def test_float64_functions_are_precise(name):
    with np.errstate(all="ignore"):
        for x in floats(float64, np.random.default_rng(2)):
            x = without_denormals(x[::8] if name == "erf" else x)  # whose series is slow
            true = LONG[name](x.astype(np.longdouble))
            assert error_in_ulps(run(name, x, lanes=4), true) < ULPS


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda each: each.name)
@pytest.mark.parametrize("name", sorted(LONG))
def test_the_number_of_lanes_changes_nothing(name, dtype):
    x = of(dtype, [*SPECIAL, *np.random.default_rng(3).normal(size=100)])
    expected = run(name, x, lanes=8)
    for lanes in (None, 3, 32):
        np.testing.assert_array_equal(run(name, x, lanes=lanes), expected)


# ------------------------------------------------------------------------------------ arithmetic


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda each: each.name)
@pytest.mark.parametrize(
    "name",
    [
        *("negative", "absolute", "sign", "sqrt", "floor", "ceil", "trunc", "rint"),
        *("isnan", "isfinite", "isinf", "logical_not"),
    ],
)
def test_functions_of_one_float(name, dtype):
    x = of(dtype, [*SPECIAL, *np.random.default_rng(4).normal(size=100) * 10])
    with StepArithmetic():
        expected = getattr(np, name)(x)
    found = run(name, x, output=DTYPE_OF[expected.dtype])
    np.testing.assert_array_equal(found, expected)
    if dtype is DTYPE_OF[expected.dtype]:
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(expected[number]))


OF_TWO = (
    *("add", "subtract", "multiply", "maximum", "minimum"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("logical_and", "logical_or"),
)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda each: each.name)
@pytest.mark.parametrize("name", [*OF_TWO, "divide"])
def test_functions_of_two_floats(name, dtype):
    x, y = pairs(dtype, SPECIAL)
    with StepArithmetic():
        expected = getattr(np, name)(x, y)
    np.testing.assert_array_equal(run(name, x, y, output=DTYPE_OF[expected.dtype]), expected)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda each: each.name)
@pytest.mark.parametrize("name", [*OF_TWO, "negative", "absolute", "sign", "logical_not"])
def test_functions_of_integers(name, dtype):
    limits = np.iinfo(dtype.as_numpy_dtype)
    arrays = pairs(dtype, [0, 1, -1, 7, -7, 2**20, limits.max, limits.min])
    if name not in OF_TWO:
        arrays = arrays[:1]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*arrays)
    np.testing.assert_array_equal(run(name, *arrays, output=DTYPE_OF[expected.dtype]), expected)


@pytest.mark.parametrize("name", sorted({*OF_TWO} - {"subtract"}))
def test_functions_of_bools(name):
    x, y = pairs(bool_, [False, True])
    np.testing.assert_array_equal(run(name, x, y), getattr(np, name)(x, y))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, bool_], ids=lambda each: each.name)
def test_choice(dtype):
    x, y = (np.arange(each, each + 20).astype(dtype.as_numpy_dtype) for each in (0, 50))
    condition = np.arange(20) % 3 == 0
    np.testing.assert_array_equal(run("where", condition, x, y), np.where(condition, x, y))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda each: each.name)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("bound", [0.0, 1.5, np.inf, np.nan])
@pytest.mark.parametrize("swapped", [False, True])
def test_bounds_that_are_constants(name, dtype, bound, swapped):
    x = of(dtype, SPECIAL)

    def emit(builder, value):
        values = value, maths.constant(value.type, bound)
        return maths.emit(builder, name, dtype, *(values[::-1] if swapped else values))

    with StepArithmetic():
        expected = getattr(np, name)(x, x.dtype.type(bound))
    found = run(name, x, emit=emit)
    np.testing.assert_array_equal(without_denormals(found), without_denormals(expected))


ALL = [*FLOATS, *INTEGERS, bool_]


@pytest.mark.parametrize("target", ALL, ids=lambda each: each.name)
@pytest.mark.parametrize("source", ALL, ids=lambda each: each.name)
def test_cast(source, target):
    values = [*SPECIAL, 2.0**24 + 1, 2.0**53 + 1, 1e300, 7.9, -7.9, 2147483647.5]
    x = of(source, values)
    if source.is_floating and target.is_integer and platform.machine() not in ("x86_64", "AMD64"):
        x = x[np.abs(x) < 2.0**31]  # for larger ones, astype is undefined
    with StepArithmetic():
        expected = x.astype(target.as_numpy_dtype)
    np.testing.assert_array_equal(run("cast", x, output=target), expected)


def test_constants_are_written_once_for_all_lanes():
    text = module("exp", [float32], float32, 32)
    assert "splat (float" in text
    assert not re.search(r"<32 x float> <", text)


@pytest.mark.parametrize(
    ("name", "kinds", "reason"),
    [
        ("sin", (float32,), "no function sin"),
        ("exp", (int32,), "no function exp of values of LLVM's type i32"),
        ("divide", (int64, int64), "no function divide"),
        ("subtract", (bool_, bool_), "no function subtract of values of LLVM's type i1"),
        ("add", (float32, float64), "add takes values of one type, got"),
        ("where", (bool_, float32, int32), "where takes values of one type"),
    ],
)
def test_what_is_not_there_is_refused(name, kinds, reason):
    with pytest.raises(InvalidArgumentError, match=reason):
        module(name, kinds, kinds[0], 8)


@pytest.mark.parametrize("narrow", NARROW, ids=lambda each: each.name)
@pytest.mark.parametrize("lanes", [None, 8])
def test_narrow_numbers_are_cast_as_by_numpy(narrow, lanes):
    """All of them to float32; and the midpoints between two of them back."""
    given = np.arange(1 << 16, dtype=np.uint16).view(narrow.as_numpy_dtype)
    wide = run("cast", given, output=float32, lanes=lanes)
    np.testing.assert_array_equal(wide, given.astype(np.float32))
    near = [wide.view(np.int32) + more for more in (0, 1, 0x0FFF, 0x1000, 0x7FFF, 0x8000, 0x8001)]
    numbers = np.concatenate(near).view(np.float32)
    with np.errstate(all="ignore"):
        expected = numbers.astype(given.dtype)
    found = run("cast", numbers, output=narrow, lanes=lanes)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    with pytest.raises(InvalidArgumentError, match="no conversion"):
        run("cast", np.ones(8), output=narrow, lanes=lanes)
