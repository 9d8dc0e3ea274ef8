"""Fetches of variables that the same run updates, against the answers of TensorFlow 2.21.

The expected values were printed by `tensorflow.compat.v1` with reference variables, if they were
the same in each of 60 runs; comments with "raced" mark the others. A variable is 10 before.
"""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster


def by_descent(v):
    loss = tf.reduce_sum(v * 2.0)
    return tf.train.GradientDescentOptimizer(1.0).minimize(loss), loss


def by_name(name):
    return tf.get_default_graph().get_tensor_by_name(name)


UPDATES = {
    "assign": (lambda v: tf.assign(v, tf.zeros(v.shape) + 1.0).op, 1.0),
    "assign_add": (lambda v: tf.assign_add(v, tf.ones(v.shape)).op, 11.0),
    "two": (lambda v: tf.group(v.assign_add(v * 0 + 1.0), v.assign_sub(v * 0 + 4.0)), 7.0),
    "descent": (lambda v: by_descent(v)[0], 8.0),
    "cond": (lambda v: tf.cond(v[0] > 0.0, lambda: v.assign_add(v * 0 + 1), lambda: v).op, 11.0),
    "scatter": (lambda v: tf.scatter_update(v, [0, 1, 2], [5.0, 5.0, 5.0]).op, 5.0),
    "scatter_nd": (lambda v: tf.scatter_nd_update(v, [[0], [1], [2]], [5.0, 5.0, 5.0]).op, 5.0),
}
FETCHES = {
    "variable": lambda v: v,
    "reference": lambda v: by_name("v:0"),
    "value": lambda v: v.value(),
    "read": lambda v: by_name("v/read:0"),
    "read_value": lambda v: v.read_value(),
    "identity": tf.identity,
    "identity twice": lambda v: tf.identity(tf.identity(v)),
    "identity_n": lambda v: tf.identity_n([tf.constant(1), v])[1],
    "stop_gradient": tf.stop_gradient,
    "tuple": lambda v: tf.tuple([v])[0],
    "reshape": lambda v: tf.reshape(v, [3, 1]),
    "expand_dims": lambda v: tf.expand_dims(v, 0),
    "squeeze": lambda v: tf.squeeze(v, []),
}


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(num_ps=2, num_workers=1) as made:
        yield made


MODES = ["in process", "two devices", "grpc", "callable", "traced", "loop", "no fusion"]


@pytest.fixture(params=MODES)
def mode(request, cluster, monkeypatch):
    """Runs fetches in one way: returns the device of variables and the function."""
    device, target, config = "", "", None
    if request.param == "two devices":
        device, config = "/cpu:1", tf.ConfigProto(device_count={"CPU": 2})
    if request.param in ("grpc", "loop"):
        device, target = "/job:ps/task:1", cluster.target("worker", 0)
    if request.param == "no fusion":
        monkeypatch.setattr("sparkflow_runtime.codegen.machine.native.available", lambda: False)

    def run(session, fetches):
        if request.param == "callable":
            return session.make_callable(fetches)()
        if request.param == "traced":
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            return session.run(fetches, options=options, run_metadata=tf.RunMetadata())
        if request.param == "loop":
            with tf.train.start_loop(session, [], 1, fetches) as loop:
                return [update.last for update in loop][-1]
        return session.run(fetches)

    def runs(build, count=2):
        with tf.Graph().as_default(), tf.Session(target, config=config) as session:
            with tf.device(device):
                v = tf.get_variable("v", initializer=np.full(3, 10.0, np.float32))
            fetches = build(v)
            for _ in range(count):  # by the program, and then by its plan
                session.run(tf.global_variables_initializer())
                yield [np.squeeze(x).tolist() for x in run(session, fetches) if x is not None]
        if target:
            tf.Session.reset(target)

    return runs


@pytest.mark.parametrize("update", UPDATES)
def test_a_plain_fetch_is_served_after_the_update(mode, update):
    make, expected = UPDATES[update]

    def build(v):
        return [make(v), *(fetch(v) for fetch in FETCHES.values())]

    for values in mode(build):
        assert dict(zip(FETCHES, values, strict=True)) == dict.fromkeys(FETCHES, [expected] * 3)


def test_what_is_computed_stays_before(mode):
    def build(v):
        train, loss = by_descent(v)
        return [train, loss, v + 0.0, tf.cast(v, tf.int32), tf.gather(v, [0]), v, v.value()]

    for values in mode(build):  # raced; 60 is the loss before
        assert values == [60.0, [10.0] * 3, [10] * 3, 10.0, [8.0] * 3, [8.0] * 3]


def test_what_an_update_waits_for_stays_before(mode):
    def build(v):
        old = v.read_value()
        with tf.control_dependencies([old]):
            added = tf.assign_add(v, v * 0 + 1.0)
        return [added.op, old, v]

    for values in mode(build):  # TensorFlow: 11 for `old` too, and 10 for resource variables
        assert values == [[10.0] * 3, [11.0] * 3]


