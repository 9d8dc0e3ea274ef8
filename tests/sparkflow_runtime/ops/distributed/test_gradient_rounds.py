"""Rounds of gradients as ops. The rules themselves are tested with the resource."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.distributed import gradient_rounds
from support.eager import EagerBuilder
from support.step import FakeStep

DEADLINE_S = 60


@pytest.fixture
def g():
    return EagerBuilder()


def rounds(g, num_replicas=2, **attrs):
    return g.GradientRounds(name="r", num_replicas=num_replicas, **attrs)


def meet(g, handle, replica, weight, dense=(), sparse=(), ready=True, step=-1):
    outputs = g.GradientRoundsMeet(
        handle,
        np.bool_(ready),
        np.int64(step),
        g.tensor(np.float32(weight)),
        [g.tensor(np.float32(each)) for each in dense],
        [g.tensor(np.array(indices)) for indices, _ in sparse],
        [g.tensor(np.float32(values)) for _, values in sparse],
        replica=replica,
    )
    return outputs if isinstance(outputs, tuple | list) else [outputs]


def test_one_replica_gets_the_weighted_means(g):
    handle = rounds(g)
    with ThreadPoolExecutor(1) as pool:
        g.step = step = FakeStep()
        sparse = [([7], [[8.0, 8.0]])]
        held = pool.submit(meet, g, handle, 0, 1, [[1, 2], [0]], sparse)
        assert step.waiting.wait(DEADLINE_S)
        is_mine, first, second, indices, values = meet(
            g, handle, 1, 3, [[5, -2], [4]], [([7, 2], np.full((2, 2), 8))]
        )
        assert is_mine.value
        np.testing.assert_array_equal(first.value, [4, -1])
        np.testing.assert_array_equal(second.value, [3])
        np.testing.assert_array_equal(indices.value, [7, 7, 2])
        np.testing.assert_array_equal(values.value, [[2, 2], [6, 6], [6, 6]])
        assert (indices.static_shape, values.static_shape) == ((None,), (None, 2))
        g.GradientRoundsRelease(handle, replica=1)
        is_mine, first, *_, values = held.result(DEADLINE_S)
        assert not is_mine.value
        assert first.value.shape == (2,)
        assert values.value.shape == (0, 2)


def test_replicas_that_name_the_same_rounds_meet_in_them(g):
    assert rounds(g).value is rounds(g).value
    assert g.GradientRounds(name="other", shared_name="r").value is rounds(g).value


def test_who_is_not_ready_contributes_nothing_and_does_not_wait(g):
    handle = rounds(g)
    is_mine, dense = meet(g, handle, 0, 1, [np.zeros((0, 3))], ready=False)
    assert not is_mine.value
    assert dense.value.shape == (0, 3)


def test_who_comes_too_late_goes_on(g):
    handle = rounds(g, num_required=1)
    g.GradientRoundsJoin(handle, replica=1)
    assert meet(g, handle, 0, 1, [[1.0]])[0].value
    g.GradientRoundsRelease(handle, replica=0)
    assert not meet(g, handle, 1, 1, [[1.0]])[0].value
    assert g.GradientRoundsStep(handle, replica=1).value == 1
    assert not meet(g, handle, 1, 1, [[1.0]], step=0)[0].value
    assert meet(g, handle, 1, 1, [[1.0]], step=1)[0].value


def test_who_left_is_not_waited_for(g):
    handle = rounds(g)
    g.GradientRoundsLeave(handle, replica=0)
    is_mine, mean = meet(g, handle, 1, 2, [[3.0]])
    assert is_mine.value
    np.testing.assert_array_equal(mean.value, [3])


def test_gradients_of_one_variable_have_one_shape(g):
    handle = rounds(g)
    with ThreadPoolExecutor(1) as pool:
        g.step = step = FakeStep()
        held = pool.submit(meet, g, handle, 0, 1, [[1, 2]])
        assert step.waiting.wait(DEADLINE_S)
        with pytest.raises(
            InvalidArgumentError, match=r"replica 0 has shape \(2,\), replica 1 \(3,\)"
        ):
            meet(g, handle, 1, 1, [[1, 2, 3]])
        assert not held.result(DEADLINE_S)[0].value


def test_inputs_are_checked(g):
    handle = rounds(g)
    with pytest.raises(InvalidArgumentError, match="must be rank 0 but is rank 1: weight"):
        meet(g, handle, 0, [1.0], [[1]])
    with pytest.raises(InvalidArgumentError, match="do not have one row per index"):
        meet(g, handle, 0, 1, [], [([1], np.zeros((2, 2)))])


def mean(g, handle, replica, weight, *dense):
    (result,) = g.ReplicaMean(
        handle,
        g.tensor(np.float32(weight)),
        [g.tensor(np.float32(d)) for d in dense],
        [],
        [],
        replica=replica,
    )
    return result


@pytest.mark.parametrize(("weights", "expected"), [((1, 3), [4, 4]), ((0, 0), [3, 3])])
def test_means_are_for_every_replica(g, weights, expected):
    handle = rounds(g)
    with ThreadPoolExecutor(1) as pool:
        g.step = step = FakeStep()
        held = pool.submit(mean, g, handle, 0, weights[0], [1, 1])
        assert step.waiting.wait(DEADLINE_S)
        other = mean(g, handle, 1, weights[1], [5, 5])
        np.testing.assert_array_equal(other.value, expected)
        np.testing.assert_array_equal(held.result(DEADLINE_S).value, expected)
        assert not np.shares_memory(other.value, held.result().value)


def test_rounds_are_stateful_and_live_on_the_cpu():
    ops = [op for op in registry.all_ops() if type(op).__module__ == gradient_rounds.__name__]
    assert len(ops) == 7
    assert all(op.stateful and set(op.kernels) == {"CPU"} for op in ops)
    assert not any(op.keeps_inputs for op in ops)
