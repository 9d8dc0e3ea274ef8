"""Which shapes stages can be told, and that they are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.replication.told_shapes import Size, ToldShapes, sizes_by_rows

ROWS, FIXED = Size(1, 0), Size(0, 4)


CASES: dict[str, tuple[Callable[[Any], Any], tuple[Size, ...] | None]] = {
    "rows stay": (lambda x: tf.nn.relu(x), (ROWS, FIXED)),
    "sums": (lambda x: tf.reduce_sum(x), ()),
    "fixed": (lambda x: tf.reduce_sum(x, 0), (FIXED,)),
    "several each": (lambda x: tf.reshape(x, [-1, 2]), (Size(2, 0), Size(0, 2))),
    "and some more": (lambda x: tf.pad(x, [[1, 2], [0, 0]]), (Size(1, 3), FIXED)),
    "rows by rows": (lambda x: tf.matmul(x, x, transpose_b=True), (ROWS, ROWS)),
    "by its own shape": (lambda x: tf.ones([3, tf.shape(x)[0] - 1]), (Size(0, 3), Size(1, -1))),
    "halves": (lambda x: x[::2], None),
    "at most": (lambda x: x[:3], None),
    "at most many": (lambda x: x[:2000], None),
    "at least": (lambda x: tf.ones([tf.maximum(tf.shape(x)[0], 500)]), None),
    "the products of sizes": (
        lambda x: tf.reshape(tf.tile(x, [1, 2048]), [tf.shape(x)[0] * 8192]),
        (Size(8192, 0),),
    ),
    "what a mask selects": (lambda x: tf.boolean_mask(x, x[:, 0] > 0), None),
    "of another rank for one row": (lambda x: tf.squeeze(x), None),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_by_rows(name: str) -> None:
    make, wanted = CASES[name]
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 4])
        made = make(x)
        found = sizes_by_rows(graph.get_operations(), [x.name], [made])
    assert found.get(made.name) == wanted


def test_what_comes_after_a_loop_of_frames_is_left_out() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 4])
        inside = graph.apply("Enter", (x,), {"frame_name": "f"}, name="enter")
        outside = graph.apply("Exit", (inside,), {}, name="exit")
        wanted = [tf.nn.relu(x), outside]
        found = sizes_by_rows(graph.get_operations(), [x.name], wanted)
    assert list(found) == ["Relu:0"]


def test_an_operation_reads_what_comes_from_another_stage_with_its_shape() -> None:
    def stage_of(op: Any) -> int | None:
        return int(op.device[-1]) if op.device else None

    with tf.Graph().as_default() as graph:
        batches, ends = [], []
        for number in range(2):
            batch = tf.placeholder_with_default(tf.ones([number + 2, 4]), [None, 4])
            with tf.device("/job:worker/task:0"):
                first = tf.nn.relu(batch)
            with tf.device("/job:worker/task:1"):
                ends.append(tf.stack([first, first]))
            batches.append(batch)
        told = ToldShapes(graph, [tf.constant(2), tf.constant(3)], stage_of)
        (wanted,) = told.crossing([ends[0].op])
        sizes = sizes_by_rows(graph.get_operations(), [batches[0].name], [wanted])
        ((one, other),) = told.tell([{"end": end.op} for end in ends], sizes)
        assert [tensor.op for tensor in ends[1].op.inputs] == [other, other]
        assert one.type == "Reshape"
        assert one.device == "/job:worker/task:1"
        assert told.sizes == {one.outputs[0].name: (ROWS, FIXED)}
        assert one.outputs[0].shape.as_list() == [2, 4]
        with graph.device(None), tf.Session(graph=_without_devices(graph)) as session:
            values = session.run([end.name for end in ends])
    assert [value.shape for value in values] == [(2, 2, 4), (2, 3, 4)]
    np.testing.assert_array_equal(values[1], np.ones([2, 3, 4]))


def _without_devices(graph: Any) -> Any:
    message = graph.as_graph_def()
    for node in message.node:
        node.device = ""
    made = tf.Graph()
    with made.as_default():
        tf.import_graph_def(message, name="")
    return made
