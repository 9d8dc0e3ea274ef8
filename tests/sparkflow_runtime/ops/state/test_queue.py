"""Queues as ops."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.state import queue
from support.eager import EagerBuilder
from support.step import FakeStep

DEADLINE_S = 60
TYPES = [dtypes.float32, dtypes.int32]


@pytest.fixture
def g():
    return EagerBuilder()


def new_queue(g, op="FIFOQueueV2", name="q", shapes=((), (2,)), **attrs):
    attrs = {"component_types": TYPES, "shapes": list(shapes), **attrs}
    return getattr(g, op)(name=name, **attrs)


def put(g, handle, number):
    g.QueueEnqueueV2(handle, [np.float32(number), np.int32([number, 0])])


def test_elements_travel(g):
    handle = new_queue(g, capacity=10)
    put(g, handle, 1)
    g.QueueEnqueueManyV2(handle, [np.float32([2, 3, 4]), np.ones((3, 2), np.int32)])
    assert g.QueueSizeV2(handle).value == 4
    first, second = g.QueueDequeueV2(handle, component_types=TYPES)
    assert first.value == 1
    np.testing.assert_array_equal(second.value, [1, 0])
    many = g.QueueDequeueManyV2(handle, 2, component_types=TYPES)
    np.testing.assert_array_equal(many[0].value, [2, 3])
    assert not g.QueueIsClosedV2(handle).value
    g.QueueCloseV2(handle)
    assert g.QueueIsClosedV2(handle).value
    rest = g.QueueDequeueUpToV2(handle, 5, component_types=TYPES)
    np.testing.assert_array_equal(rest[0].value, [4])
    with pytest.raises(OutOfRangeError, match=r"FIFOQueue '_\d+_q' is closed and has insufficient"):
        g.QueueDequeueV2(handle, component_types=TYPES)
    with pytest.raises(CancelledError, match=r"FIFOQueue '_\d+_q' is closed\."):
        put(g, handle, 1)


def test_a_single_component(g):
    handle = g.FIFOQueueV2(component_types=[dtypes.int64], shapes=[()])
    g.QueueEnqueueV2(handle, [np.int64(3)])
    (only,) = g.QueueDequeueV2(handle, component_types=[dtypes.int64])
    assert only.value == 3


def test_a_queue_is_its_session_s_unless_its_name_is_shared(g):
    other = EagerBuilder()
    other.context = type(g.context)(
        **{
            name: getattr(g.context, name)
            for name in ("xp", "device_type", "device_name", "resources")
        },
        session=other.session,
    )
    assert new_queue(g).value is new_queue(g).value
    assert new_queue(g).value is not new_queue(other).value
    shared = new_queue(g, shared_name="s")
    assert shared.value is new_queue(other, name="p", shared_name="s").value
    g.QueueCloseV2(shared)
    with pytest.raises(OutOfRangeError, match="FIFOQueue 's' is closed"):
        g.QueueDequeueV2(shared, component_types=TYPES)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"shapes": ((3,), (2,))}, r"component shapes \[\[\],\[2\]\] but .* \[\[3\],\[2\]\]"),
        ({"capacity": 4}, r"has capacity -1 but requested capacity was 4\."),
        ({"op": "PaddingFIFOQueueV2"}, r"has type 'FIFOQueue' that does not match type of Node"),
        (
            {"component_types": [dtypes.float32, dtypes.int64]},
            r"component types \[float32, int32\] but .* \[float32, int64\]",
        ),
    ],
)
def test_another_queue_under_one_name_is_refused(g, other, text):
    new_queue(g)
    with pytest.raises(InvalidArgumentError, match=f"Shared queue 'q' (has )?{text}"):
        new_queue(g, **other)


def test_shuffling_queues_of_one_name_agree_on_what_they_keep_and_draw(g):
    new_queue(g, "RandomShuffleQueueV2", min_after_dequeue=1, seed=1, seed2=2)
    new_queue(g, "RandomShuffleQueueV2", min_after_dequeue=1)
    with pytest.raises(InvalidArgumentError, match="random seeds"):
        new_queue(g, "RandomShuffleQueueV2", min_after_dequeue=1, seed=1, seed2=3)
    with pytest.raises(InvalidArgumentError, match="min_after_dequeue 1"):
        new_queue(g, "RandomShuffleQueueV2", min_after_dequeue=2)


def test_what_is_taken_together_is_padded(g):
    handle = g.PaddingFIFOQueueV2(
        component_types=[dtypes.int32, dtypes.string], shapes=[(None, 2), (None,)]
    )
    for rows in (1, 3):
        texts = np.array([b"x"] * rows, np.object_)
        g.QueueEnqueueV2(handle, [np.ones((rows, 2), np.int32), texts])
    numbers, texts = g.QueueDequeueManyV2(handle, 2, component_types=[dtypes.int32, dtypes.string])
    np.testing.assert_array_equal(numbers.value[:, :, 0], [[1, 0, 0], [1, 1, 1]])
    assert texts.value.tolist() == [[b"x", b"", b""], [b"x", b"x", b"x"]]


def test_the_least_leaves_first(g):
    handle = g.PriorityQueueV2(component_types=[dtypes.string], shapes=[()])
    for priority, text in ((3, b"c"), (1, b"a"), (2, b"b"), (1, b"aa")):
        g.QueueEnqueueV2(handle, [np.int64(priority), np.array(text, np.object_)])
    types = [dtypes.int64, dtypes.string]
    priorities, texts = g.QueueDequeueManyV2(handle, 4, component_types=types)
    assert priorities.value.tolist() == [1, 1, 2, 3]
    assert texts.value.tolist() == [b"a", b"aa", b"b", b"c"]


@pytest.mark.parametrize(
    "op", ["FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue", "PriorityQueue"]
)
def test_queues_by_reference(g, op):
    """The ops of TensorFlow's first releases."""
    priority = op == "PriorityQueue"
    given = [] if priority else [dtypes.int64]
    handle = getattr(g, op)(component_types=given, shapes=[()] * len(given))
    assert handle.dtype is dtypes.string.ref
    g.QueueEnqueue(handle, [np.int64(3)])
    g.QueueEnqueueMany(handle, [np.int64([4, 5, 6])])
    assert g.QueueSize(handle).value == 4
    types = {"component_types": [dtypes.int64]}
    found = [*g.QueueDequeue(handle, **types)]
    found += g.QueueDequeueMany(handle, 1, **types)
    g.QueueClose(handle)
    found += g.QueueDequeueUpTo(handle, 5, **types)
    assert sorted(np.concatenate([np.ravel(each.value) for each in found])) == [3, 4, 5, 6]
    assert g.QueueIsClosed(handle).value


