"""Gradients of gathers stay sparse if an optimizer can use it."""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from support.eager import EagerBuilder, EagerSlices

TABLE = np.arange(12.0).reshape(4, 3)


def gradient(op, indices, *more, params=TABLE, static_shape=(), **attrs):
    g = EagerBuilder()
    x = g.tensor(params, static_shape=static_shape)
    y = getattr(g, op)(x, indices, *more, **attrs)
    return g.gradients([y], [x], [g.tensor(np.ones(y.value.shape))])[0]


@pytest.mark.parametrize("static_shape", [(4, 3), (None, 3), (None, None), None])
@pytest.mark.parametrize(("op", "more"), [("Gather", ()), ("GatherV2", (np.array(0, np.int32),))])
def test_gradient_along_the_first_dimension_is_sparse(op, more, static_shape):
    indices = np.array([[3, 1], [3, 0]], np.int32)
    found = gradient(op, indices, *more, static_shape=static_shape)
    assert isinstance(found, EagerSlices)
    assert found.indices.value.tolist() == [3, 1, 3, 0]
    assert found.values.value.tolist() == [[1, 1, 1]] * 4
    assert found.dense_shape.value.tolist() == [4, 3]


def test_gradient_of_a_variable_reads_nothing_but_its_shape():
    g = EagerBuilder()
    table = g.variable(TABLE)
    y = g.Gather(table, np.array([1], np.int32))
    (found,) = g.gradients([y], [table], [g.tensor(np.ones((1, 3)))])
    assert isinstance(found, EagerSlices)
    assert found.dense_shape.is_const


@pytest.mark.parametrize("batch_dims", [0, 1])
def test_gradient_along_another_dimension_is_dense(batch_dims):
    indices = np.array([[1, 1], [0, 2]], np.int32)
    cube = np.zeros((2, 3, 2))
    found = gradient("GatherV2", indices, np.array(1, np.int32), params=cube, batch_dims=batch_dims)
    assert not isinstance(found, EagerSlices)
    counts = [[1, 2, 1]] * 2 if batch_dims == 0 else [[0, 2, 0], [1, 0, 1]]
    np.testing.assert_array_equal(found.value, np.repeat(counts, 2).reshape(2, 3, 2))


def test_gradient_of_gather_nd_by_row_is_sparse():
    found = gradient("GatherNd", np.array([[2], [2]], np.int32))
    assert isinstance(found, EagerSlices)
    assert found.indices.value.tolist() == [2, 2]


def test_all_indices_are_checked_before_any_is_used():
    g = EagerBuilder()
    params = g.tensor(np.zeros((0, 3)))
    with pytest.raises(Exception, match=r"indices\[0\] = 0 is not in \[0, 0\)"):
        g.Gather(params, np.array([0], np.int32))


def filler(op_type, **attrs):
    node = type("Node", (), {"name": "n", "op": op_type, "attrs": {"batch_dims": 0, **attrs}})()
    return registry.lookup(op_type).bind_out(node, EagerBuilder().context)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, object])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_fills_arrays_that_it_is_given(axis, dtype):
    params = np.arange(12).reshape(3, 4).astype(dtype)
    indices = np.array([[2, 0], [1, 1]])
    expected = np.take(params, indices, axis)
    out = np.empty(expected.shape, dtype)
    filler("GatherV2")(params, indices, np.int32(axis), out)
    np.testing.assert_array_equal(out, expected)
    if not axis:
        for op_type, given in (("Gather", params), ("ResourceGather", variable(params))):
            out = np.empty(expected.shape, dtype)
            filler(op_type)(given, indices, out)
            np.testing.assert_array_equal(out, expected)


def variable(array):
    return EagerBuilder().variable(array).value


def test_refuses_what_it_cannot_fill():
    fill, out = filler("GatherV2"), np.empty((1, 2))
    with pytest.raises(InvalidArgumentError, match=r"indices\[0\] = 3 is not in \[0, 3\)"):
        fill(np.zeros((3, 2)), np.array([3]), np.int32(0), out)
    with pytest.raises(InvalidArgumentError, match="at least 1 dimensional"):
        fill(np.zeros(()), np.array([0]), np.int32(0), out)
    with pytest.raises(InvalidArgumentError, match="Expected axis in the range"):
        fill(np.zeros(3), np.array([0]), np.int32(5), out)
    assert filler("GatherV2", batch_dims=1) is None
