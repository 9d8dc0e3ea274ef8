from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.graphs.batch_tensors import BatchTensors, DrawnBatch
from sparkflow.spark.graphs.pipeline import Pipeline, _cut
from sparkflow.train.optimizers.strategy import AsyncReplication


def run(tensors: Any) -> Any:
    with tf.Session() as session:
        return session.run(tensors)


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 100])
def test_parts_are_the_batch_and_those_without_rows_do_not_count(rows: int) -> None:
    features = np.arange(rows * 6, dtype=np.float32).reshape(rows, 3, 2)
    batch = BatchTensors(tf.constant(features), tf.constant(np.arange(rows)))
    parts, counts, sizes = _cut(batch, 4)
    found = run(
        [(part.features, part.labels, count) for part, count in zip(parts, counts, strict=True)]
    )
    assert [len(x) for x, *_ in found] == list(run(sizes))
    assert sum(count for *_, count in found) == rows
    assert max(count for *_, count in found) - min(count for *_, count in found) <= 1
    kept = [(x, y) for x, y, count in found if count]
    np.testing.assert_array_equal(np.concatenate([x for x, _ in kept]), features)
    np.testing.assert_array_equal(np.concatenate([y for _, y in kept]), np.arange(rows))
    assert all(len(x) == max(count, 1) for x, _, count in found)
    assert parts[0].features.shape.as_list() == [None, 3, 2]


def test_a_batch_without_rows_has_parts_without_rows() -> None:
    parts, counts, _ = _cut(BatchTensors(tf.zeros([0, 3]), tf.zeros([0])), 2)
    found = run([(part.features, count) for part, count in zip(parts, counts, strict=True)])
    assert [(x.shape, count) for x, count in found] == [((0, 3), 0.0)] * 2


def test_named_and_sparse_features() -> None:
    dense = np.arange(10, dtype=np.float32).reshape(5, 2)
    sparse = np.array([[0, 1, 0], [2, 0, 3], [0, 0, 0], [0, 4, 0], [5, 0, 6]], np.float32)
    places = np.argwhere(sparse)
    given = tf.SparseTensor(places, sparse[tuple(places.T)], sparse.shape)
    batch = BatchTensors({"d": tf.constant(dense), "s": given}, tf.zeros([5]), tf.ones([5]))
    parts, *_ = _cut(batch, 2)
    assert parts[0].features["s"].get_shape().as_list()[1] == 3
    found = run(
        [(p.features["d"], tf.sparse_tensor_to_dense(p.features["s"]), p.weights) for p in parts]
    )
    np.testing.assert_array_equal(np.concatenate([d for d, _, _ in found]), dense)
    np.testing.assert_array_equal(np.concatenate([s for _, s, _ in found]), sparse)
    assert sum(len(w) for *_, w in found) == 5


def pipeline() -> Pipeline:
    batch = BatchTensors(tf.zeros([6, 2]), tf.zeros([6]))
    drawn = DrawnBatch(batch, tf.constant(6.0), tf.constant(0.0))
    return Pipeline(drawn, AsyncReplication(), 2, 2)


def test_gradients_of_ones_own_are_refused() -> None:
    made = pipeline()
    w = tf.get_variable("w", [2, 1])
    loss = tf.reduce_mean(tf.matmul(made.first.features, w))
    with made.strategy.scope():
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        optimizer.apply_gradients([(tf.gradients(loss, w)[0], w)])
    with pytest.raises(ValueError, match="modelParallel=2 needs the gradients of an optimizer"):
        made.check()
