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
