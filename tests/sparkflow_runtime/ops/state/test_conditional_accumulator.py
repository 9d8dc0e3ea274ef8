"""TensorFlow's accumulators as ops; the numbers are those of the differential cases."""

import threading

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import AbortedError, CancelledError, InvalidArgumentError
from sparkflow_runtime.ops.native.equal_rows import sum_equal
from sparkflow_runtime.resources.conditional_accumulator import (
    ConditionalAccumulator,
    SparseConditionalAccumulator,
)
from support.eager import EagerBuilder
from support.step import FakeStep

DEADLINE_S = 60


@pytest.fixture
def g():
    return EagerBuilder()


def dense(g, name="a", shape=(2,), **attrs):
    return g.ConditionalAccumulator(name=name, shape=shape, dtype=dtypes.float32, **attrs)


def push(g, handle, step, *gradient):
    g.AccumulatorApplyGradient(handle, np.int64(step), g.tensor(np.float32(gradient)))


def take(g, handle, num_required):
    taken = g.AccumulatorTakeGradient(handle, np.int32(num_required), dtype=dtypes.float32)
    return taken.value


def test_means_and_sums(g):
    for reduction, expected in (("MEAN", [2, 4]), ("SUM", [4, 8])):
        handle = dense(g, reduction, reduction_type=reduction)
        push(g, handle, 0, 1, 2)
        push(g, handle, 0, 3, 6)
        assert g.AccumulatorNumAccumulated(handle).value == 2
        np.testing.assert_array_equal(take(g, handle, 1), expected)
        assert g.AccumulatorNumAccumulated(handle).value == 0


def test_gradients_of_steps_that_are_over_are_dropped(g):
    handle = dense(g)
    push(g, handle, 0, 1, 2)
    take(g, handle, 1)
    push(g, handle, 0, 1, 2)
    assert g.AccumulatorNumAccumulated(handle).value == 0
    g.AccumulatorSetGlobalStep(handle, np.int64(7))
    push(g, handle, 6, 1, 2)
    push(g, handle, 7, 1, 2)
    assert g.AccumulatorNumAccumulated(handle).value == 1


def test_rows_are_averaged_over_the_gradients_that_have_them(g):
    handle = g.SparseConditionalAccumulator(name="s", shape=(4, 2), dtype=dtypes.float32)
    for indices, values in (([0, 2, 0], [1, 2, 3]), ([1, 2], [5, 6])):
        rows = np.repeat(np.float32(values)[:, None], 2, 1)
        g.SparseAccumulatorApplyGradient(
            handle,
            np.int64(0),
            np.int64(indices),
            g.tensor(rows),
            np.int64([4, 2]),
            has_known_shape=True,
        )
    indices, values, shape = g.SparseAccumulatorTakeGradient(
        handle, np.int32(2), dtype=dtypes.float32
    )
    np.testing.assert_array_equal(indices.value, [0, 1, 2])
    np.testing.assert_array_equal(values.value[:, 0], [4, 5, 4])
    np.testing.assert_array_equal(shape.value, [4, 2])


def test_replicas_that_name_the_same_accumulator_meet_in_it(g):
    assert dense(g, "b", shared_name="a").value is dense(g).value
    with pytest.raises(InvalidArgumentError, match=r"'a' exists .* float32 \(2,\), .* float32 \(3"):
        dense(g, shape=(3,))


def in_thread(function):
    raised = []

    def run():
        try:
            function()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


def test_taking_waits_and_can_be_cancelled_or_stopped(g):
    accumulator = ConditionalAccumulator("a", dtypes.float32, (2,), mean=True)
    handle = dense(g)
    for kind, end in (
        (CancelledError, lambda step: step.cancel()),
        (CancelledError, lambda step: accumulator.cancel_takes()),
        (AbortedError, lambda step: accumulator.close()),
    ):
        step = FakeStep()
        thread, raised = in_thread(lambda step=step: accumulator.take(1, step))
        assert step.waiting.wait(DEADLINE_S)
        end(step)
        thread.join(DEADLINE_S)
        assert [type(error) for error in raised] == [kind]
        accumulator.set_global_step(0)
    g.AccumulatorCancelTakes(handle)
    with pytest.raises(CancelledError, match="was stopped"):
        take(g, handle, 1)
    g.AccumulatorSetGlobalStep(handle, np.int64(0))
    push(g, handle, 0, 1, 2)
    np.testing.assert_array_equal(take(g, handle, 1), [1, 2])


