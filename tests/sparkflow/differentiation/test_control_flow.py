"""Gradients of branches and loops: variables behind handles, and gradients of rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

READS: dict[str, Callable[[Any, Any], Any]] = {
    "lookup": lambda x, i: tf.nn.embedding_lookup(x, i),
    "gather": lambda x, i: tf.gather(x, i),
    "gather_nd": lambda x, i: tf.gather_nd(x, i[:, None]),
    "value": lambda x, i: x * tf.to_float(tf.reduce_sum(i)),
    "read": lambda x, i: x.read_value() * tf.to_float(tf.size(i)),
    "slice": lambda x, i: x[1:3] * tf.to_float(tf.size(i)),
}
FLOWS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cond": lambda f, i, p: tf.cond(p, lambda: tf.reduce_sum(f(i) ** 2), lambda: 0.0),
    "both": lambda f, i, p: tf.cond(
        p, lambda: tf.reduce_sum(f(i) ** 2), lambda: tf.reduce_sum(f(i[:1]))
    ),
    "case": lambda f, i, p: tf.case(
        [(tf.logical_not(p), lambda: 1.0), (p, lambda: tf.reduce_sum(f(i)))], lambda: 2.0
    ),
    "while": lambda f, i, p: tf.while_loop(
        lambda n, a: n < 3, lambda n, a: (n + 1, a + tf.reduce_sum(f(i)) * a), [0, 1.0]
    )[1],
    "map": lambda f, i, p: tf.reduce_sum(
        tf.map_fn(lambda each: tf.reduce_sum(f(each[None]) ** 2), i, tf.float32)
    ),
    "cond in while": lambda f, i, p: tf.while_loop(
        lambda n, a: n < 3,
        lambda n, a: (n + 1, tf.cond(n < 2, lambda: a + tf.reduce_sum(f(i)) * a, lambda: a)),
        [0, 1.0],
    )[1],
    "while in cond": lambda f, i, p: tf.cond(
        p,
        lambda: tf.while_loop(
            lambda n, a: n < 2, lambda n, a: (n + 1, a + tf.reduce_sum(f(i)) * a), [0, 1.0]
        )[1],
        lambda: 0.0,
    ),
}


def _trained(
    is_resource: bool, flow: str, read: str, optimizer: Any, feeds: tuple[Any, ...] = ((1, 2),)
) -> np.ndarray[Any, Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        start = np.arange(8, dtype=np.float32).reshape(4, 2) / 10 + 0.1
        x = tf.get_variable("x", initializer=start, use_resource=is_resource)
        i, p = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.bool, [])
        loss = FLOWS[flow](lambda where: READS[read](x, where), i, p)
        train = optimizer.minimize(loss)
        session.run(tf.global_variables_initializer())
        for rows in feeds:
            session.run(train, {i: rows, p: True})
        session.run(train, {i: [3], p: False})
        values: np.ndarray[Any, Any] = session.run(x)
    return values


@pytest.mark.parametrize("flow", list(FLOWS))
@pytest.mark.parametrize("read", list(READS))
def test_variables_behind_handles_are_trained_like_references(flow: str, read: str) -> None:
    expected = _trained(False, flow, read, tf.train.GradientDescentOptimizer(0.01))
    found = _trained(True, flow, read, tf.train.GradientDescentOptimizer(0.01))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    start = np.arange(8, dtype=np.float32).reshape(4, 2) / 10 + 0.1
    assert not np.allclose(found, start)


@pytest.mark.parametrize("is_resource", [False, True])
@pytest.mark.parametrize("flow", ["cond", "both", "case"])
def test_rows_that_no_branch_reads_stay_as_they_are(is_resource: bool, flow: str) -> None:
    """Momentum would move rows of earlier steps on, if the gradient of a branch were dense."""
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    found = _trained(is_resource, flow, "lookup", optimizer, ([0], [1], [1]))
    alone = _trained(is_resource, flow, "lookup", optimizer, ([0],))
    np.testing.assert_allclose(found[0], alone[0], rtol=1e-6)
    np.testing.assert_array_equal(found[2], np.float32([0.5, 0.6]))


def test_the_gradient_of_rows_of_a_branch_is_of_rows() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.get_variable("x", initializer=np.ones((3, 1), np.float32))
        i, p = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.bool, [])
        y = tf.cond(p, lambda: tf.reduce_sum(tf.gather(x, i)), lambda: 0.0)
        gradient = tf.gradients(y, x)[0]
        assert isinstance(gradient, tf.IndexedSlices)
        session.run(tf.global_variables_initializer())
        taken = session.run(gradient, {i: [2, 2], p: True})
        assert (taken.indices.tolist(), taken.values.tolist()) == ([2, 2], [[1], [1]])
        other = session.run(gradient, {i: [2, 2], p: False})
        assert (other.indices.tolist(), other.values.shape) == ([], (0, 1))
        dense = tf.cond(p, lambda: tf.reduce_sum(tf.gather(x, i)), lambda: tf.reduce_sum(x))
        both = tf.gradients(dense, x)[0]
        assert isinstance(both, tf.Tensor)
        assert session.run(both, {i: [2, 2], p: True}).ravel().tolist() == [0, 0, 2]
        assert session.run(both, {i: [2], p: False}).ravel().tolist() == [1, 1, 1]


def test_handles_of_other_things_get_no_gradient() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        keys, values = tf.constant([1, 2], tf.int64), tf.constant([3.0, 4.0])
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1.0)
        w = tf.get_variable("w", [], initializer=tf.ones_initializer(), use_resource=True)
        y = tf.while_loop(
            lambda n, a: n < 3,
            lambda n, a: (n + 1, a + w * table.lookup(n)),
            [tf.constant(1, tf.int64), 0.0],
        )[1]
        gradient = tf.gradients(y, w)[0]
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        assert session.run(gradient) == 7


IMPORTED: dict[str, Callable[[Any, Any], Any]] = {
    "while": lambda x, w: tf.while_loop(
        lambda n, a: n < 3, lambda n, a: (n + 1, tf.tanh(tf.matmul(a, w))), [0, x]
    )[1],
    "lookups": lambda x, w: tf.while_loop(
        lambda n, a: n < 3,
        lambda n, a: (n + 1, a * tf.reduce_sum(tf.nn.embedding_lookup(w, [n % 2]))),
        [0, x],
    )[1],
    "cond": lambda x, w: tf.cond(
        tf.reduce_sum(x) > 0, lambda: tf.matmul(x, w), lambda: tf.matmul(x * 2, w)
    ),
    "map": lambda x, w: tf.map_fn(lambda row: tf.squeeze(tf.matmul(row[None], w), 0), x),
    "grows": lambda x, w: tf.while_loop(
        lambda n, a: n < tf.shape(x)[0],
        lambda n, a: (n + 1, a.write(n, tf.squeeze(tf.matmul(x[n][None], w), 0))),
        [0, tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[2])],
    )[1].stack(),
}


@pytest.mark.parametrize("is_resource", [False, True])
@pytest.mark.parametrize("kind", list(IMPORTED))
def test_imported_branches_and_loops_are_trained_like_those_built(
    tmp_path: Path, kind: str, is_resource: bool
) -> None:
    path = str(tmp_path / "graph.meta")

    def build() -> None:
        with tf.variable_scope("m", use_resource=is_resource):
            start = tf.constant_initializer(np.float32([[0.3, -0.2], [0.1, 0.4]]))
            w = tf.get_variable("w", [2, 2], initializer=start)
            x = tf.placeholder(tf.float32, [None, 2], name="x")
            tf.reduce_sum(IMPORTED[kind](x, w) ** 2, name="loss")

    def trained(is_imported: bool) -> np.ndarray[Any, Any]:
        with tf.Graph().as_default() as graph, tf.Session() as session:
            if is_imported:
                tf.train.import_meta_graph(path)
            else:
                build()
                tf.train.export_meta_graph(path)
            loss = graph.get_tensor_by_name("m/loss:0")
            train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
            session.run(tf.global_variables_initializer())
            for _ in range(2):
                session.run(train, {"m/x:0": np.float32([[1, 2], [0.5, -1]])})
            values: np.ndarray[Any, Any] = session.run(tf.trainable_variables()[0])
        return values

    expected = trained(False)
    np.testing.assert_allclose(trained(True), expected, rtol=1e-6)
    assert not np.allclose(expected, [[0.3, -0.2], [0.1, 0.4]])


def test_an_imported_function_may_be_called_with_variables_of_several_shapes() -> None:
    with tf.Graph().as_default() as graph:
        with tf.variable_scope("m", use_resource=True):
            for name, shape in (("a", [2, 2]), ("b", [3, 4])):
                tf.get_variable(name, shape, initializer=tf.ones_initializer())
        a = tf.trainable_variables()[0]
        p = tf.placeholder(tf.bool, [], name="p")
        tf.cond(p, lambda: tf.gather(a, [1]) * 2.0, lambda: tf.gather(a, [0]) * 3.0)
        message = graph.as_graph_def()
    (call,) = [node for node in message.node if node.op == "If"]
    other = message.node.add()
    other.CopyFrom(call)
    other.name = "other"
    other.input[:] = [each.replace("m/a", "m/b") for each in call.input]
    for shapes in [name for name in other.attr if "output_shapes" in name]:  # those of `a`
        del other.attr[shapes]
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(message, name="")
        found = []
        for variable, name in (("m/a", call.name), ("m/b", "other")):
            y, x = (graph.get_tensor_by_name(f"{each}:0") for each in (name, variable))
            gradient = tf.gradients(tf.reduce_sum(y), x)[0]
            assert isinstance(gradient, tf.IndexedSlices)
            session.run(graph.get_operation_by_name(f"{variable}/Assign"))
            found.append(session.run(gradient, {"p:0": True}))
        assert [each.values.tolist() for each in found] == [[[2, 2]], [[2, 2, 2, 2]]]
        assert [each.dense_shape.tolist() for each in found] == [[2, 2], [3, 4]]
