import itertools

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir import expressions
from sparkflow_runtime.codegen.ir.builder import KernelBuilder
from sparkflow_runtime.codegen.ir.kernel import ARITHMETIC
from sparkflow_runtime.dtypes import bool_, float32, float64, int32, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.elementwise.elementwise_table import ElementwiseOp
from support import kernel_interpreter

FLOATS = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, 7.25, -7.25, 1e-30, 80.0, -80.0, 1e30, -1e30)
SPECIAL = {
    float32: (*FLOATS, 1e-42, np.nan, np.inf, -np.inf),
    float64: (*FLOATS, 1e-320, 700.0, -700.0, np.nan, np.inf, -np.inf),
    int32: (0, 1, -1, 7, -7, 2**31 - 1, -(2**31)),
    int64: (0, 1, -1, 7, -7, 2**63 - 1, -(2**63)),
    bool_: (False, True),
}


def samples(dtype, count):
    """All combinations of special values, then random ones; one array per operand."""
    rng = np.random.default_rng(7)
    kind = dtype.as_numpy_dtype
    special = np.array(list(itertools.product(SPECIAL[dtype], repeat=count)), kind)
    if dtype.is_floating:
        scale = rng.choice([1e-3, 1.0, 10.0, 100.0], (500, count))
        random = (rng.normal(size=(500, count)) * scale).astype(kind)
    else:
        random = rng.integers(0, 2 if dtype is bool_ else 1000, (500, count)).astype(kind)
    return [np.ascontiguousarray(each) for each in np.concatenate([special, random]).T]


def fused(expression, names, arrays):
    dtype_of = {np.dtype(each.as_numpy_dtype): each for each in SPECIAL}
    builder = KernelBuilder(1)
    operands = {
        name: builder.input(dtype_of[array.dtype], (True,))
        for name, array in zip(names, arrays, strict=True)
    }
    builder.output(expressions.apply(builder, expression, operands))
    (found,) = kernel_interpreter.run(builder.build(), [len(arrays[0])], *arrays)
    return found


def elementwise_cases():
    for op in registry.all_ops():
        if not isinstance(op, ElementwiseOp):
            continue
        allowed = op.attrs["T"].allowed & set(SPECIAL) if "T" in op.attrs else {bool_}
        for dtype in sorted(allowed, key=lambda each: each.number):
            takes_integers = op.integer_kernel is None or not dtype.is_integer
            if takes_integers and expressions.supports(op.expression, dtype):
                yield pytest.param(op, dtype, id=f"{op.op_type}-{dtype.name}")


@pytest.mark.parametrize(("op", "dtype"), list(elementwise_cases()))
def test_expression_of_an_op_is_its_kernel(op, dtype):
    names = [each.name for each in op.signature.inputs]
    arrays = samples(dtype, len(names))
    with np.errstate(all="ignore"):
        expected = op.compute(np, *arrays)
    found = fused(op.expression, names, arrays)
    assert found.dtype == expected.dtype
    if not dtype.is_floating or expected.dtype == bool:
        np.testing.assert_array_equal(found, expected)
    else:
        information = np.finfo(expected.dtype)
        np.testing.assert_allclose(
            found, expected, rtol=8 * information.eps, atol=information.smallest_normal
        )


def test_most_float_ops_have_an_expression_that_kernels_have():
    found = {each.values[0].op_type for each in elementwise_cases()}
    assert len(found) >= 59
    assert {"Relu", "SigmoidGrad", "LogicalAnd", "IsNan", "Rsqrt", "Selu", "Xlogy"} <= found


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * x - 1", 5.0),
        ("-x / 4", -0.75),
        ("x ** 2", 9.0),
        ("x ** 5", 243.0),
        ("x ** -2", 1 / 9),
        ("-2 * x", -6.0),
        ("x * (x > 2)", 3.0),
        ("(x > 4) * x", 0.0),
        ("where((x > 2) & ~(x == 3), 1.0, x)", 3.0),
        ("where((x < 2) | (x != 4), 0, x)", 0.0),
        ("maximum(0, minimum(x, 2.5))", 2.5),
    ],
)
def test_what_expressions_may_say(expression, value):
    array = np.array([3.0], np.float32)
    np.testing.assert_allclose(fused(expression, ["x"], [array]), [value], rtol=1e-6)


