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


def default(value):
    return tf.placeholder_with_default(value, [])


@pytest.mark.parametrize("device", ["/gpu:31", "/cpu:9", "/job:worker/task:9"])
@pytest.mark.parametrize(
    "build",
    [
        lambda: tf.constant(1.0) + 2.0,
        lambda: tf.identity(tf.constant(1.0)),
        lambda: default(1.0) * default(2.0),
        lambda: tf.shape(tf.placeholder_with_default([1.0], [1])),
        lambda: tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0]),
        lambda: tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(2)),
    ],
)
def test_devices_that_do_not_exist_are_named_where_values_are_known_without_them(device, build):
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.device(device):
            placed = build()
        for fetched in (placed, tf.identity(placed) * 2):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device"):
                session.run(fetched)


def test_every_node_of_the_graph_is_told_of_with_its_own_type(capfd):
    config = tf.ConfigProto(log_device_placement=True)
    with tf.Graph().as_default() as graph, tf.Session(config=config) as session:
        folded = tf.constant(2.0) * tf.constant(3.0)
        variable = tf.Variable(1.0, name="v")
        tf.zeros([2], name="unread")
        session.run(folded + tf.placeholder_with_default(1.0, [], name="x"))
        session.run([variable.initializer, tf.add(folded, 1.0, name="late")])
    where = "/job:localhost/replica:0/task:0/device:CPU:0"
    lines = capfd.readouterr().err.splitlines()[1:]
    assert sorted(lines) == sorted(
        f"{op.name}: ({op.type}): {where}" for op in graph.get_operations()
    )


def test_a_node_without_a_place_that_no_step_needs_keeps_nothing_from_being_told(capfd):
    config = tf.ConfigProto(log_device_placement=True)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        with tf.device("/job:elsewhere"):
            tf.constant(1.0, name="never")
        x = tf.placeholder(tf.float32, name="x")
        session.run(tf.sqrt(x, name="y"), {x: 1})
    assert "y: (Sqrt): " in capfd.readouterr().err
