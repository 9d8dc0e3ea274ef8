"""Steps of every kind with every strategy, in between-graph programs that read their own data.

Each replica has as many batches as steps: any additional read ends it too early.
"""

import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.optimizers.strategy import AsyncReplication
from sparkflow.train.replication.all_reduce import AllReduceReplication
from sparkflow.train.replication.local_sgd import LocalSgd
from sparkflow.train.replication.staleness import BoundedStaleness
from sparkflow.train.replication.sync import SyncReplication
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.testing.local_cluster import LocalCluster
from tests.sparkflow.train.step_programs import (
    PROGRAMS,
    RANDOM,
    SKIPPING,
    batch_norm,
    by_day,
    linear,
)

STEPS, DEADLINE_S = 8, 60
STRATEGIES = {
    "async": lambda **who: AsyncReplication(**who),
    "sync": lambda **who: SyncReplication(**who, timeout_s=DEADLINE_S),
    "backup": lambda **who: SyncReplication(**who, replicas_to_aggregate=1, timeout_s=DEADLINE_S),
    "ssp": lambda **who: BoundedStaleness(1, **who, timeout_s=DEADLINE_S),
    "local SGD": lambda **who: LocalSgd(1, **who, timeout_s=DEADLINE_S),
    "all-reduce": lambda **who: AllReduceReplication(**who, timeout_s=DEADLINE_S),
}
EQUAL = ("sync", "all-reduce")


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(2, 2) as started:
        yield started


@pytest.fixture(autouse=True)
def fresh_rounds(cluster):
    yield
    for server in cluster.servers:
        server.resources.clear()


def data():
    random = np.random.default_rng(0)
    x = random.standard_normal((4 * STEPS, 3)).astype(np.float32)
    y = (x @ [1.0, -2.0, 0.5]).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4).make_one_shot_iterator().get_next()


def in_threads(call):
    """Runs the call for both replicas concurrently; raises an error of either."""
    results, errors = [None, None], []

    def run(index):
        try:
            results[index] = call(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert errors or not thread.is_alive(), "a replica hangs"
    if errors:
        raise errors[0]
    return results


def trained(session):
    return dict(
        zip(
            [each.op.name for each in tf.trainable_variables()],
            session.run([each.value() for each in tf.trainable_variables()]),
            strict=True,
        )
    )


def alone(build):
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        _, train_op = build(*data())
        tf.train.get_or_create_global_step()
        with tf.train.MonitoredTrainingSession() as session:
            for _ in range(STEPS):
                session.run(train_op)
            return trained(session), session.run(tf.train.get_global_step().value())


def replicated(cluster, strategy, build):
    """Returns the trained variables and the step, as both replicas see them at the end."""
    all_reduce = strategy == "all-reduce"
    ended, initialised = threading.Barrier(2), threading.Event()

    def replica(index):
        worker = f"/job:worker/task:{index}"
        setter = tf.train.replica_device_setter(ps_tasks=2, worker_device=worker)
        with tf.Graph().as_default(), tf.device(worker if all_reduce else setter):
            tf.set_random_seed(3)
            made = STRATEGIES[strategy](replica=index, num_replicas=2)
            tf.train.get_or_create_global_step()
            with made.scope():
                _, train_op = build(*data())
            is_chief = all_reduce or index == 0
            if not is_chief:  # otherwise it would check again only after half a minute
                initialised.wait(DEADLINE_S)
            with tf.train.MonitoredTrainingSession(
                cluster.target("worker", index),
                is_chief=is_chief,
                hooks=[made.make_session_run_hook()],
                stop_grace_period_secs=5,
            ) as session:
                initialised.set()
                try:
                    for _ in range(STEPS):
                        session.run(train_op)
                    session.run(made.leave_ops)
                    ended.wait(DEADLINE_S)
                    return trained(session), session.run(tf.train.get_global_step().value())
                except BaseException:
                    ended.abort()
                    raise

    return in_threads(replica)


@pytest.mark.parametrize("name", by_day())
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_replicas_make_their_steps(cluster, strategy, name):
    expected, updates = alone(PROGRAMS[name])
    for found, step in replicated(cluster, strategy, PROGRAMS[name]):
        assert all(np.isfinite(value).all() for value in found.values())
        if strategy in EQUAL:
            assert step == updates
        elif strategy != "local SGD":
            assert step <= 2 * updates
            assert (strategy == "backup" and name in SKIPPING) or step >= updates
        if strategy in EQUAL and name not in RANDOM:
            for variable, value in expected.items():
                np.testing.assert_allclose(found[variable], value, 1e-5, 1e-6, err_msg=variable)


def accumulating(x, y):
    """Batch normalisation in which each update is computed from two batches."""
    normal = tf.layers.batch_normalization(x, training=True)
    loss = tf.reduce_mean(tf.square(linear(normal) - y))
    optimizer = tf.train.GradientAccumulationOptimizer(tf.train.AdamOptimizer(0.05), 2)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return loss, optimizer.minimize(loss, tf.train.get_or_create_global_step())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_replicas_accumulate_beside_batch_normalisation(cluster, strategy):
    expected, updates = alone(accumulating)
    assert updates == STEPS // 2
    for found, step in replicated(cluster, strategy, accumulating):
        if strategy in EQUAL:
            assert step == updates
            for variable, value in expected.items():
                np.testing.assert_allclose(found[variable], value, 1e-5, 1e-6, err_msg=variable)


def test_the_chief_of_sync_replicas_reads_no_batch_of_its_own(cluster):
    """TensorFlow's own synchronous optimizer, under the control dependencies of a batch.

    The replicas begin each step together: one that is ahead may take the other's token for a
    step, and the one left alone at the end would wait for a gradient that nobody computes.
    """
    together, initialised = threading.Barrier(2, timeout=DEADLINE_S), threading.Event()

    def replica(index):
        worker = f"/job:worker/task:{index}"
        setter = tf.train.replica_device_setter(ps_tasks=2, worker_device=worker)
        with tf.Graph().as_default(), tf.device(setter):
            step = tf.train.get_or_create_global_step()
            x, y = data()
            normal = tf.layers.batch_normalization(x, training=True)
            loss = tf.reduce_mean(tf.square(linear(normal) - y))
            optimizer = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(0.05), 2)
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
                train_op = optimizer.minimize(loss, step)
            if index:
                initialised.wait(DEADLINE_S)
            with tf.train.MonitoredTrainingSession(
                cluster.target("worker", index),
                is_chief=index == 0,
                hooks=[optimizer.make_session_run_hook(index == 0, num_tokens=0)],
                stop_grace_period_secs=5,
            ) as session:
                initialised.set()
                for _ in range(STEPS):
                    together.wait()
                    session.run(train_op)
                together.wait()
                found = session.run(step.value())
                together.wait()
                return found

    assert in_threads(replica) == [STEPS, STEPS]