def test_every_function_of_kernels_has_a_name_in_expressions():
    builder = KernelBuilder(0)
    x, condition = builder.input(float32, ()), builder.input(bool_, ())
    operands = {"x": x, "c": condition}
    of_two = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
    for function in sorted(ARITHMETIC - {"cast"}):
        if function == "where":
            arguments = "c, x, x"
        elif function.startswith("logical"):
            arguments = "c" if function == "logical_not" else "c, c"
        else:
            two = function in of_two or function.endswith(("equal", "less", "greater"))
            arguments = "x, x" if two else "x"
        value = expressions.apply(builder, f"{function}({arguments})", operands)
        assert builder.build().instructions[-1].function == function
        assert value.axes == ()


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("remainder(x, x)", r"calls remainder\(x, x\)"),
        ("cast(x)", "calls cast"),
        ("x.real", "has Attribute"),
        ("x % 2", "has Mod"),
        ("x ** 0.5", "power of a number, or one other than"),
        ("x ** 99", "power of a number, or one other than"),
        ("1 < x < 2", "compares more than two"),
        ("y + 1", r"names y, operands are \['x'\]"),
        ("x + 'text'", "has the literal 'text'"),
        ("not x", "has Not"),
        ("~1 * x", "has Invert of a literal"),
        ("x +", "is not an expression"),
        ("3", "names no operand"),
        ("1 + 2", "numbers alone"),
        ("x & x", "no logical_and of float32, float32"),
    ],
)
def test_what_expressions_may_not_say(expression, reason):
    builder = KernelBuilder(0)
    with pytest.raises(InvalidArgumentError, match=reason):
        expressions.apply(builder, expression, {"x": builder.input(float32, ())})


def test_supports_asks_for_functions_and_dtypes():
    assert expressions.supports("exp(x) + 1")
    assert expressions.supports("x & y")
    assert not expressions.supports("remainder(x, y)")
    assert not expressions.supports("")
    assert expressions.supports("maximum(x, 0)", int64)
    assert not expressions.supports("exp(x)", int32)
    assert not expressions.supports("x + y", dtypes.complex64)
    assert not expressions.supports("x & y", float32)


@pytest.mark.parametrize(
    ("expression", "operands", "function"),
    [
        ("exp(x)", ("x",), "exp"),
        ("-x", ("x",), "negative"),
        ("~x", ("x",), "logical_not"),
        ("x / y", ("x", "y"), "divide"),
        ("x & y", ("x", "y"), "logical_and"),
        ("x >= y", ("x", "y"), "greater_equal"),
        ("arctan2(y, x)", ("y", "x"), "arctan2"),
    ],
)
def test_one_function_of_the_operands_is_numpys(expression, operands, function):
    assert expressions.of_arrays(expression, operands) == function


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_other_expressions_become_functions_of_arrays(dtype):
    function = expressions.of_arrays("where(y == 0, 0.5, x / y) - 2 * x", ("x", "y"))
    x, y = np.array([1.5, 2.0], dtype), np.array([0.0, 4.0], dtype)
    with np.errstate(all="ignore"):
        found = function(np, x, y)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.array([0.5 - 3.0, 0.5 - 4.0], dtype))
    turned = expressions.of_arrays("y - x", ("x", "y"))
    np.testing.assert_array_equal(turned(np, x, y), y - x)


@pytest.mark.parametrize("expression", ["erf(x)", "x + z", "open(x)", "x.real(x)"])
def test_what_arrays_have_not_needs_a_kernel(expression):
    with pytest.raises(InvalidArgumentError, match=r"array modules lack|names z"):
        expressions.of_arrays(expression, ("x",))


def test_functions_of_arrays_leave_what_is_built_in():
    """cupy imports modules when its functions are called, with the caller's builtins."""
    function = expressions.of_arrays("2 * x", ("x",))
    assert "__import__" in function.__globals__["__builtins__"]
