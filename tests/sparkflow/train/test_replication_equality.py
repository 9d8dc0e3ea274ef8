"""Replicas with their own sessions, in every mode that equals one process on all batches.

Each replica is a thread with a graph and a session on its worker, as in between-graph programs.
"""

import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.optimizers.strategy import AsyncReplication
from sparkflow.train.replication.gradient_accumulation import GradientAccumulationOptimizer
from sparkflow.train.replication.local_sgd import LocalSgd
from sparkflow.train.replication.staleness import BoundedStaleness
from sparkflow.train.replication.sync import SyncReplication
from sparkflow_runtime.testing.local_cluster import LocalCluster

DEADLINE_S = 120
STEPS = 4
OPTIMIZERS = {
    "sgd": lambda rows: tf.train.GradientDescentOptimizer(0.3),
    "momentum": lambda rows: tf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda rows: tf.train.AdagradOptimizer(0.2),
    "adam": lambda rows: tf.train.AdamOptimizer(0.05),
}


def initial(shape, seed):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return tf.constant_initializer(values)


def build(optimizer_of, strategy_of):
    """Features, labels, rows, the step's operation and the strategy in the default graph."""
    features = tf.placeholder(tf.float32, [None, 4])
    labels = tf.placeholder(tf.int64, [None])
    rows = tf.placeholder(tf.float32, [])
    strategy = strategy_of(rows)
    step = tf.train.get_or_create_global_step()
    with strategy.scope():
        table = tf.get_variable("table", [6, 3], initializer=initial((6, 3), 1))
        kernel = tf.get_variable("kernel", [4, 3], initializer=initial((4, 3), 2))
        bias = tf.get_variable("bias", [3], initializer=initial((3,), 3))
        looked_up = tf.nn.embedding_lookup(table, labels)
        outputs = tf.tanh(tf.matmul(features, kernel) + bias)
        loss = tf.reduce_mean(tf.square(outputs - looked_up))
        train_op = optimizer_of(rows).minimize(loss, global_step=step)
    return features, labels, rows, train_op, strategy


def fed(inputs, batch):
    features, labels, rows = inputs
    x, y = batch
    return {features: x, labels: y, rows: len(x)}


def train_alone(optimizer_of, batches):
    with tf.Graph().as_default():
        *inputs, train_op, _ = build(optimizer_of, lambda rows: AsyncReplication())
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for batch in batches:
                session.run(train_op, fed(inputs, batch))
            return values(session)


def values(session):
    return session.run([f"{name}/read:0" for name in ("table", "kernel", "bias")])


class Replicas:
    """Trains `shards[i]`, lists of batches, on replica i; stores the shared variables' values."""

    def __init__(self, optimizer_of, strategy_of, shards, num_ps=1, average=False):
        self._optimizer_of, self._strategy_of = optimizer_of, strategy_of
        self._shards, self._num_ps, self._average = shards, num_ps, average
        self._initialised = threading.Barrier(len(shards))
        self._done = threading.Barrier(len(shards))
        self.errors = []
        with LocalCluster(num_ps, len(shards)) as cluster:
            threads = [
                threading.Thread(target=self._guarded, args=(cluster, index), daemon=True)
                for index in range(len(shards))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE_S)
                assert not thread.is_alive(), "a replica hangs"
        if self.errors:
            raise self.errors[0]

    def _guarded(self, cluster, index):
        try:
            self._run(cluster, index)
        except BaseException as error:
            self.errors.append(error)
            self._initialised.abort()
            self._done.abort()

    def _run(self, cluster, index):
        count = len(self._shards)
        setter = tf.train.replica_device_setter(
            ps_tasks=self._num_ps, worker_device=f"/job:worker/task:{index}"
        )
        with tf.Graph().as_default(), tf.device(setter):
            *inputs, train_op, strategy = build(
                self._optimizer_of, lambda rows: self._strategy_of(rows, index, count)
            )
            initialise = [tf.global_variables_initializer(), tf.local_variables_initializer()]
            with tf.Session(cluster.target("worker", index)) as session:
                if index == 0:
                    session.run(initialise[0])
                self._initialised.wait(DEADLINE_S)
                session.run(initialise[1])
                session.run(strategy.join_ops)
                for step, batch in enumerate(self._shards[index], start=1):
                    session.run(train_op, fed(inputs, batch))
                    if self._average and step % strategy.period == 0:
                        session.run(strategy.average_op)
                session.run(strategy.leave_ops)
                self._done.wait(DEADLINE_S)
                if index == 0:
                    self.variables = values(session)
                    self.step = session.run("global_step:0")
                self._done.wait(DEADLINE_S)


def sync(rows, index, count, **options):
    return SyncReplication(weight=rows, replica=index, num_replicas=count, **options)


def local_sgd(rows, index, count):
    return LocalSgd(1, weight=rows, replica=index, num_replicas=count)


