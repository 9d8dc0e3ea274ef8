"""Arrays by handle and stacks, step by step; whole loops with them are golden graphs.

TensorArrayV3, TensorArrayGradV3, TensorArrayWriteV3, TensorArrayReadV3, TensorArraySizeV3,
TensorArrayGatherV3, TensorArrayScatterV3, TensorArrayConcatV3, TensorArraySplitV3,
TensorArrayCloseV3, StackV2, StackPushV2, StackPopV2, StackCloseV2.
"""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Inference

FLOW = np.float32(0)


def compute(op, *inputs, **attrs):
    return registry.lookup(f"TensorArray{op}V3").compute(np, *inputs, **attrs)


def array(size, *, shape=None, dynamic=False, clear=False):
    made, flow = compute(
        "",
        np.int32(size),
        dtype=dtypes.float32,
        element_shape=shape,
        dynamic_size=dynamic,
        clear_after_read=clear,
    )
    assert flow == 0
    return made


def write(made, place, *values):
    return compute("Write", made, np.int32(place), np.float32(values), FLOW)


def read(made, place):
    return compute("Read", made, np.int32(place), FLOW)


def test_what_is_written_is_read():
    made = array(2)
    write(made, 1, 5, 6)
    assert read(made, 1).tolist() == [5, 6]
    assert read(made, 1).tolist() == [5, 6]
    assert compute("Size", made, FLOW) == 2


def test_it_grows_only_when_asked_to():
    made = array(0, dynamic=True)
    write(made, 2, 1)
    assert compute("Size", made, FLOW) == 3
    with pytest.raises(InvalidArgumentError, match="index 1 but array is not resizeable and size"):
        write(array(1), 1, 1)
    with pytest.raises(InvalidArgumentError, match="Size should be >= 0, got -1"):
        array(-1)


def test_it_refuses_what_does_not_fit():
    made = array(2, shape=(2,))
    with pytest.raises(InvalidArgumentError, match=r"the value shape is \[1\]"):
        write(made, 0, 1)
    with pytest.raises(InvalidArgumentError, match="dtype is float32 but Op is trying to write"):
        compute("Write", made, np.int32(0), np.int32([1, 2]), FLOW)
    write(made, 0, 1, 2)
    with pytest.raises(InvalidArgumentError, match="already been written to"):
        write(made, 0, 1, 2)
    with pytest.raises(InvalidArgumentError, match="read from index 2 but array size is: 2"):
        read(made, 2)


def test_what_was_not_written_is_zeros_where_the_shape_is_known():
    assert read(array(1, shape=(2,)), 0).tolist() == [0, 0]
    with pytest.raises(InvalidArgumentError, match="element shape is not fully defined"):
        read(array(1), 0)


def test_elements_may_go_when_they_are_read():
    made = array(1, clear=True)
    write(made, 0, 1)
    read(made, 0)
    with pytest.raises(InvalidArgumentError, match="Could not read index 0 twice"):
        read(made, 0)


def test_gradients_add_up_in_an_array_of_their_own():
    made = array(2)
    write(made, 0, 1, 2)
    grad, _ = compute("Grad", made, FLOW, source="gradients")
    write(grad, 0, 10, 20)
    write(grad, 0, 1, 1)
    again, _ = compute("Grad", made, FLOW, source="gradients")
    other, _ = compute("Grad", made, FLOW, source="gradients_1")
    assert again is grad
    assert read(grad, 0).tolist() == [11, 21]
    assert read(other, 0).tolist() == [0, 0]
    assert read(made, 0).tolist() == [1, 2]


def test_rows_go_in_and_out():
    made = array(3)
    rows = np.float32([[1, 2], [3, 4], [5, 6]])
    compute("Scatter", made, np.int32([2, 0, 1]), rows, FLOW)
    found = compute("Gather", made, np.int32([0, 1, 2]), FLOW, element_shape=None)
    assert found.tolist() == [[3, 4], [5, 6], [1, 2]]
    with pytest.raises(InvalidArgumentError, match="Expected len"):
        compute("Scatter", made, np.int32([0]), rows, FLOW)
    assert compute("Gather", array(0), np.int32([]), FLOW, element_shape=(4,)).shape == (0, 4)
    with pytest.raises(UnimplementedError, match="TensorArray has size zero"):
        compute("Gather", array(0), np.int32([]), FLOW, element_shape=None)
    uneven = array(2)
    write(uneven, 0, 1)
    write(uneven, 1, 1, 2)
    with pytest.raises(InvalidArgumentError, match=r"index 1 has shape: \[2\]"):
        compute("Gather", uneven, np.int32([0, 1]), FLOW, element_shape=None)


def test_pieces_go_in_and_out():
    made = array(2)
    values = np.float32([1, 2, 3])
    compute("Split", made, values, np.int64([1, 2]), FLOW)
    assert read(made, 1).tolist() == [2, 3]
    joined, lengths = compute("Concat", made, FLOW, element_shape_except0=None)
    assert joined.tolist() == [1, 2, 3]
    assert lengths.tolist() == [1, 2]
    with pytest.raises(InvalidArgumentError, match="sum of lengths is 2"):
        compute("Split", array(2), values, np.int64([1, 1]), FLOW)
    scalar = array(1, shape=())
    with pytest.raises(InvalidArgumentError, match="Concat saw a scalar shape at index 0"):
        compute("Concat", scalar, FLOW, element_shape_except0=None)


def test_a_closed_array_is_empty():
    made = array(1, shape=())
    compute("Write", made, np.int32(0), np.float32(1), FLOW)
    compute("Close", made)
    assert read(made, 0) == 0


def test_a_stack_gives_back_the_last_first():
    stack = registry.lookup("StackV2").compute(np, np.int32(-1))
    push, pop = registry.lookup("StackPushV2"), registry.lookup("StackPopV2")
    for value in (1, 2):
        assert push.compute(np, stack, np.float32(value)) == value
    assert [pop.compute(np, stack), pop.compute(np, stack)] == [2, 1]
    with pytest.raises(InvalidArgumentError, match="Stack is empty"):
        pop.compute(np, stack)
    push.compute(np, stack, np.float32(1))
    registry.lookup("StackCloseV2").compute(np, stack)
    assert stack == []


@pytest.mark.parametrize(
    ("op_type", "shapes", "attrs", "expected"),
    [
        ("TensorArrayV3", [()], {}, [(), ()]),
        ("TensorArrayReadV3", [(), (), ()], {"dtype": dtypes.float32}, [None]),
        ("TensorArrayGatherV3", [(), (3,), ()], {"element_shape": (2,)}, [(3, 2)]),
        ("TensorArrayConcatV3", [(), ()], {"element_shape_except0": (2,)}, [(None, 2), (None,)]),
        ("StackPushV2", [(), (4,)], {}, [(4,)]),
        ("StackPopV2", [()], {"elem_type": dtypes.float32}, [None]),
    ],
)
def test_static_shapes(op_type, shapes, attrs, expected):
    node = Inference(shapes, [dtypes.float32] * len(shapes), attrs)
    assert list(registry.lookup(op_type).infer(node)) == expected
