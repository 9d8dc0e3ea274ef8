"""What the rows of the elementwise tables guarantee besides their results."""

import math

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.elementwise.elementwise_table import ElementwiseOp
from support.eager import EagerBuilder, EagerOperation

ELEMENTWISE = [op for op in registry.all_ops() if isinstance(op, ElementwiseOp)]
NAMES = {
    **vars(np),
    "erf": np.vectorize(math.erf, otypes=[float]),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
VALUES = np.array([[0.3, 0.55, 0.8, 0.9, 2.5], [1.25, 2.0, 0.5, 0.9, -1.5]])


def kernel(op_type: str, dtype: dtypes.DType):
    attrs = {"T": dtype, "incompatible_shape_error": True}
    operation = EagerOperation("node", op_type, (), attrs)
    return registry.lookup(op_type).bind(operation, EagerBuilder().context)


def test_there_are_elementwise_ops():
    assert len(ELEMENTWISE) > 60


@pytest.mark.parametrize(
    "op", [op for op in ELEMENTWISE if op.expression], ids=lambda op: op.op_type
)
def test_expression_says_what_the_kernel_does(op):
    names = [arg.name for arg in op.signature.inputs]
    kinds = [bool if arg.dtype is dtypes.bool_ else float for arg in op.signature.inputs]
    inputs = [VALUES[i].astype(kind) for i, kind in enumerate(kinds)]
    if op.op_type == "Conj":
        inputs = [inputs[0].astype(np.complex128)]
    with np.errstate(all="ignore"):
        found = eval(op.expression, NAMES, dict(zip(names, inputs, strict=True)))  # noqa: S307
        expected = op.compute(np, *inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("op_type", "ufunc"),
    [
        ("Add", np.add),
        ("Mul", np.multiply),
        ("Exp", np.exp),
        ("Less", np.less),
        ("Equal", np.equal),
    ],
)
def test_plain_functions_are_bound_bare(op_type, ufunc):
    assert kernel(op_type, dtypes.float32) is ufunc


def test_integers_get_the_kernel_for_integers():
    divide = kernel("Div", dtypes.int32)
    assert divide(np.int32(-7), np.int32(2)) == -3
    assert kernel("Div", dtypes.float32) is np.true_divide


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.op_type)
def test_scalars_keep_their_dtype(op):
    """Kernels receive numpy scalars if a previous op returned one."""
    if not all(arg.type_attr for arg in op.signature.inputs):
        return
    allowed = op.attrs["T"].allowed
    dtype = next(
        dtype
        for dtype in (dtypes.float16, dtypes.float32, dtypes.complex64, dtypes.int32)
        if dtype in allowed
    )
    value = 3 if dtype.is_integer else 0.5
    with np.errstate(all="ignore"):
        result = kernel(op.op_type, dtype)(*(dtype.numpy(value) for _ in op.signature.inputs))
    (expected,) = op.signature.output_dtypes({"T": dtype})
    assert result.dtype == expected.numpy
