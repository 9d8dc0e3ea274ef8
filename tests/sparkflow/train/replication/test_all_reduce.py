"""Workers with their own copies against one process on the same global batches."""

import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.replication.all_reduce import AllReduceReplication, differences
from sparkflow_runtime.errors import (
    DataLossError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
)
from sparkflow_runtime.testing.local_cluster import LocalCluster

STEPS = 5
DEADLINE_S = 60
OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.3),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.2),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
}


@pytest.fixture(scope="module")
def clusters():
    made = {}
    yield lambda count: made.setdefault(count, LocalCluster(0, count))
    for cluster in made.values():
        cluster.stop()


def initial(shape, seed):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return tf.constant_initializer(values)


def build_loss(features, labels, seed=0):
    """A network with dense gradients, a sparse one, and repeated ids."""
    table = tf.get_variable("table", [6, 3], initializer=initial((6, 3), seed + 1))
    kernel = tf.get_variable("kernel", [4, 3], initializer=initial((4, 3), seed + 2))
    bias = tf.get_variable("bias", [3], initializer=initial((3,), seed + 3))
    rows = tf.nn.embedding_lookup(table, labels)
    return tf.reduce_mean(tf.square(tf.tanh(tf.matmul(features, kernel) + bias) - rows))


def batches_of(sizes, seed=3):
    """Returns features and labels per step and worker."""
    random = np.random.default_rng(seed)
    return [
        [
            (random.standard_normal((size, 4)).astype(np.float32), random.integers(0, 6, size))
            for size in sizes
        ]
        for _ in range(STEPS)
    ]


def train_in_one_process(make_optimizer, batches):
    with tf.Graph().as_default():
        features = tf.placeholder(tf.float32, [None, 4])
        labels = tf.placeholder(tf.int64, [None])
        train_op = make_optimizer().minimize(build_loss(features, labels))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for step in batches:
                x, y = (np.concatenate(each) for each in zip(*step, strict=True))
                session.run(train_op, {features: x, labels: y})
            return session.run(tf.trainable_variables())


def on_workers(count, call):
    """Runs the call on all workers concurrently; returns each result, or the error raised."""
    results = [None] * count

    def run(worker):
        try:
            with tf.Graph().as_default(), tf.device(f"/job:worker/task:{worker}"):
                results[worker] = call(worker)
        except OpError as error:
            results[worker] = error

    threads = [threading.Thread(target=run, args=(worker,)) for worker in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    return results


def train_on_workers(cluster, make_optimizer, batches, **options):
    count = len(batches[0])

    def worker(index):
        features = tf.placeholder(tf.float32, [None, 4])
        labels = tf.placeholder(tf.int64, [None])
        weight = tf.placeholder(tf.float32, [])
        strategy = AllReduceReplication(
            weight=weight, replica=index, num_replicas=count, timeout_s=DEADLINE_S, **options
        )
        with strategy.scope():
            step = tf.train.get_or_create_global_step()
            # Different initial values on every worker: those of worker 0 are used.
            loss = build_loss(features, labels, seed=10 * index)
            train_op = make_optimizer().minimize(loss, global_step=step)
        equal = strategy.fingerprints()
        with tf.Session(cluster.target("worker", index)) as session:
            session.run(tf.global_variables_initializer())
            session.run(strategy.join_ops)
            for batch in batches:
                x, y = batch[index]
                session.run(train_op, {features: x, labels: y, weight: len(x)})
            values = session.run(tf.trainable_variables())
            return values, session.run(step), session.run(equal)

    results = on_workers(count, worker)
    for result in results:
        if isinstance(result, OpError):
            raise result
    return results


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("sizes", [(5,), (4, 4), (3, 1, 4)])
def test_workers_train_as_one_process_on_all_rows(clusters, optimizer, sizes):
    batches = batches_of(sizes)
    expected = train_in_one_process(OPTIMIZERS[optimizer], batches)
    results = train_on_workers(clusters(len(sizes)), OPTIMIZERS[optimizer], batches)
    for values, step, _ in results:
        assert step == STEPS
        for value, wanted in zip(values, expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=2e-6)


def test_copies_are_equal_bit_for_bit_in_every_run(clusters):
    batches = batches_of((3, 2))
    runs = [train_on_workers(clusters(2), OPTIMIZERS["adam"], batches) for _ in range(2)]
    first = [value.tobytes() for value in runs[0][0][0]]
    for results in runs:
        for values, _, fingerprints in results:
            assert [value.tobytes() for value in values] == first
            np.testing.assert_array_equal(fingerprints[0], fingerprints[1])


def test_a_worker_without_rows_takes_part_without_contributing(clusters):
    batches = batches_of((4, 0))
    expected = train_in_one_process(OPTIMIZERS["sgd"], batches)
    for values, _, _ in train_on_workers(clusters(2), OPTIMIZERS["sgd"], batches):
        for value, wanted in zip(values, expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=2e-6)


def test_buckets_of_any_size_give_the_same(clusters):
    batches = batches_of((3, 2))
    small, large = (
        train_on_workers(clusters(2), OPTIMIZERS["sgd"], batches, bucket_bytes=size)
        for size in (1, 1 << 20)
    )
    for left, right in zip(small[0][0], large[0][0], strict=True):
        np.testing.assert_array_equal(left, right)


def collectives_of(graph, kind):
    return [op for op in graph.get_operations() if op.type == kind]


def test_buckets_are_filled_from_the_last_variable():
    with tf.Graph().as_default() as graph:
        variables = [tf.get_variable(f"v{i}", [10]) for i in range(5)]
        loss = tf.add_n([tf.reduce_sum(each * each) for each in variables])
        strategy = AllReduceReplication(num_replicas=2, bucket_bytes=80)
        with strategy.scope():
            tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        means = collectives_of(graph, "CollectiveWeightedMean")
        assert [op.get_attr("N") for op in means] == [2, 2, 1]
        assert means[0].get_attr("instance_key") < means[1].get_attr("instance_key")


def test_a_graph_built_once_is_specialised():
    with tf.Graph().as_default() as graph:
        loss = tf.reduce_sum(tf.get_variable("v", [10]))
        strategy = AllReduceReplication()
        with strategy.scope():
            tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        made = strategy.specialised(graph.as_graph_def(), 1, 3)
    sizes = [node.attr["group_size"].i for node in made.node if node.op.startswith("Collective")]
    assert set(sizes) == {3}


def test_workers_train_in_monitored_sessions(clusters, tmp_path):
    cluster = clusters(2)

    def worker(index):
        strategy = AllReduceReplication(replica=index, num_replicas=2, timeout_s=DEADLINE_S)
        with strategy.scope():
            step = tf.train.get_or_create_global_step()
            v = tf.get_variable("v", [2], initializer=initial((2,), index))
            loss = tf.reduce_sum(tf.square(v - float(index)))
            train_op = tf.train.GradientDescentOptimizer(0.25).minimize(loss, global_step=step)
        hooks = [
            strategy.make_session_run_hook(check_every_steps=5),
            tf.train.StopAtStepHook(last_step=20),
        ]
        with tf.train.MonitoredTrainingSession(
            cluster.target("worker", index),
            is_chief=True,
            checkpoint_dir=str(tmp_path) if index == 0 else None,
            hooks=hooks,
        ) as session:
            value = None
            while not session.should_stop():
                _, value = session.run([train_op, v])
        return value

    first, second = on_workers(2, worker)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, [0.5, 0.5], atol=1e-5)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-20")


