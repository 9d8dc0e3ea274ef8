import pytest

import sparkflow as tf


def test_nodes_are_told_of_once_in_tensorflows_words(capfd):
    config = tf.ConfigProto(log_device_placement=True)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        x = tf.placeholder(tf.float32, name="x")
        y = tf.sqrt(x, name="y")
        session.run(y, {x: 1})
        session.run([y, y + x], {x: 1})
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == "Device mapping: no known devices." or lines[0] == "Device mapping:"
    assert lines.count("y: (Sqrt): /job:localhost/replica:0/task:0/device:CPU:0") == 1
    assert any(line.startswith("add: (Add") for line in lines)


def test_devices_that_do_not_exist_are_named():
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.device("/job:ps/task:0"):
            x = tf.constant(1.0, name="x")
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"Cannot assign a device for operation x: Operation was explicitly assigned to "
            r"/job:ps/task:0 but available devices are \[ /job:localhost/replica:0/task:0/device:",
        ) as raised:
            session.run(x)
    assert raised.value.op is x.op
    config = tf.ConfigProto(allow_soft_placement=True)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        with tf.device("/gpu:7"):
            x = tf.constant(1.0, name="x")
        assert session.run(x) == 1.0
