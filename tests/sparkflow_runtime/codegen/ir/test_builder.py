import math

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.builder import KernelBuilder
from sparkflow_runtime.codegen.ir.kernel import Instruction, Operand
from sparkflow_runtime.dtypes import bool_, float16, float32, float64, int32, int64
from sparkflow_runtime.errors import InvalidArgumentError
from support import kernel_interpreter


def softmax_kernel():
    builder = KernelBuilder(2)
    x = builder.input(float32, (True, True))
    rows = (False, True)
    e = builder.call("exp", x - builder.reduce("reduce_max", x, rows))
    builder.output(e / builder.reduce("reduce_sum", e, rows))
    return builder.build()


def test_a_kernel_says_what_was_asked_for():
    kernel = softmax_kernel()
    assert kernel.inputs == (Operand(float32, (True, True)),)
    assert [each.function for each in kernel.instructions] == [
        *("reduce_max", "subtract", "exp", "reduce_sum", "divide")
    ]
    assert kernel.value_axes[1] == (True, False)
    assert kernel.outputs == (5,)
    array = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    (found,) = kernel_interpreter.run(kernel, [3, 5], array)
    expected = np.exp(array) / np.exp(array).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_same_again_is_the_same_value():
    builder = KernelBuilder(1)
    x = builder.input(float32, (True,))
    assert x + 1 == x + 1.0
    assert builder.call("exp", x) == builder.call("exp", x)
    assert builder.constant(0.1, float32) == builder.constant(np.float32(0.1), float32)
    assert builder.constant(math.nan, float32) == builder.constant(math.nan, float32)
    assert builder.index(0) == builder.index(0)
    assert len(builder.build().instructions) == 6


def test_what_only_looks_the_same_is_not():
    builder = KernelBuilder(1)
    x = builder.input(float32, (True,))
    assert x + 0.0 != x + -0.0
    assert builder.constant(1, int32) != builder.constant(1, int64)
    assert builder.constant(1, int32) != builder.constant(1, float32)
    assert x - 1 != 1 - x
    assert builder.input(float32, (True,)) != x
    assert builder.reduce("reduce_sum", x, (True,)) != builder.reduce("reduce_max", x, (True,))
    assert builder.cast(x, int32) != builder.cast(x, int64)


def test_inputs_come_first_however_late():
    builder = KernelBuilder(1)
    x = builder.input(float32, (True,))
    total = x + 1
    y = builder.input(float32, (False,))
    builder.output(total * y)
    builder.output(y)
    kernel = builder.build()
    assert kernel.inputs == (Operand(float32, (True,)), Operand(float32, (False,)))
    assert kernel.instructions == (
        Instruction("constant", (), float32, (), 1.0),
        Instruction("add", (0, 2), float32),
        Instruction("multiply", (3, 1), float32),
    )
    assert kernel.outputs == (4, 1)


def test_dtypes_follow():
    builder = KernelBuilder(0)
    x, i, c = (builder.input(dtype, ()) for dtype in (float64, int64, bool_))
    assert x.less(2).dtype is bool_
    assert builder.call("isnan", x).dtype is bool_
    assert builder.call("where", c, i, 3).dtype is int64
    assert builder.call("where", x.greater(0), 0, x).dtype is float64
    assert (x.equal(1) & ~x.not_equal(1) | c).dtype is bool_
    assert builder.cast(x, int32).dtype is int32
    assert builder.cast(x, float64) is x
    assert (-i * 2 + i - 1).dtype is int64
    assert i.less_equal(1) == builder.call("less_equal", i, 1, dtype=bool_)
    assert i.greater_equal(1).dtype is bool_


def test_operators_keep_the_order():
    builder = KernelBuilder(0)
    x = builder.input(float32, ())
    for value in (x + 2, 2 + x, x - 2, 2 - x, x * 2, 2 * x, x / 2, 2 / x):
        builder.output(value)
    found = kernel_interpreter.run(builder.build(), [], np.array(8, np.float32))
    assert [float(each) for each in found] == [10, 10, 6, -6, 16, 16, 4, 0.25]


def refused(reason):
    return pytest.raises(InvalidArgumentError, match=reason)


def test_dtypes_that_do_not_agree_are_refused():
    builder = KernelBuilder(0)
    x, i, c = (builder.input(dtype, ()) for dtype in (float32, int32, bool_))
    with refused("no add of float32, int32: cast the arguments"):
        x + i
    with refused("no where of float32, float32, float32"):
        builder.call("where", x, x, x)
    with refused("no where of bool, float32, int32"):
        builder.call("where", c, x, i)
    with refused("no exp of int32"):
        builder.call("exp", i)
    with refused("no divide of int32, int32"):
        i / i
    with refused("no add of bool, bool"):
        c + c
    with refused("no isnan of int32"):
        builder.call("isnan", i)
    with refused("gives bool, not float32"):
        builder.call("less", x, x, dtype=float32)
    with refused("cast needs a dtype"):
        builder.call("cast", x)
    with refused("got complex64"):
        builder.call("cast", x, dtype=dtypes.complex64)
    with refused("got string"):
        builder.input(dtypes.string, ())
    with refused("reduce_sum takes numbers, got bool"):
        builder.reduce("reduce_sum", c, ())


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0.5, int32),
        (2**31, int32),
        (2**70, int64),
        (math.nan, int64),
        (math.inf, int32),
        (2, bool_),
    ],
)
def test_numbers_that_a_dtype_has_not_are_refused(value, dtype):
    with refused(f"does not fit {dtype.name}"):
        KernelBuilder(0).constant(value, dtype)


def test_floating_constants_are_rounded():
    builder = KernelBuilder(0)
    builder.constant(0.1, float32)
    builder.constant(1e60, float32)
    builder.constant(True, int64)
    values = [each.value for each in builder.build().instructions]
    assert values == [float(np.float32(0.1)), math.inf, 1]


def test_what_is_not_there_is_refused():
    builder = KernelBuilder(2)
    x = builder.input(float32, (True, False))
    with refused("0 to 4 dimensions, got 5"):
        KernelBuilder(5)
    with refused("no function 'sin'"):
        builder.call("sin", x)
    with refused("where takes 3 values, got 1"):
        builder.call("where", x)
    with refused("numbers alone"):
        builder.call("add", 1, 2)
    with refused("where of numbers alone"):
        builder.call("where", x.less(0), 1.0, 0.0)
    with refused("no reduction 'reduce_mean'"):
        builder.reduce("reduce_mean", x, (True, False))
    with refused("2 dimensions takes a flag for each, got 1"):
        builder.reduce("reduce_sum", x, (True,))
    with refused("no dimension 2"):
        builder.index(2)
    half = builder.input(float16, (True, False))
    with refused("no add of float16, float16"):
        builder.call("add", half, half)
    with refused("no less of float16, float16"):
        builder.call("less", half, half)
    with refused("float16 cannot be cast to int32: cast it to float32 first"):
        builder.cast(half, int32)
    with refused("Values of kernels are"):
        builder.constant(1.0, float16)
    other = KernelBuilder(2)
    with refused("another kernel's builder"):
        other.call("exp", x)
    with refused("another kernel's builder"):
        other.output(x)