def test_what_updates_give_on_is_the_variable(mode):
    def build(v):
        first = tf.assign_add(v, tf.ones([3]))
        with tf.control_dependencies([first]):
            second = tf.assign_add(v, tf.ones([3]))
        return [first, second, v, tf.identity(second), first + 0.0]

    for values in mode(build):
        assert [value[0] for value in values] == [12.0, 12.0, 12.0, 12.0, 11.0]


def test_another_variable_is_not_waited_for(mode):
    def build(v):
        with tf.device("/job:ps/task:0" if "job" in v.device else ""):
            u = tf.get_variable("u", initializer=0.0)
        return [tf.assign_add(v, tf.ones([3])).op, u, tf.assign(u, 3.0).op, v]

    for values in mode(build):
        assert values == [3.0, [11.0] * 3]


def test_the_counter_of_steps(mode):
    def build(v):
        step = tf.train.get_or_create_global_step()
        loss = tf.reduce_sum(v * v)
        train = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
        return [train, step, tf.train.get_global_step().value(), step + 0]

    for values in mode(build):
        assert values == [1, 1, 0]


def test_count_up_to_gives_the_number_before(mode):
    def build(v):
        with tf.device(v.device):
            n = tf.get_variable("n", initializer=0)
        return [n.count_up_to(5), n]

    for values in mode(build):
        assert values == [0, 1]


def test_a_loop_over_the_counter_ends_in_time():
    with tf.Graph().as_default(), tf.Session() as session:
        counter = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", initializer=5.0)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(w * w, global_step=counter)
        session.run(tf.global_variables_initializer())
        seen, step = [], 0
        while step < 3:
            _, step = session.run([train, counter])
            seen.append(int(step))
        assert seen == [1, 2, 3]
        assert session.run(counter) == 3


def test_a_fetched_value_is_the_callers_own():
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=np.zeros(4, np.float32))
        add = tf.assign_add(v, tf.ones([4]))
        session.run(v.initializer)
        kept = [session.run([add.op, v, add])[1:] for _ in range(6)]
        for number, (value, same) in enumerate(kept, 1):
            assert value.tolist() == same.tolist() == [number] * 4
        kept[-1][0][:] = -1
        assert session.run(v).tolist() == [6] * 4


def test_a_fetch_is_fed_rather_than_read():
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=1.0)
        session.run(v.initializer)
        fetches = [tf.assign_add(v, 1.0).op, v.value(), tf.identity(v.value()), v]
        assert session.run(fetches, {v.value(): 7.0})[1:] == [7.0, 7.0, 2.0]


def test_a_read_that_is_run_and_fetched():
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=1.0)
        session.run(v.initializer)
        read = tf.identity(v)
        assert session.run([read.op, tf.assign_add(v, 1.0).op, read])[2] == 2.0


def test_variables_by_handle():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        handle = graph.apply("VarHandleOp", (), {"dtype": tf.float32, "shape": ()}, "h")
        init = graph.apply("AssignVariableOp", (handle, tf.constant(10.0)), {}, "init")
        read = graph.apply("ReadVariableOp", (handle,), {"dtype": tf.float32}, "read")
        add = graph.apply("AssignAddVariableOp", (handle, tf.constant(1.0)), {}, "add")
        session.run(init)
        assert session.run([add, read, tf.identity(read), read + 0.0])[1:] == [11.0, 11.0, 10.0]


@pytest.mark.parametrize("on_cluster", [False, True])
def test_a_partial_run_reads_when_it_is_asked(cluster, on_cluster):
    target = cluster.target("worker", 0) if on_cluster else ""
    with tf.Graph().as_default(), tf.Session(target) as session:
        v = tf.get_variable("v", initializer=1.0)
        x = tf.placeholder(tf.float32, [], name="x")
        y = tf.placeholder(tf.float32, [], name="y")
        first, second = tf.assign_add(v, x, name="first"), tf.multiply(y, 2.0)
        session.run(v.initializer)
        fetches = [first.op, second, v, v.value()]
        handle = session.partial_run_setup(fetches, [x, y])
        assert session.partial_run(handle, second, {y: 3.0}) == 6.0
        assert session.partial_run(handle, v, {x: 4.0}) == 5.0
        assert session.partial_run(handle, v.value()) == 5.0


def test_a_monitored_session_stops_at_its_step():
    class Steps(tf.train.SessionRunHook):
        def __init__(self):
            self.seen = []

        def before_run(self, context):
            return tf.train.SessionRunArgs(tf.train.get_global_step())

        def after_run(self, context, values):
            self.seen.append(int(values.results))

    with tf.Graph().as_default():
        counter = tf.train.get_or_create_global_step()
        train = tf.assign_add(counter, 1)
        steps = Steps()
        hooks = [steps, tf.train.StopAtStepHook(last_step=4)]
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train)
        assert steps.seen == [1, 2, 3, 4]
