"""Variables sent as 16-bit floats: what is exchanged between tasks, and the results."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.worker.step import Step

ROWS, COLUMNS = 64, 32


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(num_ps=2, num_workers=2) as made:
        yield made


@pytest.fixture(autouse=True)
def _fresh(cluster):
    with tf.Graph().as_default():
        yield
    tf.Session.reset(cluster.target("worker", 0))


@pytest.fixture
def sent(monkeypatch):
    """Records the dtypes of arrays of several numbers that steps send."""
    found = []
    send = Step.send

    def noting(self, key, destination, values, *rest):
        found.extend(each.dtype for each in map(np.asarray, values) if each.size > 8)
        return send(self, key, destination, values, *rest)

    monkeypatch.setattr(Step, "send", noting)
    return found


def narrowed(values, dtype):
    return values.astype(dtype.as_numpy_dtype).astype(values.dtype)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_values_and_gradients_of_dense_variables_travel_narrow(cluster, sent, dtype):
    start = np.linspace(-1, 1, ROWS * COLUMNS).reshape(ROWS, COLUMNS).astype(np.float32)
    x_values = np.linspace(0.1, 2, ROWS).reshape(1, ROWS).astype(np.float32)
    with tf.device(tf.train.replica_device_setter(1)):
        weights = tf.get_variable("w", initializer=start)
        other = tf.get_variable("other", initializer=start)
        x = tf.placeholder(tf.float32, [1, ROWS])
        loss = tf.reduce_sum(tf.square(tf.matmul(x, weights)) / 2)
        loss += tf.reduce_sum(tf.matmul(x, other)) * 0.0
        train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    tf.train.set_wire_dtype(weights, dtype)
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(tf.global_variables_initializer())
        sent.clear()
        session.run(train, {x: x_values})
        kinds = [each.name for each in sent]
        end = session.run(weights)
        assert session.run(other).dtype == np.float32
    assert sorted(set(kinds)) == sorted({dtype.name, "float32"})
    assert kinds.count(dtype.name) == 2
    gradient = x_values.T @ (x_values @ narrowed(start, dtype))
    expected = start - np.float32(0.01) * narrowed(gradient, dtype)
    np.testing.assert_allclose(end, expected, rtol=1e-3, atol=1e-4)
    assert not np.array_equal(end, narrowed(end, dtype))


def test_the_casts_are_seen_in_the_partitions(cluster):
    with tf.device(tf.train.replica_device_setter(1)):
        weights = tf.get_variable("w", [ROWS, COLUMNS])
        total = tf.reduce_sum(weights * 2.0)
    tf.train.set_wire_dtype([weights], tf.bfloat16)
    metadata = tf.RunMetadata()
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(weights.initializer)
        options = tf.RunOptions(output_partition_graphs=True)
        session.run(total, options=options, run_metadata=metadata)
    found = {
        (node.device.removeprefix("/job:")[:2], node.op, node.attr["DstT"].type)
        for part in metadata.partition_graphs
        for node in part.node
        if node.op == "Cast"
    }
    assert found == {("ps", "Cast", tf.bfloat16.number), ("wo", "Cast", tf.float32.number)}


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf.train.GradientDescentOptimizer(0.1),
        lambda: tf.train.AdagradOptimizer(0.1),
        lambda: tf.train.AdamOptimizer(0.1),
    ],
    ids=["sgd", "adagrad", "adam"],
)
def test_rows_travel_narrow(cluster, sent, optimizer, partitions):
    partitioner = tf.fixed_size_partitioner(partitions) if partitions > 1 else None
    with tf.device(tf.train.replica_device_setter(2)):
        weights = tf.get_variable(
            "w",
            [ROWS, COLUMNS],
            initializer=tf.random_uniform_initializer(-1, 1, seed=3),
            partitioner=partitioner,
        )
        ids = tf.placeholder(tf.int64, [None])
        found = tf.nn.embedding_lookup(weights, ids)
        train = optimizer().minimize(tf.reduce_sum(tf.square(found - 0.5)))
    tf.train.set_wire_dtype(weights, tf.bfloat16)
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(tf.global_variables_initializer())
        before = session.run(found, {ids: np.arange(ROWS)})
        sent.clear()
        session.run(train, {ids: [3, 5, 7, 3, 40, 41, 3, 5]})
        kinds = {each.name for each in sent}
        after = session.run(found, {ids: np.arange(ROWS)})
    assert kinds <= {"bfloat16", "int64", "int32"}
    assert "bfloat16" in kinds
    np.testing.assert_array_equal(before, narrowed(before, tf.bfloat16))
    moved = np.flatnonzero((before != after).any(1))
    assert set(moved) >= {3, 5, 7, 40, 41}


def test_gradients_for_accumulators_travel_narrow(cluster, sent):
    with tf.device(tf.train.replica_device_setter(1)):
        weights = tf.get_variable("w", [ROWS, COLUMNS], initializer=tf.ones_initializer())
        step = tf.train.get_or_create_global_step()
        loss = tf.reduce_sum(tf.square(weights))
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=1
        )
        train = optimizer.minimize(loss, step)
    tf.train.set_wire_dtype(weights, tf.float16)
    hook = optimizer.make_session_run_hook(is_chief=True, num_tokens=2)
    with tf.train.MonitoredTrainingSession(
        cluster.target("worker", 0), is_chief=True, hooks=[hook]
    ) as session:
        sent.clear()
        session.run(train)
        kinds = {each.name for each in sent}
    assert kinds == {"float16"}


def test_what_is_saved_is_not_rounded(cluster, tmp_path):
    start = np.linspace(-1, 1, ROWS * COLUMNS).reshape(ROWS, COLUMNS).astype(np.float32)
    with tf.device("/job:ps/task:0"):
        weights = tf.get_variable("w", initializer=start)
    tf.train.set_wire_dtype(weights, tf.bfloat16)
    with tf.device("/job:worker/task:0"):
        saver = tf.train.Saver([weights])
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(weights.initializer)
        path = saver.save(session, str(tmp_path / "model"), write_meta_graph=False)
        session.run(weights.assign(tf.zeros_like(weights)))
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run(weights), start)


def test_one_process_rounds_nothing():
    start = np.linspace(-1, 1, 64).astype(np.float32)
    weights = tf.get_variable("w", initializer=start)
    tf.train.set_wire_dtype(weights, tf.bfloat16)
    with tf.Session() as session:
        session.run(weights.initializer)
        np.testing.assert_array_equal(session.run(weights * 1.0), start)


def test_none_takes_it_back():
    weights = tf.get_variable("w", [8])
    tf.train.set_wire_dtype(weights, tf.bfloat16)
    assert weights.op.get_attr("_wire_dtype") is tf.bfloat16
    tf.train.set_wire_dtype(weights, None)
    with pytest.raises(ValueError, match="_wire_dtype"):
        weights.op.get_attr("_wire_dtype")


def test_what_cannot_travel_is_refused():
    count = tf.get_variable("count", [], tf.int64)
    weights = tf.get_variable("w", [8])
    with pytest.raises(ValueError, match="'count' is int64; only float32 and float64"):
        tf.train.set_wire_dtype([weights, count], tf.bfloat16)
    with pytest.raises(ValueError, match="one of bfloat16, float16, got int8"):
        tf.train.set_wire_dtype(weights, tf.int8)
    with pytest.raises(TypeError, match="Only variables have a dtype on the wire"):
        tf.train.set_wire_dtype(weights * 2, tf.bfloat16)
    with pytest.raises(TypeError, match="Not a variable or a list of variables: 'w'"):
        tf.train.set_wire_dtype("w", tf.bfloat16)
