"""What uses a resource goes where it is, whatever device scope is open."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(1, 1) as started:
        yield started


def test_tables_and_resource_variables_under_a_device_setter(cluster):
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(ps_tasks=1)):
        table = tf.lookup.MutableHashTable(tf.int64, tf.int64, -1)
        filled = table.insert(tf.constant([1, 2], tf.int64), tf.constant([3, 4], tf.int64))
        with tf.control_dependencies([filled]):
            size, exported = table.size(), table.export()
        v = tf.get_variable("v", [10, 4], use_resource=True)
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1, 1)
        loss = tf.reduce_sum(tf.nn.embedding_lookup(v, [[1, 2, 3]]))
        train = optimizer.minimize(loss, global_step=step)
        # Without a token at the start, a step ends when its update has been applied.
        hook = optimizer.make_session_run_hook(True, num_tokens=0)
        with tf.train.MonitoredTrainingSession(
            cluster.target("worker", 0), hooks=[hook], save_checkpoint_secs=None
        ) as session:
            before = session.run(v)
            session.run(train)
            after = session.run(v)
            np.testing.assert_allclose((before - after)[[0, 2]], [[0] * 4, [0.1] * 4], atol=1e-6)
            found = session.run([size, *exported])
        assert found[0] == 2
        assert sorted(found[1].tolist()) == [1, 2]


def test_branches_read_resource_variables_of_servers(cluster):
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(ps_tasks=1)):
        x = tf.placeholder(tf.float32, [None, 2])
        w = tf.get_variable("w", [2, 1], use_resource=True, initializer=tf.ones_initializer())
        b = tf.get_variable("b", [], use_resource=True, initializer=tf.zeros_initializer())
        y = tf.cond(
            tf.reduce_sum(x) > 0, lambda: tf.matmul(x, w) + b, lambda: tf.matmul(x * 2.0, w)
        )
        train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(y))
        with tf.Session(cluster.target("worker", 0)) as session:
            session.run(tf.global_variables_initializer())
            assert session.run(y, {x: [[-1.0, -2.0]]}).tolist() == [[-6.0]]
            session.run(train, {x: [[1.0, 2.0]]})
            found = session.run([w, b])
    np.testing.assert_allclose(found[0], [[0.9], [0.9]], atol=1e-5)
    np.testing.assert_allclose(found[1], -0.1, atol=1e-5)


def test_a_branch_reads_a_variable_only_where_it_has_a_value(cluster):
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(ps_tasks=1)):
        v = tf.get_variable("new", [2], use_resource=True, initializer=tf.ones_initializer())
        value = v.initialized_value()
        with tf.Session(cluster.target("worker", 0)) as session:
            assert session.run(value).tolist() == [1, 1]