def test_wrong_gradients_are_refused():
    accumulator = ConditionalAccumulator("a", dtypes.float32, (None,), mean=True)
    accumulator.apply(0, np.float32([1, 2]))
    with pytest.raises(InvalidArgumentError, match=r"expected \(2,\), got \(3,\)"):
        accumulator.apply(0, np.float32([1, 2, 3]))
    with pytest.raises(InvalidArgumentError, match="holds float32, got a gradient of float64"):
        accumulator.apply(0, np.zeros(2))
    with pytest.raises(InvalidArgumentError, match="must be positive, got 0"):
        accumulator.take(0, FakeStep())
    rows = SparseConditionalAccumulator("s", dtypes.float32, (4, 2), True, sum_equal)
    two = np.zeros([2, 2], np.float32)
    for indices, shape, message in (
        ([0, 1, 2], (), "one row of values"),
        ([0, 1], (5, 2), "Shape mismatch"),
        ([0, 4], (4, 2), "index of slice 1 exceeded limits of shape"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            rows.apply(0, np.array(indices), two, np.array(shape))


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda each: each.name)
@pytest.mark.parametrize("mean", [True, False])
def test_sums_of_16_bits_do_not_stand_still(dtype, mean):
    """256 + 1 is 256 in bfloat16, and 2048 + 1 is 2048 in float16."""
    count, kind = 2500, dtype.as_numpy_dtype
    whole = ConditionalAccumulator("a", dtype, (2,), mean)
    rows = SparseConditionalAccumulator("b", dtype, (4, 2), mean, sum_equal)
    value = np.array([1, 2], kind)
    for _ in range(count):
        whole.apply(0, value)
        rows.apply(0, np.array([3]), value[None], [])
    taken, step = whole.take(count, FakeStep()), FakeStep()
    indices, values, _ = rows.take(count, step)
    assert taken.dtype == values.dtype == kind
    assert list(indices) == [3]
    for found in (taken, values[0]):
        expected = np.array([1, 2]) * (1 if mean else count)
        np.testing.assert_array_equal(found, expected.astype(kind))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.int32])
@pytest.mark.parametrize("mean", [True, False])
def test_what_was_applied_and_what_was_taken_stay_as_they_were(dtype, mean):
    accumulator = ConditionalAccumulator("a", dtype, (3,), mean)
    gradient = np.array([2, 4, 6], dtype.as_numpy_dtype)
    for step, expected in ((0, [2, 4, 6]), (1, [4, 8, 12])):
        for factor in (1, 3):
            given = gradient * np.array(factor * (step + 1), gradient.dtype)
            accumulator.apply(step, given)
            given[...] = 0  # memory of a step, which the next one reuses
        taken = accumulator.take(2, FakeStep())
        assert taken.dtype == gradient.dtype
        wanted = np.multiply(expected, 2 if mean else 4)
        np.testing.assert_array_equal(taken.astype(np.float64), wanted)
        if not step:
            first, wanted_first = taken, wanted
    np.testing.assert_array_equal(first.astype(np.float64), wanted_first)


def test_who_takes_is_woken_once_enough_are_in(monkeypatch):
    accumulator = ConditionalAccumulator("a", dtypes.float32, (1,), False)
    taken = []
    taker = threading.Thread(target=lambda: taken.append(accumulator.take(3, FakeStep())))
    looks = threading.Semaphore(0)
    wait = accumulator._changed.wait
    monkeypatch.setattr(
        accumulator._changed, "wait", lambda timeout=None: (looks.release(), wait(timeout))
    )
    taker.start()
    assert looks.acquire(timeout=DEADLINE_S)
    woken = []
    wake = accumulator._changed.notify_all
    monkeypatch.setattr(accumulator._changed, "notify_all", lambda: (woken.append(1), wake()))
    for count in (1, 2, 3):
        accumulator.apply(0, np.ones(1, np.float32))
        assert len(woken) == (count == 3)
    taker.join(DEADLINE_S)
    assert taken == [3]
    accumulator.apply(1, np.ones(1, np.float32))
    assert len(woken) == 1  # nobody else waits
