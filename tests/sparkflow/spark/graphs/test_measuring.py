from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.graphs.measuring import (
    NotMeasurableError,
    measured_micros,
    variable_behind,
    variable_bytes,
)


def between(batch: Any, loss: Any) -> list[Any]:
    """Returns the operations between the batch and the loss."""
    reached, found = {batch.op.name}, []
    for op in loss.graph.get_operations():
        if any(each.op.name in reached for each in op.inputs):
            reached.add(op.name)
            found.append(op)
    return found


def test_forward_and_back_count_for_the_operation_and_nothing_is_added_to_the_graph() -> None:
    with tf.Graph().as_default() as graph, graph.device("/job:worker"):
        x = tf.placeholder(tf.float32, [None, 400])
        h = tf.layers.dense(x, 400, tf.nn.relu, name="large")
        loss = tf.reduce_mean(tf.layers.dense(h, 1, name="small"))
        operations = between(x, loss)
        before = graph.as_graph_def()
    costs = measured_micros(operations, {x.name: np.ones((200, 400), np.float32)})
    took = {op.name: cost for op, cost in zip(operations, costs, strict=True)}
    assert took["large/MatMul"] > 5 * took["small/MatMul"] > 0
    assert graph.as_graph_def() == before


def test_models_that_cannot_be_run_here_say_why() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.string, [None])
        table = tf.contrib.lookup.index_table_from_tensor(["a", "b"])
        loss = tf.reduce_mean(tf.to_float(table.lookup(x)))
        operations = between(x, loss)
        with pytest.raises(NotMeasurableError, match="initialized"):
            measured_micros(operations, {x.name: np.array([b"a"], object)})


def test_variables_that_are_too_large() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 1 << 20])
        w = tf.get_variable("w", [1 << 20, 1 << 20])
        loss = tf.reduce_mean(tf.matmul(x, w))
        with pytest.raises(NotMeasurableError, match="its variables take 4194304 MiB"):
            measured_micros(between(x, loss), {x.name: np.ones((1, 1 << 20), np.float32)})


def test_variables_are_found_behind_reads_and_casts() -> None:
    with tf.Graph().as_default():
        w = tf.get_variable("w", [3, 2])
        assert variable_behind(tf.cast(w, tf.float64)).name == "w"
        assert variable_bytes(variable_behind(tf.identity(w))) == 24
        assert variable_behind(tf.ones([2]) + 1.0) is None
