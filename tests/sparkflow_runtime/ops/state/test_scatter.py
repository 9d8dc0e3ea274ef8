"""Updates of rows, against TensorFlow's results and plain loops."""

import json
from pathlib import Path

import numpy as np
import pytest

from sparkflow_runtime.errors import FailedPreconditionError, InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.state import scatter
from support.eager import EagerBuilder

GOLDEN = Path(__file__).parents[3] / "golden" / "optimizers" / "scatter.json"
CASES = json.loads(GOLDEN.read_text())
LOOPS = {
    "ScatterUpdate": lambda old, new: new,
    "ScatterAdd": np.add,
    "ScatterSub": np.subtract,
    "ScatterMul": np.multiply,
    "ScatterDiv": np.divide,
    "ScatterMin": np.minimum,
    "ScatterMax": np.maximum,
}


@pytest.fixture
def g():
    return EagerBuilder()


def test_every_scatter_op_is_tested_here():
    ops = [op for op in registry.all_ops() if type(op).__module__ == scatter.__name__]
    assert {op.op_type for op in ops} == set(LOOPS)
    assert all(op.stateful for op in ops)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["op"])
def test_result_is_that_of_tensorflow(g, case):
    ref = g.variable(np.array(case["start"], np.float32))
    indices = g.tensor(np.array(case["indices"], np.int64))
    getattr(g, case["op"])(ref, indices, np.array(case["updates"], np.float32))
    np.testing.assert_allclose(ref.value.array, case["after"], rtol=1e-6)


@pytest.mark.parametrize("op", LOOPS)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("row", [(), (3,), (2, 2)])
@pytest.mark.parametrize("scalar", [False, True])
def test_repeated_rows_are_updated_one_after_another(g, op, kind, row, scalar):
    random = np.random.default_rng(1)
    start = (1 + random.random((4, *row))).astype(kind)
    indices = np.array([2, 0, 2, 1, 2], np.int32)
    updates = (1 + random.random((5, *row))).astype(kind)
    if scalar:
        updates = updates.reshape(-1)[0]
    expected = start.copy()
    for position, index in enumerate(indices):
        value = updates if scalar else updates[position]
        expected[index] = LOOPS[op](expected[index], value)
    ref = g.variable(start)
    array = ref.value.array
    result = getattr(g, op)(ref, g.tensor(indices), g.tensor(updates))
    assert result.value is ref.value
    assert ref.value.array is array
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("op", LOOPS)
def test_no_indices_and_a_single_one(g, op):
    ref = g.variable(np.full((3, 2), 4.0))
    getattr(g, op)(ref, g.tensor(np.zeros(0, np.int64)), g.tensor(np.ones((0, 2))))
    np.testing.assert_array_equal(ref.value.array, np.full((3, 2), 4.0))
    getattr(g, op)(ref, g.tensor(np.int64(1)), g.tensor(np.full(2, 2.0)))
    np.testing.assert_array_equal(ref.value.array[1], LOOPS[op](np.full(2, 4.0), 2.0))


def test_integers_and_non_contiguous_updates(g):
    ref = g.variable(np.zeros((2, 3), np.int64))
    updates = np.arange(6, dtype=np.int64).reshape(3, 2).T
    g.ScatterAdd(ref, g.tensor(np.int64([1, 1])), g.tensor(updates))
    np.testing.assert_array_equal(ref.value.array, [[0, 0, 0], updates.sum(axis=0)])


def test_updates_that_are_rows_of_the_variable_itself(g):
    ref = g.variable(np.arange(3.0))
    g.ScatterAdd(ref, g.tensor(np.int32([2, 1, 0])), g.tensor(ref.value.array))
    np.testing.assert_array_equal(ref.value.array, [2, 2, 2])


@pytest.mark.parametrize("op", LOOPS)
@pytest.mark.parametrize(("bad", "where"), [(4, "1,1"), (-1, "1,1")])
def test_indices_outside_are_refused_before_anything_changes(g, op, bad, where):
    ref = g.variable(np.ones(4))
    indices = g.tensor(np.array([[0, 1], [2, bad]]))
    with pytest.raises(InvalidArgumentError) as caught:
        getattr(g, op)(ref, indices, g.tensor(np.full((2, 2), 5.0)))
    assert str(caught.value) == (
        f"indices[{where}] = {bad} is not in [0, 4), the rows of variable 'variable'"
    )
    np.testing.assert_array_equal(ref.value.array, np.ones(4))


def test_updates_that_do_not_fit(g):
    ref = g.variable(np.ones((4, 3)))
    indices = g.tensor(np.zeros(2, np.int32))
    text = r"updates of shape .* = \(2, 3\), got \(2, 2\) for ref \(4, 3\) and indices \(2,\)"
    with pytest.raises(InvalidArgumentError, match=text):
        g.ScatterAdd(ref, indices, g.tensor(np.ones((2, 2))))
    with pytest.raises(InvalidArgumentError, match=text):
        g.ScatterAdd(ref, indices, g.tensor(np.ones((2, 2)), static_shape=None))
    with pytest.raises(InvalidArgumentError, match=r"needs a variable with rows, got \(\)"):
        g.ScatterAdd(g.variable(1.0), indices, np.float32(1))


def test_uninitialised(g):
    ref = g.variable(np.ones(2))
    ref.value.array = None
    with pytest.raises(FailedPreconditionError, match="uninitialized value variable"):
        g.ScatterSub(ref, g.tensor(np.zeros(1, np.int32)), g.tensor(np.ones(1)))
    assert not ref.value.lock.locked()
