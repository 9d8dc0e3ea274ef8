"""The ops that become If and While before a step runs, and placeholders for dead tensors.

Switch, RefSwitch, Merge, RefMerge, Enter, RefEnter, Exit, RefExit, NextIteration, RefNextIteration,
LoopCond; ControlTrigger, FakeParam, _NoValue.
"""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Inference
from sparkflow_runtime.resources.container import Resources


def infer(op_type, *shapes):
    return list(registry.lookup(op_type).infer(Inference(shapes, [dtypes.float32], {})))


def compute(op_type, **attrs):
    op = registry.lookup(op_type)
    context = KernelContext(np, "CPU", "/device:CPU:0", Resources(), Resources())
    return op.bind(Node("n", op_type, attrs=attrs), context)()


@pytest.mark.parametrize(
    ("op_type", "shapes", "expected"),
    [
        ("Switch", [(2, None), ()], [(2, None), (2, None)]),
        ("RefSwitch", [(2,), ()], [(2,), (2,)]),
        ("Merge", [(2,), (2,)], [(2,), ()]),
        ("RefMerge", [(2,), (3,)], [None, ()]),
        ("Enter", [(2,)], [(2,)]),
        ("RefEnter", [(2,)], [(2,)]),
        ("Exit", [None], [None]),
        ("RefExit", [(3,)], [(3,)]),
        ("NextIteration", [(2,)], [(2,)]),
        ("RefNextIteration", [(2,)], [(2,)]),
        ("LoopCond", [()], [()]),
    ],
)
def test_shapes_are_those_of_the_data(op_type, shapes, expected):
    assert infer(op_type, *shapes) == expected


def test_variables_stay_variables():
    attrs = {"T": dtypes.float32}
    assert registry.lookup("RefSwitch").signature.output_dtypes(attrs)[0].is_ref
    assert not registry.lookup("Switch").signature.output_dtypes(attrs)[0].is_ref


def test_there_is_no_kernel():
    with pytest.raises(UnimplementedError, match="No kernel of Merge"):
        registry.require_kernel(registry.lookup("Merge"), "CPU", {"T": dtypes.float32})


def test_a_trigger_does_nothing():
    assert compute("ControlTrigger") is None


@pytest.mark.parametrize(
    ("dtype", "shape", "expected"),
    [
        (dtypes.float32, (2,), np.zeros(2, np.float32)),
        (dtypes.int64, (None, 3), np.zeros((0, 3), np.int64)),
        (dtypes.bool_, None, np.zeros((), np.bool_)),
        (dtypes.string, (1,), np.array([b""], object)),
    ],
)
def test_what_nobody_reads_has_the_right_type(dtype, shape, expected):
    found = compute("FakeParam", dtype=dtype, shape=shape)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape


def test_a_dead_tensor_cannot_be_fetched():
    with pytest.raises(InvalidArgumentError, match=r"Retval\[3\] does not have value"):
        compute("_NoValue", dtype=dtypes.float32, index=3)