def batches_of(sizes, seed=0):
    """Returns batches with these numbers of rows per replica, and those of all together."""
    random = np.random.default_rng(seed)
    shards = [
        [
            (random.standard_normal((n, 4)).astype(np.float32), random.integers(0, 6, n))
            for n in replica
        ]
        for replica in sizes
    ]
    together = []
    for step in range(max(map(len, shards))):
        parts = [shard[step] for shard in shards if step < len(shard)]
        together.append(tuple(np.concatenate(each) for each in zip(*parts, strict=True)))
    return shards, together


def assert_equal(replicas, expected, steps):
    for ours, theirs in zip(replicas.variables, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6 * steps, atol=2e-7)


SIZES = {
    "alone": [[3, 3]],
    "even": [[2] * STEPS, [2] * STEPS],
    "uneven": [[3] * STEPS, [1] * STEPS],
    "an empty last batch": [[2] * STEPS, [2] * (STEPS - 1) + [0]],
    "one ends early": [[2] * STEPS, [3, 1]],
    "five": [[2, 1], [1, 3], [2, 0], [1], [4, 1]],
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("num_ps", [1, 3])
def test_synchronous_replicas_equal_one_process(optimizer, num_ps):
    shards, together = batches_of(SIZES["uneven"])
    replicas = Replicas(OPTIMIZERS[optimizer], sync, shards, num_ps)
    assert_equal(replicas, train_alone(OPTIMIZERS[optimizer], together), STEPS)
    assert replicas.step == STEPS


@pytest.mark.parametrize("sizes", SIZES)
def test_synchronous_replicas_may_have_batches_of_any_size(sizes):
    shards, together = batches_of(SIZES[sizes])
    replicas = Replicas(OPTIMIZERS["momentum"], sync, shards, num_ps=2)
    assert_equal(replicas, train_alone(OPTIMIZERS["momentum"], together), STEPS)
    assert replicas.step == len(together)


@pytest.mark.parametrize("num_ps", [1, 3])
def test_local_sgd_with_an_average_in_every_step_is_synchronous(num_ps):
    shards, together = batches_of(SIZES["uneven"])
    replicas = Replicas(OPTIMIZERS["sgd"], local_sgd, shards, num_ps, average=True)
    assert_equal(replicas, train_alone(OPTIMIZERS["sgd"], together), STEPS)
    assert replicas.step == STEPS


def in_turn(first, second):
    return [batch for pair in zip(first, second, strict=True) for batch in pair]


def accumulating(optimizer):
    return lambda rows: GradientAccumulationOptimizer(OPTIMIZERS[optimizer](rows), 2, rows)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_accumulated_gradients_equal_one_big_batch(optimizer):
    (first, second), together = batches_of(SIZES["uneven"])
    ours = train_alone(accumulating(optimizer), in_turn(first, second))
    for value, expected in zip(ours, train_alone(OPTIMIZERS[optimizer], together), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-6 * STEPS, atol=2e-7)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("num_ps", [1, 3])
def test_synchronous_replicas_may_accumulate(optimizer, num_ps):
    shards, together = batches_of([[2, 2], [1, 3], [1, 1], [4, 2]])
    replicas = Replicas(
        accumulating(optimizer),
        sync,
        [in_turn(shards[0], shards[1]), in_turn(shards[2], shards[3])],
        num_ps,
    )
    assert_equal(replicas, train_alone(OPTIMIZERS[optimizer], together), STEPS)
    assert replicas.step == 2


def asynchronous(rows, index, count):
    return AsyncReplication(replica=index, num_replicas=count)


def bounded(rows, index, count):
    return BoundedStaleness(0, replica=index, num_replicas=count)


@pytest.mark.parametrize("strategy", [asynchronous, bounded])
def test_one_asynchronous_replica_may_accumulate(strategy):
    (first, second), together = batches_of(SIZES["uneven"])
    replicas = Replicas(accumulating("adam"), strategy, [in_turn(first, second)], num_ps=3)
    assert_equal(replicas, train_alone(OPTIMIZERS["adam"], together), STEPS)
    assert replicas.step == STEPS


def test_local_sgd_may_accumulate():
    shards, together = batches_of([[2, 2], [1, 3], [1, 1], [4, 2]])

    def every_other(rows, index, count):
        return LocalSgd(2, weight=rows, replica=index, num_replicas=count)

    replicas = Replicas(
        accumulating("sgd"),
        every_other,
        [in_turn(shards[0], shards[1]), in_turn(shards[2], shards[3])],
        average=True,
    )
    assert_equal(replicas, train_alone(OPTIMIZERS["sgd"], together), STEPS)


@pytest.mark.parametrize("strategy", [sync, local_sgd])
def test_two_runs_give_the_same_bits(strategy):
    shards, _ = batches_of(SIZES["five"][:3])
    average = strategy is local_sgd
    first, second = (
        Replicas(OPTIMIZERS["adam"], strategy, shards, num_ps=2, average=average) for _ in range(2)
    )
    for ours, others in zip(first.variables, second.variables, strict=True):
        np.testing.assert_array_equal(ours, others)
