import pytest

import sparkflow as tf


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
