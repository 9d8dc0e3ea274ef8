import pytest

import sparkflow as tf
from sparkflow.session_defaults import defaults
from sparkflow_runtime.protos.config_pb2 import ConfigProto


@pytest.fixture(autouse=True)
def unchanged():
    before = ConfigProto()
    before.CopyFrom(defaults.config)
    yield
    defaults.config.CopyFrom(before)
    tf.config.set_visible_devices(tf.config.list_physical_devices())


def test_devices_are_listed():
    (cpu,) = tf.config.list_physical_devices("CPU")
    assert cpu == tf.config.PhysicalDevice("/physical_device:CPU:0", "CPU")
    assert cpu in tf.config.experimental.list_physical_devices()
    assert tf.config.list_logical_devices("CPU") == [
        tf.config.LogicalDevice("/device:CPU:0", "CPU")
    ]
    assert tf.config.list_physical_devices("TPU") == []


def test_visible_devices():
    tf.config.set_visible_devices([], "GPU")
    assert tf.config.get_visible_devices("GPU") == []
    assert len(tf.config.get_visible_devices("CPU")) == 1
    with pytest.raises(ValueError, match="Unrecognized device"):
        tf.config.set_visible_devices(tf.config.PhysicalDevice("/physical_device:GPU:77", "GPU"))


def test_sessions_without_a_config_follow_the_settings():
    with tf.Graph().as_default(), tf.device("/gpu:7"):
        x = tf.constant(1.0)
    with tf.Session(graph=x.graph) as session, pytest.raises(tf.errors.InvalidArgumentError):
        session.run(x)
    tf.config.set_soft_device_placement(True)
    assert tf.config.get_soft_device_placement()
    with tf.Session(graph=x.graph) as session:
        assert session.run(x) == 1.0
    strict = tf.Session(graph=x.graph, config=tf.ConfigProto())
    with strict, pytest.raises(tf.errors.InvalidArgumentError):
        strict.run(x)


def test_thread_counts_and_memory_growth_are_kept():
    tf.config.threading.set_inter_op_parallelism_threads(3)
    tf.config.threading.set_intra_op_parallelism_threads(2)
    assert tf.config.threading.get_inter_op_parallelism_threads() == 3
    assert tf.config.threading.get_intra_op_parallelism_threads() == 2
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.experimental.set_memory_growth(cpu, True)
    assert tf.config.experimental.get_memory_growth(cpu)
