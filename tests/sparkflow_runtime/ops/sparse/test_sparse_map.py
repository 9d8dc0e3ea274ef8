"""Sparse tensors passed through a queue."""

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.sparse import sparse_map  # noqa: F401 - registers the ops
from support.eager import EagerBuilder


@pytest.fixture
def g():
    return EagerBuilder()


def take(g, handles):
    return [
        each.value
        for each in g.TakeManySparseFromTensorsMap(
            np.int64(handles), dtype=dtypes.float32, shared_name="m"
        )
    ]


def test_single_ones_become_a_batch(g):
    handles = [
        g.AddSparseToTensorsMap(
            np.int64([[size - 1]]), np.float32([size]), np.int64([size]), shared_name="m"
        ).value
        for size in (2, 3)
    ]
    indices, values, shape = take(g, handles)
    assert indices.tolist() == [[0, 1], [1, 2]]
    assert values.tolist() == [2, 3]
    assert shape.tolist() == [2, 3]
    with pytest.raises(InvalidArgumentError, match="Unable to find SparseTensor: 0 in map"):
        take(g, handles)


def test_rows_are_kept_one_by_one(g):
    handles = g.AddManySparseToTensorsMap(
        np.int64([[0, 1], [2, 0], [2, 3]]),
        np.float32([5, 6, 7]),
        np.int64([3, 4]),
        shared_name="m",
    ).value
    assert handles.shape == (3,)
    indices, values, shape = take(g, handles[::-1])
    assert indices.tolist() == [[0, 0], [0, 3], [2, 1]]
    assert values.tolist() == [6, 7, 5]
    assert shape.tolist() == [3, 4]


def test_ranks_must_agree(g):
    handles = [
        g.AddSparseToTensorsMap(
            np.zeros((0, rank), np.int64),
            np.zeros(0, np.float32),
            np.ones(rank, np.int64),
            shared_name="m",
        ).value
        for rank in (1, 2)
    ]
    with pytest.raises(InvalidArgumentError, match=r"these have \[1, 2\]"):
        take(g, handles)
