import pytest

import sparkflow as tf
from sparkflow.train.clusters.device_strategies import (
    GreedyLoadBalancingStrategy,
    RandomStrategy,
    byte_size_load_fn,
)


def devices(setter, count=4):
    with tf.Graph().as_default(), tf.device(setter):
        return [tf.Variable(tf.zeros([2]), name=name).device for name in ("w0", "b0", "w1", "b1")]


def test_variables_go_round():
    assert devices(tf.train.replica_device_setter(ps_tasks=3)) == [
        "/job:ps/task:0",
        "/job:ps/task:1",
        "/job:ps/task:2",
        "/job:ps/task:0",
    ]


def test_a_strategy_may_choose_by_the_operation():
    setter = tf.train.replica_device_setter(2, ps_strategy=lambda op: op.name.startswith("b"))
    assert [device[-1] for device in devices(setter)] == ["0", "1", "0", "1"]
    with pytest.raises(TypeError, match="ps_strategy must be callable"):
        tf.train.replica_device_setter(2, ps_strategy=3)


def test_without_merging_inner_scopes_win_as_they_are():
    with pytest.warns(DeprecationWarning, match="merge_devices"):
        setter = tf.train.replica_device_setter(2, merge_devices=False)
    with tf.Graph().as_default(), tf.device(setter):
        with tf.device("/cpu:0"):
            assert tf.Variable(1.0).device == "/device:CPU:0"
        assert tf.Variable(1.0).device == "/job:ps/task:0"


def test_a_job_in_an_inner_scope_keeps_its_tasks():
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(2)):
        with tf.device("/job:chief"):
            assert tf.Variable(1.0).device == "/job:chief"
        with tf.device("/job:ps/task:1"):
            assert tf.Variable(1.0).device == "/job:ps/task:1"


def test_a_cluster_without_the_job_means_anywhere():
    assert tf.train.replica_device_setter(cluster={"worker": ["a:1"]}) is None
    assert tf.train.replica_device_setter(0) is None


def test_the_greedy_strategy_fills_the_emptiest_task():
    strategy = GreedyLoadBalancingStrategy(2, byte_size_load_fn)
    with (
        tf.Graph().as_default(),
        tf.device(tf.train.replica_device_setter(2, ps_strategy=strategy)),
    ):
        large = tf.Variable(tf.zeros([100]))
        small = [tf.Variable(tf.zeros([30], tf.float64)) for _ in range(3)]
        parts = tf.get_variable("w", [8, 10], partitioner=tf.fixed_size_partitioner(4))
    assert large.device[-1] == "0"
    assert [each.device[-1] for each in small] == ["1", "1", "0"]
    assert [each.device[-1] for each in parts] == ["1", "1", "0", "1"]


def test_the_greedy_strategy_needs_sizes():
    with tf.Graph().as_default():
        value = tf.placeholder(tf.float32, [None])
        with pytest.raises(ValueError, match="not fully defined"):
            byte_size_load_fn(value.op)


def test_the_random_strategy_repeats_itself():
    with tf.Graph().as_default():
        op = tf.no_op()
    first, second = (RandomStrategy(3, 7) for _ in range(2))
    drawn = [first(op) for _ in range(50)]
    assert drawn == [second(op) for _ in range(50)]
    assert set(drawn) == {0, 1, 2}