def test_copies_that_differ_are_named(clusters):
    cluster = clusters(2)

    def worker(index):
        strategy = AllReduceReplication(replica=index, num_replicas=2, timeout_s=DEADLINE_S)
        v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
        tf.get_variable("w", [2], initializer=tf.zeros_initializer())
        spoil = v.assign_add([float(index), 0.0])
        hooks = [strategy.make_session_run_hook(check_every_steps=1)]
        with tf.train.MonitoredTrainingSession(cluster.target("worker", index), hooks=hooks) as s:
            s.run(spoil)

    for result in on_workers(2, worker):
        assert isinstance(result, DataLossError)
        assert "v (worker 1)" in result.message
        assert "w (" not in result.message


def test_a_worker_that_does_not_come_is_named(clusters):
    cluster = clusters(2)

    def worker(index):
        strategy = AllReduceReplication(replica=index, num_replicas=2, timeout_s=0.2)
        tf.get_variable("v", [2], initializer=tf.zeros_initializer())
        join = strategy.broadcast_variables()
        with tf.Session(cluster.target("worker", index)) as session:
            session.run(tf.global_variables_initializer())
            if index == 0:
                session.run(join)

    first, second = on_workers(2, worker)
    assert isinstance(first, DeadlineExceededError)
    assert "of 2 ranks, these have not joined: 1" in first.message
    assert second is None


def test_impossible_buckets_are_refused():
    with pytest.raises(InvalidArgumentError, match="bucket_bytes is 0"), tf.Graph().as_default():
        AllReduceReplication(bucket_bytes=0)


def test_differences_name_variables_and_workers():
    table = np.array([[1, 2, 3], [1, 5, 3], [1, 2, 4]])
    assert differences(table, "abc") == ["b (worker 1)", "c (worker 2)"]
    assert differences(table[:1], "abc") == []


def test_accumulated_gradients_are_those_of_all_rows(clusters):
    """Also where the workers' batches differ in size: copies stay equal."""
    cluster, num_batches, rate = clusters(2), 3, 0.1
    sizes = ([4, 4, 4, 4, 4, 4], [4, 1, 3, 2, 4, 4])
    data = [[np.arange(n, dtype=np.float32) + index for n in sizes[index]] for index in (0, 1)]

    def worker(index):
        x = tf.placeholder(tf.float32, [None])
        rows = tf.cast(tf.shape(x)[0], tf.float32)
        strategy = AllReduceReplication(
            weight=rows, replica=index, num_replicas=2, timeout_s=DEADLINE_S
        )
        with strategy.scope():
            step = tf.train.get_or_create_global_step()
            v = tf.get_variable("of_all_rows", [], initializer=tf.zeros_initializer())
            loss = tf.reduce_mean(tf.square(v - x)) / 2.0
            inner = tf.train.MomentumOptimizer(rate, 0.5)
            optimizer = tf.train.GradientAccumulationOptimizer(inner, num_batches, rows)
            train_op = optimizer.minimize(loss, global_step=step)
        hooks = [strategy.make_session_run_hook(check_every_steps=num_batches)]
        with tf.train.MonitoredTrainingSession(cluster.target("worker", index), hooks=hooks) as s:
            for batch in data[index]:
                s.run(train_op, {x: batch})
            return s.run([v, step])

    expected = moved = 0.0
    for update in range(2):
        part = slice(update * num_batches, (update + 1) * num_batches)
        every = np.concatenate([batch for each in data for batch in each[part]])
        moved = 0.5 * moved + (expected - every.mean())
        expected -= rate * moved
    first, second = on_workers(2, worker)
    assert first == second
    np.testing.assert_allclose(first, [expected, 2], rtol=1e-5)
