import numpy as np
import pytest

import sparkflow_runtime.ops.distributed.transfer  # noqa: F401 - registers the ops tested here
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InternalError, InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.distributed.transfer import fetched, handed_over
from support.eager import EagerBuilder, EagerOperation
from support.step import FakeStep

DEVICE = "/job:worker/replica:0/task:0/device:CPU:0"


def kernel(op_type, **attrs):
    node = EagerOperation("node", op_type, (), attrs)
    return registry.lookup(op_type).bind(node, EagerBuilder().context)


def test_arg_hands_on_what_is_fed():
    fed = np.arange(3.0)
    assert kernel("_Arg", T=dtypes.float64, index=0, shape=(3,))(fed) is fed


def test_retval_copies_so_that_later_updates_do_not_show():
    buffer = np.arange(3.0)
    result = kernel("_Retval", T=dtypes.float64, index=0)(buffer)
    buffer += 1
    assert result.tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", [np.float32(2), np.array(2, np.float32)])
def test_scalars_are_fetched_as_numpy_scalars(value):
    assert type(fetched(value)) is np.float32


def handed(make):
    """Whether the memory of a local value is handed over, as in a compiled plan."""
    value = make()
    found = handed_over(value)
    np.testing.assert_array_equal(found, value)
    return np.shares_memory(found, value)


def test_arrays_that_nothing_else_refers_to_are_not_copied():
    held = np.arange(6.0)
    assert handed(lambda: np.arange(6.0))
    assert handed(lambda: np.arange(6.0).reshape(2, 3))
    assert handed(lambda: np.array(["a", "b"], object))
    assert not handed(lambda: held)
    assert not handed(lambda: held.reshape(2, 3))
    assert not handed(lambda: np.arange(6.0)[:3])
    assert not handed(lambda: np.arange(6.0).reshape(2, 3).T)
    assert not handed(lambda: np.frombuffer(bytearray(8)))


def test_frozen_arrays_are_copied():
    def frozen():
        made = np.arange(6.0)
        made.flags.writeable = False
        return made

    assert not handed(frozen)


def test_a_bundle_arrives_as_it_was_sent():
    g = EagerBuilder()
    g.step = FakeStep()
    sent = [g.tensor(np.arange(3.0)), g.tensor(np.array(7))]
    g._SendBundle(sent, key="edge", destination=DEVICE)
    types = [tensor.dtype for tensor in sent]
    received = g._RecvBundle(T=types, key="edge", source=DEVICE)
    assert [tensor.dtype for tensor in received] == types
    for before, after in zip(sent, received, strict=True):
        np.testing.assert_array_equal(after.value, before.value)


def test_a_bundle_of_the_wrong_size_is_refused():
    g = EagerBuilder()
    g._SendBundle([g.tensor(np.arange(3.0))], key="edge", destination=DEVICE)
    with pytest.raises(InternalError) as error:
        g._RecvBundle(T=[dtypes.float64] * 2, key="edge", source=DEVICE)
    assert error.value.message == "Bundle edge carries 1 tensors, expected 2"


def test_a_bundle_of_other_shapes_than_the_graph_says_is_refused():
    types = [dtypes.float64] * 2
    shapes = [None, (2,)]
    for sizes in ((5, 2), (5, 3)):
        g = EagerBuilder()
        g._SendBundle([g.tensor(np.ones(n)) for n in sizes], key="edge", destination=DEVICE)
        if sizes[1] == 2:
            received = g._RecvBundle(T=types, key="edge", source=DEVICE, shapes=shapes)
            assert [len(each.value) for each in received] == [5, 2]
            continue
        with pytest.raises(InvalidArgumentError) as error:
            g._RecvBundle(T=types, key="edge", source=DEVICE, shapes=shapes)
        text = f"Tensor 1 of bundle edge from {DEVICE} has the shape [3], the graph says [2]"
        assert error.value.message == text
