"""Synchronous replicas over parameter servers against one process on the same global batches."""

import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.optimizers import strategy as replication
from sparkflow.train.replication.sync import SyncReplication
from sparkflow_runtime.errors import OutOfRangeError
from sparkflow_runtime.master.driver import DriverMaster
from sparkflow_runtime.testing.local_cluster import LocalCluster

STEPS = 6
TYPES = [tf.float32, tf.int64, tf.float32]
SHAPES = [(None, 4), (None,), ()]
OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.3),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.2),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
}


class Batches:
    """The batches of one replica, a list of (features, labels, weight)."""

    def __init__(self, batches):
        self._batches = iter(batches)

    def next_batch(self):
        for batch in self._batches:
            return batch
        raise OutOfRangeError(message="end")

    def close(self):
        pass


def global_batches(seed):
    random = np.random.default_rng(seed)
    return [
        (random.standard_normal((5, 4)).astype(np.float32), random.integers(0, 6, 5))
        for _ in range(STEPS)
    ]


def build_loss(features, labels):
    """A network with a dense and a sparse gradient, and repeated ids."""
    table = tf.get_variable("table", [6, 3], initializer=initial((6, 3), 1))
    kernel = tf.get_variable("kernel", [4, 3], initializer=initial((4, 3), 2))
    rows = tf.nn.embedding_lookup(table, labels)
    return tf.reduce_mean(tf.square(tf.tanh(tf.matmul(features, kernel)) - rows))


def initial(shape, seed):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return tf.constant_initializer(values)


def train_in_one_process(optimizer, batches):
    with tf.Graph().as_default():
        features = tf.placeholder(tf.float32, [None, 4])
        labels = tf.placeholder(tf.int64, [None])
        loss = build_loss(features, labels)
        step = tf.train.get_or_create_global_step()
        train_op = optimizer.minimize(loss, global_step=step)
        variables = tf.trainable_variables()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            losses = [
                session.run([loss, train_op], {features: x, labels: y})[0] for x, y in batches
            ]
            return losses, session.run(variables), session.run(step)


class Replicas:
    """Trains `shards[i]` on worker i in synchronous mode, and stores the results."""

    def __init__(self, optimizer, shards, num_ps=2):
        count = len(shards)
        graph = tf.Graph()
        setter = tf.train.replica_device_setter(ps_tasks=num_ps, worker_device="/job:worker")
        with graph.as_default(), graph.device(setter):
            attrs = {"output_types": TYPES, "output_shapes": SHAPES}
            data = graph.apply("IteratorV2", (), {**attrs, "shared_name": "data", "container": ""})
            features, labels, weight = graph.apply("IteratorGetNext", (data,), attrs)
            strategy = SyncReplication(graph, weight)
            step = tf.train.get_or_create_global_step()
            with replication.scope(strategy):
                loss = build_loss(features, labels)
                train_op = optimizer.minimize(loss, global_step=step)
            names = [variable.op.name + "/read:0" for variable in tf.trainable_variables()]
            initializer = tf.global_variables_initializer().name
            step_name = step.op.name + ":0"
        graph_def = graph.as_graph_def()
        with LocalCluster(num_ps, count) as cluster:
            for server, shard in zip(cluster.servers[num_ps:], shards, strict=True):
                server.resources.put("", "data", Batches(shard))
            driver = DriverMaster(cluster.cluster, None)
            sessions = [
                driver.create_session(
                    strategy.specialised(graph_def, i, count),
                    device_filters=["/job:ps", f"/job:worker/task:{i}"],
                )
                for i in range(count)
            ]
            sessions[0].run([], {}, [initializer])
            loops = [
                each.start_loop([loss.name, weight.name], [train_op.name], STEPS)
                for each in sessions
            ]
            self.losses = [[] for _ in loops]
            followers = [
                threading.Thread(target=self._follow, args=(i, loop), daemon=True)
                for i, loop in enumerate(loops)
            ]
            for follower in followers:
                follower.start()
            for follower in followers:
                follower.join(60)
                assert not follower.is_alive()

            *self.variables, self.step = sessions[0].run([*names, step_name], {}, [])
            for each in sessions:
                each.close()
            driver.close()

    def _follow(self, index, loop):
        for update in loop.updates():
            self.losses[index].extend(zip(*update.values, strict=True))

    def mean_losses(self):
        return [
            sum(loss * weight for loss, weight in step if weight) / sum(w for _, w in step)
            for step in zip(*self.losses, strict=True)
        ]


def shard(batches, start, stop):
    return [(x[start:stop], y[start:stop], np.float32(stop - start)) for x, y in batches]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_two_uneven_replicas_equal_one_process(name):
    batches = global_batches(3)
    losses, variables, step = train_in_one_process(OPTIMIZERS[name](), batches)
    replicas = Replicas(OPTIMIZERS[name](), [shard(batches, 0, 3), shard(batches, 3, 5)])
    np.testing.assert_allclose(replicas.mean_losses(), losses, rtol=1e-6)
    for ours, expected in zip(replicas.variables, variables, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-6, atol=1e-7)
    assert replicas.step == step == STEPS


def test_a_batch_of_weight_zero_does_not_count_even_when_it_is_not_a_number():
    batches = global_batches(4)
    losses, variables, _ = train_in_one_process(OPTIMIZERS["adam"](), batches)
    empty = [(np.full((2, 4), np.nan, np.float32), y[:2], np.float32(0)) for _, y in batches]
    replicas = Replicas(OPTIMIZERS["adam"](), [empty, shard(batches, 0, 5)], num_ps=1)
    np.testing.assert_allclose(replicas.mean_losses(), losses, rtol=1e-6)
    for ours, expected in zip(replicas.variables, variables, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-6, atol=1e-7)


def test_two_runs_give_the_same_bits():
    batches = global_batches(5)
    shards = [shard(batches, 0, 2), shard(batches, 2, 4), shard(batches, 4, 5)]
    first, second = (Replicas(OPTIMIZERS["adam"](), shards) for _ in range(2))
    for ours, others in zip(first.variables, second.variables, strict=True):
        np.testing.assert_array_equal(ours, others)
    assert first.losses == second.losses
