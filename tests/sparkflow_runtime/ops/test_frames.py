"""Switch, RefSwitch, Merge, RefMerge, Enter, RefEnter, Exit, NextIteration, LoopCond."""

import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import UnimplementedError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Inference


def infer(op_type, *shapes):
    return list(registry.lookup(op_type).infer(Inference(shapes, [dtypes.float32], {})))


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
        ("NextIteration", [(2,)], [(2,)]),
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