def test_moving_averages_may_differ_where_the_copies_are_compared(cluster):
    """Each worker updates its own averages: only what optimizers update must be equal."""

    def replica(index):
        with tf.Graph().as_default(), tf.device(f"/job:worker/task:{index}"):
            strategy = AllReduceReplication(replica=index, num_replicas=2, timeout_s=DEADLINE_S)
            tf.train.get_or_create_global_step()
            x, y = data()
            with strategy.scope():
                _, train_op = batch_norm(x + float(index), y)
            hooks = [strategy.make_session_run_hook(check_every_steps=2)]
            target = cluster.target("worker", index)
            with tf.train.MonitoredTrainingSession(target, hooks=hooks) as session:
                for _ in range(STEPS):
                    session.run(train_op)
                return session.run("batch_normalization/moving_mean/read:0")

    first, second = in_threads(replica)
    assert not np.allclose(first, second)


def test_what_follows_an_update_in_a_branch_is_refused_rather_than_run_before_it():
    with tf.Graph().as_default():
        x, y = data()
        loss = tf.reduce_mean(tf.square(linear(x) - y))
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        kernel = tf.trainable_variables()[0]

        def update():
            with tf.control_dependencies([optimizer.minimize(loss)]):
                return kernel.assign(kernel * 0.5).op

        with SyncReplication().scope(), pytest.raises(InvalidArgumentError, match="runs after"):
            tf.cond(loss > 0, update, tf.no_op)


def test_an_update_in_a_loop_is_refused_where_replicas_wait_for_it():
    with tf.Graph().as_default():
        x, y = data()
        loss = tf.reduce_mean(tf.square(linear(x) - y))
        optimizer = tf.train.GradientDescentOptimizer(0.1)

        def turn(i):
            with tf.control_dependencies([optimizer.minimize(loss)]):
                return i + 1

        with SyncReplication().scope(), pytest.raises(InvalidArgumentError, match="inside a loop"):
            tf.while_loop(lambda i: i < 2, turn, [0])
