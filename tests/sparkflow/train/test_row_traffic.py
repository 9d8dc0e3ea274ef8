"""The bytes exchanged between tasks if tables of rows are on parameter servers."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master import pipeline
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.worker.step import Step

ROWS, COLUMNS = 5000, 32
ROW_BYTES = 4 * COLUMNS
NUM_PS = 2


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(num_ps=NUM_PS, num_workers=2) as made:
        yield made


@pytest.fixture(autouse=True)
def _fresh(cluster):
    with tf.Graph().as_default():
        yield
    tf.Session.reset(cluster.target("worker", 0))


@pytest.fixture
def sent(monkeypatch):
    """Records the arrays that every step sends, as (destination's job, array)."""
    found = []
    send = Step.send

    def counting(self, key, destination, values, *rest):
        job = destination.removeprefix("/job:").partition("/")[0]
        found.extend((job, np.asarray(value)) for value in values)
        return send(self, key, destination, values, *rest)

    monkeypatch.setattr(Step, "send", counting)
    return found


def rows_to(found, job):
    """Returns the number of rows of the table's width sent to this job."""
    arrays = [each for to, each in found if to == job and each.ndim > 1]
    return sum(each.size // COLUMNS for each in arrays)


def ids_to(found, job):
    arrays = [each for to, each in found if to == job and each.dtype == np.int64]
    return sum(each.size for each in arrays)


OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}
PARTITIONERS = {
    "whole": None,
    "fixed": tf.fixed_size_partitioner(NUM_PS),
    "by size": tf.variable_axis_size_partitioner(ROWS * ROW_BYTES // 2),
    "min max": tf.min_max_variable_partitioner(NUM_PS, min_slice_size=1 << 16),
}


def table(partitioner=None):
    return tf.get_variable(
        "table",
        [ROWS, COLUMNS],
        initializer=tf.random_uniform_initializer(-1, 1, seed=7),
        partitioner=PARTITIONERS[partitioner] if partitioner else None,
    )


def whole(session, variable):
    parts = variable if hasattr(variable, "_variable_list") else [variable]
    return np.concatenate([session.run(each) for each in parts])


def trained(target, optimizer, partitioner, strategy):
    """Returns the table before and after three steps; the graph is the default one."""
    weights = table(partitioner)
    asked = tf.placeholder(tf.int64, [None, None])
    found = tf.nn.embedding_lookup(weights, asked, partition_strategy=strategy)
    scale = tf.reshape(tf.range(1.0, COLUMNS + 1), [1, 1, COLUMNS]) / COLUMNS
    loss = tf.reduce_sum(tf.square(found * scale - 0.25))
    train = optimizer().minimize(loss)
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        before = whole(session, weights)
        for _ in range(3):
            session.run(train, {asked: IDS})
        return before, whole(session, weights)


IDS = np.array([[17, 4000, 17], [17, 2501, 4000], [17, 2500, 3], [3, 17, 2499]])
DISTINCT = len(np.unique(IDS))


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_only_distinct_rows_travel_and_training_is_the_same(
    cluster, sent, monkeypatch, name, partitioner, strategy
):
    def there():
        with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(NUM_PS)):
            return trained(cluster.target("worker", 0), OPTIMIZERS[name], partitioner, strategy)

    start, end = there()
    assert rows_to(sent, "worker") == 3 * DISTINCT
    assert rows_to(sent, "ps") == 3 * DISTINCT
    assert ids_to(sent, "ps") == 3 * DISTINCT
    others = tuple(
        each for each in pipeline.PASSES if "distinct_rows" not in getattr(each, "name", "")
    )
    assert len(others) == len(pipeline.PASSES) - 1
    monkeypatch.setattr(pipeline, "PASSES", others)
    same_start, same_end = there()
    np.testing.assert_array_equal(start, same_start)
    if name == "sgd":  # which subtracts the sum of rows, not one row after another
        np.testing.assert_allclose(end, same_end, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(end, same_end)
    with tf.Graph().as_default():
        alone_start, alone_end = trained("", OPTIMIZERS[name], partitioner, strategy)
    np.testing.assert_array_equal(start, alone_start)
    np.testing.assert_allclose(end, alone_end, rtol=1e-5, atol=1e-6)
    assert not np.array_equal(end, start)


@pytest.mark.parametrize("partitioner", ["whole", "fixed"])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("kind", ["plain", "safe"])
def test_combined_lookups_move_distinct_rows(cluster, sent, kind, combiner, partitioner):
    function = {
        "plain": tf.nn.embedding_lookup_sparse,
        "safe": tf.nn.safe_embedding_lookup_sparse,
    }[kind]
    fed = tf.SparseTensorValue(
        np.array([[0, 0], [0, 1], [1, 0], [2, 0], [2, 1], [2, 2]]),
        np.array([17, 4000, 17, 17, 2500, 17]),
        [3, 3],
    )

    def run(target):
        weights = table(partitioner)
        ids = tf.sparse_placeholder(tf.int64, [None, None])
        found = function(weights, ids, None, combiner=combiner, partition_strategy="div")
        train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(found - 1.0)))
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            sent.clear()
            first, _ = session.run([found, train], {ids: fed})
            return first, session.run(found, {ids: fed})

    with tf.device(tf.train.replica_device_setter(ps_tasks=NUM_PS)):
        there = run(cluster.target("worker", 0))
    assert rows_to(sent, "ps") == 3
    assert rows_to(sent, "worker") == 2 * 3
    with tf.Graph().as_default():
        here = run("")
    for got, expected in zip(there, here, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_variables_by_handle_move_distinct_rows(cluster, sent):
    graph = tf.get_default_graph()
    with tf.device("/job:ps/task:1"):
        handle = graph.apply(
            "VarHandleOp", (), {"dtype": tf.float32, "shape": (ROWS, COLUMNS), "shared_name": "h"}
        )
        accum = graph.apply(
            "VarHandleOp", (), {"dtype": tf.float32, "shape": (ROWS, COLUMNS), "shared_name": "a"}
        )
        filled = [
            graph.add_node("AssignVariableOp", (each, tf.ones([ROWS, COLUMNS])), {})
            for each in (handle, accum)
        ]
    with tf.device("/job:worker/task:0"):
        ids = tf.placeholder(tf.int64, [None])
        grads = tf.placeholder(tf.float32, [None, COLUMNS])
        doubled = grads * 2.0
    with tf.device("/job:ps/task:1"):
        rows = graph.apply("ResourceGather", (handle, ids), {"dtype": tf.float32})
        update = graph.add_node(
            "ResourceSparseApplyAdagrad", (handle, accum, tf.constant(1.0), doubled, ids), {}
        )
    with tf.device("/job:worker/task:0"):
        used = rows * 3.0
    fed = {ids: [5, 7, 5, 5], grads: np.ones((4, COLUMNS))}
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(filled)
        sent.clear()
        assert session.run(used, fed).shape == (4, COLUMNS)
        session.run(update, fed)
        assert rows_to(sent, "worker") == 2
        assert rows_to(sent, "ps") == 2
        after = session.run(used, fed)[:, 0]
    expected = 3 * (1 - 6 / np.sqrt(37)), 3 * (1 - 2 / np.sqrt(5))
    np.testing.assert_allclose(after, [expected[i] for i in (0, 1, 0, 0)], rtol=1e-5)


def test_towers_on_two_workers_send_rows_only(cluster, sent):
    with tf.device("/job:ps/task:0"):
        weights = table()
        ids = tf.placeholder(tf.int64, [None])
    optimizer = tf.train.AdagradOptimizer(0.1)
    losses = []
    for index, part in enumerate(tf.split(tf.reshape(ids, [2, -1]), 2)):
        with tf.device(f"/job:worker/task:{index}"):
            found = tf.nn.embedding_lookup(weights, tf.reshape(part, [-1]))
            losses.append(tf.reduce_sum(tf.square(found)))
    with tf.device("/job:ps/task:0"):
        train = optimizer.minimize(tf.add_n(losses), colocate_gradients_with_ops=True)
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(tf.global_variables_initializer())
        sent.clear()
        session.run(train, {ids: [1, 1, 2, 1, 3, 3, 3, 3]})
    assert rows_to(sent, "worker") == 3
    assert rows_to(sent, "ps") <= 8


def test_one_gradient_of_rows_in_sync_replication_is_added_up_first(cluster, sent):
    with tf.device("/job:ps/task:0"):
        weights = table()
    with tf.device("/job:worker/task:0"):
        ids = tf.placeholder(tf.int64, [None])
        loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(weights, ids)))
        grads = tf.gradients(loss, weights)[0]
    with tf.device("/job:ps/task:0"):
        accumulator = tf.SparseConditionalAccumulator(tf.float32, [ROWS, COLUMNS])
        push = accumulator.apply_indexed_slices_grad(grads)
        mean = accumulator.take_indexed_slices_grad(1)
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(tf.global_variables_initializer())
        fed = {ids: [9, 9, 8, 9]}
        start = session.run(weights)
        sent.clear()
        session.run(push, fed)
        assert rows_to(sent, "ps") == 2
        found = session.run(mean)
    assert found.indices.tolist() == [8, 9]
    np.testing.assert_allclose(found.values[1], 6 * start[9], rtol=1e-6)
    np.testing.assert_allclose(found.values[0], 2 * start[8], rtol=1e-6)