def test_a_giver_waits_until_there_is_room(g):
    handle = new_queue(g, capacity=1)
    put(g, handle, 1)
    g.step = FakeStep()
    with ThreadPoolExecutor(1) as pool:
        given = pool.submit(put, g, handle, 2)
        assert g.step.waiting.wait(DEADLINE_S)
        g.step.cancel()
        with pytest.raises(CancelledError):
            given.result(DEADLINE_S)
    assert g.QueueSizeV2(handle).value == 1


def test_closing_can_cancel_who_waits(g):
    handle = new_queue(g, capacity=1)
    put(g, handle, 1)
    g.step = FakeStep()
    with ThreadPoolExecutor(1) as pool:
        given = pool.submit(put, g, handle, 2)
        assert g.step.waiting.wait(DEADLINE_S)
        g.QueueCloseV2(handle, cancel_pending_enqueues=True)
        with pytest.raises(CancelledError, match="Enqueue operation was cancelled"):
            given.result(DEADLINE_S)


def test_shuffling_is_reproducible_with_a_seed(g):
    def order(name, seed):
        handle = new_queue(g, "RandomShuffleQueueV2", name, seed=seed, min_after_dequeue=1)
        g.QueueEnqueueManyV2(handle, [np.arange(20, dtype="f"), np.zeros((20, 2), np.int32)])
        return g.QueueDequeueManyV2(handle, 19, component_types=TYPES)[0].value.tolist()

    assert order("a", 3) == order("b", 3)
    assert order("c", 3) != order("d", 4)
    assert order("e", 3) != sorted(order("f", 3))


def test_what_the_graph_tells_is_checked_at_construction(g):
    handle = new_queue(g)
    with pytest.raises(InvalidArgumentError, match="2 component_types and 1 shapes"):
        new_queue(g, name="other", shapes=((),))
    with pytest.raises(InvalidArgumentError, match="'n' must be >= 0, but is -1"):
        g.QueueDequeueManyV2(handle, -1, component_types=TYPES)
    with pytest.raises(InvalidArgumentError, match=r"no timeout of its own \(timeout_ms = 5\)"):
        g.QueueDequeueV2(handle, component_types=TYPES, timeout_ms=5)


def test_what_only_the_queue_knows_is_checked_at_run_time(g):
    handle = new_queue(g)
    text = "components are float32, int32, but int32 were asked for"
    with pytest.raises(InvalidArgumentError, match=text):
        g.QueueDequeueV2(handle, component_types=[dtypes.int32])
    with pytest.raises(InvalidArgumentError, match=text):
        g.QueueDequeueManyV2(handle, 1, component_types=[dtypes.int32])
    with pytest.raises(InvalidArgumentError, match="'n' must be >= 0, but is -1"):
        g.QueueDequeueManyV2(handle, g.tensor(np.int32(-1)), component_types=TYPES)


def test_queues_are_stateful_and_live_on_the_cpu():
    ops = [op for op in registry.all_ops() if type(op).__module__ == queue.__name__]
    assert len(ops) == 25
    assert all(op.stateful and set(op.kernels) == {"CPU"} for op in ops)


def test_a_queue_is_selected_from_several(g):
    handles = [new_queue(g, name=name) for name in "ab"]
    put(g, handles[1], 5)
    selected = g.SelectHandle(np.int32(1), handles)
    assert selected.value is handles[1].value
    with pytest.raises(InvalidArgumentError, match=r"index 2 is not in \[0, 2\)"):
        g.SelectHandle(np.int32(2), handles)
