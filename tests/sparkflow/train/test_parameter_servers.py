"""Variables on parameter servers: how they are distributed, saved, and updated concurrently."""

import itertools
import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.optimizers import update_group
from sparkflow_runtime.testing.local_cluster import LocalCluster

NUM_PS = 3


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(num_ps=NUM_PS, num_workers=2) as made:
        yield made


@pytest.fixture(autouse=True)
def _fresh(cluster):
    with tf.Graph().as_default():
        yield
    tf.Session.reset(cluster.target("worker", 0))


def loads(strategy):
    """Returns MB per ps for a network with one large embedding, dense layers and their biases."""
    setter = tf.train.replica_device_setter(NUM_PS, ps_strategy=strategy)
    with tf.Graph().as_default(), tf.device(setter):
        tf.get_variable("embedding", [100_000, 64])
        sizes = [784, 1024, 1024, 512, 256, 10]
        for i, (n, m) in enumerate(itertools.pairwise(sizes)):
            tf.get_variable(f"kernel_{i}", [n, m])
            tf.get_variable(f"bias_{i}", [m])
        found = np.zeros(NUM_PS)
        for each in tf.global_variables():
            found[int(each.device[-1])] += 4 * each.shape.num_elements() / 2**20
    return found


def test_greedy_placement_balances_what_turns_do_not():
    greedy = tf.contrib.training.GreedyLoadBalancingStrategy(
        NUM_PS, tf.contrib.training.byte_size_load_fn
    )
    turns, balanced = loads(None), loads(greedy)
    drawn = loads(tf.contrib.training.RandomStrategy(NUM_PS, seed=1))
    np.testing.assert_allclose(turns.sum(), balanced.sum())
    np.testing.assert_allclose(drawn.sum(), balanced.sum())
    # The embedding alone has 24.4 MB; the other 9.7 MB are shared by the other two.
    np.testing.assert_allclose(balanced, [24.4, 5.1, 4.5], atol=0.06)
    np.testing.assert_allclose(turns, [28.4, 3.6, 2.0], atol=0.1)


PARTITIONERS = {
    "fixed": tf.fixed_size_partitioner(NUM_PS),
    "by size": tf.variable_axis_size_partitioner(4 * 8 * 4),
    "min max": tf.min_max_variable_partitioner(NUM_PS, min_slice_size=64),
}


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_parts_are_spread_initialised_saved_and_restored(cluster, tmp_path, partitioner):
    with tf.device(tf.train.replica_device_setter(NUM_PS)):
        weights = tf.get_variable(
            "w",
            [10, 8],
            initializer=tf.random_uniform_initializer(1, 2),
            partitioner=PARTITIONERS[partitioner],
        )
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(weights * weights))
    parts = list(weights)
    assert len(parts) == NUM_PS
    assert {each.device[-1] for each in parts} == {"0", "1", "2"}
    saver = tf.train.Saver(sharded=True)
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(tf.global_variables_initializer())
        start = session.run(weights.as_tensor())
        assert 1 <= start.min() < start.max() < 2
        session.run(train)
        path = saver.save(session, str(tmp_path / "model"))
        session.run(train)
        expected = session.run(weights.as_tensor())
        saver.restore(session, path)
        np.testing.assert_allclose(session.run(weights.as_tensor()), start * 0.8, rtol=1e-6)
        session.run(train)
        np.testing.assert_array_equal(session.run(weights.as_tensor()), expected)
    with tf.Graph().as_default():  # in one piece
        whole = tf.get_variable("w", [10, 8])
        with tf.Session() as session:
            tf.train.Saver([whole]).restore(session, path)
            np.testing.assert_allclose(session.run(whole), start * 0.8, rtol=1e-6)


@pytest.mark.skipif(not native.available(), reason="needs llvmlite")
def test_updates_of_small_variables_that_arrive_are_one_call(cluster, monkeypatch):
    sizes = []
    call = update_group._Group.__call__

    def counting(self, sets):
        sizes.append(len(sets))
        return call(self, sets)

    monkeypatch.setattr(update_group._Group, "__call__", counting)
    with tf.device(tf.train.replica_device_setter(1)):
        variables = [tf.get_variable(f"v{i}", [50 + i]) for i in range(20)]
        factor = tf.placeholder(tf.float32, [])
        loss = tf.add_n([tf.reduce_sum(each * factor) for each in variables])
        train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(tf.global_variables_initializer())
        before = session.run(variables)
        session.run(train, {factor: 1.0})
        after = session.run(variables)
    assert max(sizes, default=0) == 20
    for old, new in zip(before, after, strict=True):
        np.testing.assert_allclose(new, old - 0.1 / np.sqrt(1.1), rtol=1e-5, atol=1e-6)


def add_from_sessions(targets, turns):
    """Every session adds 1 to everything several times; returns the final values."""
    ids = np.array([1, 3, 3, 5])

    def build():
        with tf.device(tf.train.replica_device_setter(NUM_PS)):
            dense = tf.get_variable("dense", [2000], initializer=tf.zeros_initializer())
            small = [
                tf.get_variable(f"small{i}", [3], initializer=tf.zeros_initializer())
                for i in range(6)
            ]
            table = tf.get_variable("table", [8, 64], initializer=tf.zeros_initializer())
        locked = tf.train.GradientDescentOptimizer(1.0, use_locking=True)
        one = tf.placeholder(tf.float32, [])
        rows = tf.IndexedSlices(-tf.ones([4, 64]) * one, tf.constant(ids), [8, 64])
        pairs = [(-tf.ones(each.shape) * one, each) for each in (dense, *small)]
        adagrad = tf.train.AdagradOptimizer(1e-30, 1e-6, use_locking=True)
        train = locked.apply_gradients([*pairs, (rows, table)])
        counted = adagrad.apply_gradients([(rows, table), *pairs])
        return one, [train, counted], [dense, *small, table, adagrad.get_slot(table, "accumulator")]

    failures = []

    def work(target):
        try:
            with tf.Graph().as_default():
                one, trains, _ = build()
                with tf.Session(target) as session:
                    for _ in range(turns):
                        session.run(trains, {one: 1.0})
        except Exception as error:
            failures.append(error)

    with tf.Graph().as_default():
        _, _, values = build()
        with tf.Session(targets[0]) as session:
            session.run(tf.global_variables_initializer())
            threads = [threading.Thread(target=work, args=(each,)) for each in targets]
            for each in threads:
                each.start()
            for each in threads:
                each.join(120)
            assert failures == []
            return session.run(values)


def check_sums(found, count):
    *dense, table, squares = found
    for each in dense:
        np.testing.assert_array_equal(each, count)
    np.testing.assert_array_equal(table[[1, 3, 5]].max(1), [count, 2 * count, count])
    np.testing.assert_allclose(squares[[1, 3, 5], 0], [count, 4 * count, count], rtol=1e-4)
    assert not table[[0, 2, 4, 6, 7]].any()


def test_concurrent_sessions_lose_no_update(cluster):
    targets = [cluster.target("worker", i % 2) for i in range(4)]
    check_sums(add_from_sessions(targets, 25), 100)


def test_several_server_processes_on_one_host_lose_no_update():
    with LocalCluster(num_ps=NUM_PS, num_workers=2, processes=True) as made:
        targets = [made.target("worker", i) for i in range(2)]
        check_sums(add_from_sessions(targets, 15), 30)
