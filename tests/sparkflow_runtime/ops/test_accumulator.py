"""Accumulators as ops. The rules themselves are tested with the resource."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import CancelledError, InvalidArgumentError
from sparkflow_runtime.ops import accumulator, registry
from sparkflow_runtime.testing.eager import EagerBuilder
from sparkflow_runtime.testing.step import FakeStep

DEADLINE_S = 60


@pytest.fixture
def g():
    return EagerBuilder()


def dense(g, name="a", shape=(2,), dtype=dtypes.float32, **attrs):
    return g.WeightedAccumulator(name=name, shape=shape, dtype=dtype, **attrs)


def contribute(g, handle, step, replica, weight, *gradient):
    weight = np.float32(weight)
    gradient = np.float32(gradient)
    g.WeightedAccumulatorApply(
        handle, np.int64(step), np.int64(replica), g.tensor(weight), g.tensor(gradient)
    )


def take(g, handle, step, num_required, **attrs):
    attrs = {"dtype": dtypes.float32, **attrs}
    return g.WeightedAccumulatorTake(handle, np.int64(step), np.int32(num_required), **attrs)


def test_the_weighted_mean(g):
    handle = dense(g)
    contribute(g, handle, 0, 0, 3, 1, 2)
    contribute(g, handle, 0, 1, 1, 5, -2)
    mean = take(g, handle, 0, 2, shape=(2,))
    np.testing.assert_array_equal(mean.value, [2, 1])
    assert mean.static_shape == (2,)
    assert mean.dtype is dtypes.float32


def test_replicas_that_name_the_same_accumulator_meet_in_it(g):
    assert dense(g).value is dense(g).value
    assert dense(g, name="b", shared_name="a").value is dense(g).value
    with pytest.raises(InvalidArgumentError, match=r"'a' exists .* float32 \(2,\), .* float32 \(3"):
        dense(g, shape=(3,))
    with pytest.raises(InvalidArgumentError, match=r"a WeightedAccumulator, not a SparseWeighted"):
        g.SparseWeightedAccumulator(name="a", shape=(2,), dtype=dtypes.float32)


def test_taking_waits_and_can_be_cancelled(g):
    handle = dense(g)
    contribute(g, handle, 0, 0, 1, 1, 1)
    with ThreadPoolExecutor(1) as pool:
        g.step = step = FakeStep()
        taken = pool.submit(take, g, handle, 0, 2)
        assert step.waiting.wait(DEADLINE_S)
        step.cancel()
        with pytest.raises(CancelledError):
            taken.result(DEADLINE_S)
        g.step = step = FakeStep()
        taken = pool.submit(take, g, handle, 0, 2)
        assert step.waiting.wait(DEADLINE_S)
        contribute(g, handle, 0, 1, 1, 3, 3)
        np.testing.assert_array_equal(taken.result(DEADLINE_S).value, [2, 2])


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_sparse_rows(g, kind):
    handle = g.SparseWeightedAccumulator(name="s", shape=(10, 2), dtype=dtypes.float64)
    for replica, (weight, indices) in enumerate([(1, [7]), (3, [7, 2])]):
        g.SparseWeightedAccumulatorApply(
            handle,
            np.int64(0),
            np.int64(replica),
            g.tensor(np.float64(weight)),
            g.tensor(np.array(indices, kind)),
            g.tensor(np.full((len(indices), 2), 8.0)),
        )
    indices, values = g.SparseWeightedAccumulatorTake(
        handle,
        np.int64(0),
        np.int32(2),
        dtype=dtypes.float64,
        Tindices=dtypes.as_dtype(kind),
        shape=(10, 2),
    )
    assert indices.value.dtype == kind
    np.testing.assert_array_equal(indices.value, [7, 7, 2])
    np.testing.assert_array_equal(values.value, [[2, 2], [6, 6], [6, 6]])
    assert (indices.static_shape, values.static_shape) == ((None,), (None, 2))


def test_scalars_must_be_scalars(g):
    handle = dense(g)
    one, gradient = np.int64(1), g.tensor(np.float32([1, 2]))
    with pytest.raises(InvalidArgumentError, match="weight must be rank 0 but is rank 1"):
        g.WeightedAccumulatorApply(handle, one, one, gradient, gradient)
    with pytest.raises(InvalidArgumentError, match="step must be rank 0 but is rank 1"):
        g.WeightedAccumulatorTake(handle, np.int64([1]), np.int32(1), dtype=dtypes.float32)
    with pytest.raises(InvalidArgumentError, match=r"shape \(2,\) do not have one row per index"):
        g.SparseWeightedAccumulatorApply(
            handle, one, one, np.float32(1), g.tensor(np.int32([1])), gradient
        )


def test_accumulators_are_stateful_and_live_on_the_cpu():
    ops = [op for op in registry.all_ops() if type(op).__module__ == accumulator.__name__]
    assert len(ops) == 6
    assert all(op.stateful and set(op.kernels) == {"CPU"} for op in ops)
