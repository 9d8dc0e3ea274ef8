"""Resource variables; expected values are those of TensorFlow 2.21's version 1 interface."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.variables.resource_variable import ResourceVariable


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def handled(value, name="v", **given):
    return tf.Variable(value, name=name, use_resource=True, **given)


def started():
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def test_it_is_a_handle_that_readers_read(graph):
    v = tf.get_variable("v", [2], use_resource=True, initializer=tf.ones_initializer())
    assert (type(v).__name__, v.name, v.op.type) == ("ResourceVariable", "v:0", "VarHandleOp")
    assert (v.handle.dtype, v.dtype, v.shape.as_list()) == (tf.resource, tf.float32, [2])
    assert [(op.name, op.type) for op in graph.get_operations()] == [
        ("v/Initializer/ones", "Const"),
        ("v", "VarHandleOp"),
        ("v/IsInitialized/VarIsInitializedOp", "VarIsInitializedOp"),
        ("v/Assign", "AssignVariableOp"),
        ("v/Read/ReadVariableOp", "ReadVariableOp"),
    ]
    assert tf.convert_to_tensor(v).op.type == "ReadVariableOp"
    assert isinstance(v, tf.Variable)
    assert v in tf.trainable_variables()


def test_scopes_and_the_switch_choose_the_kind():
    with tf.variable_scope("a", use_resource=True):
        assert isinstance(tf.get_variable("v", [1]), ResourceVariable)
        assert not isinstance(tf.get_variable("w", [1], use_resource=False), ResourceVariable)
    tf.enable_resource_variables()
    try:
        assert isinstance(tf.Variable(1.0), ResourceVariable)
        assert isinstance(tf.get_variable("x", [1]), ResourceVariable)
        assert not isinstance(tf.get_variable("y", [1], use_resource=False), ResourceVariable)
    finally:
        tf.disable_resource_variables()
    assert not isinstance(tf.Variable(1.0), ResourceVariable)


def test_updates_one_after_the_other():
    v = handled([1.0, 2.0, 3.0])
    sparse = tf.IndexedSlices(tf.constant([1.0]), tf.constant([2]))
    updates = [
        (v.assign([4.0, 5.0, 6.0]), [4, 5, 6]),
        (v.assign_add([1.0, 1.0, 1.0]), [5, 6, 7]),
        (v.assign_sub([1.0, 0.0, 0.0]), [4, 6, 7]),
        (tf.assign(v, [1.0, 1.0, 1.0]), [1, 1, 1]),
        (tf.assign_add(v, [2.0, 2.0, 2.0]), [3, 3, 3]),
        (tf.scatter_update(v, [0], [9.0]), [9, 3, 3]),
        (tf.scatter_add(v, [0, 0], [1.0, 1.0]), [11, 3, 3]),
        (v.scatter_nd_update([[1]], [7.0]), [11, 7, 3]),
        (v.scatter_sub(sparse), [11, 7, 2]),
        (v[0:1].assign([3.0]), [3, 7, 2]),
    ]
    with started() as session:
        for update, expected in updates:
            session.run(update.op)
            assert list(session.run(v)) == expected
        for update, expected in [
            (v.assign([4.0, 5.0, 6.0]), [4, 5, 6]),
            (tf.identity(v.assign_add([1.0, 1.0, 1.0])), [5, 6, 7]),
            (v.assign([7.0, 7.0, 7.0]) + 1.0, [8, 8, 8]),
            (v.assign([2.0, 2.0, 2.0]).assign_add([3.0, 3.0, 3.0]), [5, 5, 5]),
        ]:
            assert list(session.run(update)) == expected


def test_reads_are_where_they_stand():
    v = handled(1.0)
    first = v.read_value()
    with tf.control_dependencies([first]):
        update = v.assign_add(5.0)
    with tf.control_dependencies([update]):
        second = v.read_value()
    with started() as session:
        assert session.run([first, second]) == [1.0, 6.0]


OPTIMIZERS = [
    (tf.train.GradientDescentOptimizer(0.1), [0.512, 1.024, 0.216, 0.432, 3, 4, 2.56, 3.072]),
    (
        tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        [-0.10835, -0.2167, -0.4333, -0.86659, 3, 4, -0.54176, -0.65011],
    ),
    (
        tf.train.AdamOptimizer(0.1),
        [0.70159, 1.70062, 0.70159, 1.70062, 3, 4, 4.70021, 5.70018],
    ),
    (tf.train.AdagradOptimizer(0.1), [0.7823, 1.7763, 0.78092, 1.77594, 3, 4, 4.7733, 5.77299]),
    (
        tf.train.RMSPropOptimizer(0.1, centered=True),
        [0.55893, 1.36365, 0.42122, 1.28212, 3, 4, 4.23354, 5.22237],
    ),
    (
        tf.train.FtrlOptimizer(0.1),
        [0.63789, 1.62374, 0.70766, 1.6994, 3, 4, 4.6171, 5.61645],
    ),
    (
        tf.train.ProximalGradientDescentOptimizer(0.1),
        [0.512, 1.024, 0.216, 0.432, 3, 4, 2.56, 3.072],
    ),
]


@pytest.mark.parametrize(("optimizer", "expected"), OPTIMIZERS)
def test_optimizers_train_dense_and_by_rows(optimizer, expected):
    v, table = handled([1.0, 2.0]), handled([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "table")
    step = tf.train.get_or_create_global_step()
    rows = tf.nn.embedding_lookup(table, [0, 2, 0])
    assert rows.op.type in ("ResourceGather", "Identity")
    loss = tf.reduce_sum(v * v) + tf.reduce_sum(tf.square(rows))
    train = optimizer.minimize(loss, global_step=step)
    with started() as session:
        for _ in range(3):
            session.run(train)
        found = np.concatenate([session.run(v), session.run(table).ravel()])
        np.testing.assert_allclose(found, expected, atol=2e-5)
        assert session.run(step) == 3
    slots = [optimizer.get_slot(v, name) for name in optimizer.get_slot_names()]
    assert all(isinstance(each, ResourceVariable) for each in slots)


def test_gradients_pass_conditions_and_loops():
    v = handled(3.0)
    pred = tf.placeholder(tf.bool)
    chosen = tf.cond(pred, lambda: v * 2.0, lambda: v * v)
    looped = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * v), [0, tf.constant(2.0)])
    mapped = tf.map_fn(lambda x: x * v, tf.constant([1.0, 2.0]))
    slopes = [tf.gradients(y, v)[0] for y in (chosen, looped[1], mapped)]
    with started() as session:
        assert session.run([chosen, slopes[0]], {pred: True}) == [6.0, 2.0]
        assert session.run([chosen, slopes[0]], {pred: False}) == [9.0, 6.0]
        assert session.run([looped[1], slopes[1]]) == [54.0, 54.0]
        assert session.run(slopes[2]) == 3.0


def test_updates_in_conditions_and_loops():
    v = handled(3.0)
    pred = tf.placeholder(tf.bool)
    chosen = tf.cond(pred, lambda: tf.identity(v.assign_add(1.0)), v.read_value)

    def body(i):
        with tf.control_dependencies([v.assign_add(2.0)]):
            return i + 1

    counted = tf.while_loop(lambda i: i < 3, body, [0])
    until = tf.while_loop(lambda i: v.read_value() < 15.0, body, [0])
    with started() as session:
        assert session.run(chosen, {pred: True}) == 4.0
        assert session.run(chosen, {pred: False}) == 4.0
        assert (session.run(counted), session.run(v)) == (3, 10.0)
        assert (session.run(until), session.run(v)) == (3, 16.0)  # the condition sees updates


def test_a_gradient_of_ones_own_is_given_the_variables_it_uses():
    v, x = handled(2.0), tf.constant(3.0)

    @tf.custom_gradient
    def scaled(x):
        return x * v, lambda dy, variables=None: (dy * v, [dy * x])

    y = scaled(x)
    with started() as session:
        assert session.run([y, *tf.gradients(y, [x, v])]) == [6.0, 2.0, 3.0]


def test_saving_meta_graphs_and_messages(tmp_path):
    v = handled([1.0, 2.0])
    message = v.to_proto()
    assert (message.variable_name, message.initializer_name) == ("v:0", "v/Assign")
    assert (message.snapshot_name, message.is_resource) == ("v/Read/ReadVariableOp:0", True)
    saver = tf.train.Saver()
    with started() as session:
        path = saver.save(session, str(tmp_path / "model"))
        session.run(v.assign([0.0, 0.0]))
        saver.restore(session, path)
        assert list(session.run(v)) == [1.0, 2.0]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(f"{path}.meta").restore(session, path)
        (back,) = tf.global_variables()
        assert isinstance(back, ResourceVariable)
        assert (back.name, back.trainable, back.shape.as_list()) == ("v:0", True, [2])
        assert list(session.run(back)) == [1.0, 2.0]


def test_frozen_and_saved_models(tmp_path):
    v, x = handled([2.0]), tf.placeholder(tf.float32, [None], name="x")
    y = tf.multiply(x, v, name="y")
    with started() as session:
        tf.saved_model.simple_save(session, str(tmp_path / "saved"), {"x": x}, {"y": y})
        frozen = tf.graph_util.convert_variables_to_constants(session, session.graph_def, ["y"])
    assert "VarHandleOp" not in {node.op for node in frozen.node}
    with tf.Graph().as_default(), tf.Session() as session:
        (found,) = tf.import_graph_def(frozen, return_elements=["y:0"])
        assert session.run(found, {"import/x:0": [3.0]}) == [6.0]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], str(tmp_path / "saved"))
        assert session.run("y:0", {"x:0": [3.0]}) == [6.0]


def test_what_depends_on_others_starts_in_their_order():
    v = handled([1.0, 2.0])
    w = handled(v.initialized_value() * 2.0, "w")
    x = handled(v * 3.0, "x")
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="v"):
            session.run(v)
        assert list(session.run(tf.report_uninitialized_variables())) == [b"v", b"w", b"x"]
        session.run(tf.global_variables_initializer())
        assert [list(each) for each in session.run([v, w, x])] == [[1, 2], [2, 4], [3, 6]]
        assert session.run([v.is_initialized(), tf.is_variable_initialized(v)]) == [True, True]


def test_averages_counts_constraints_and_parts():
    v = handled([1.0, 2.0], constraint=lambda x: tf.clip_by_value(x, 0.0, 0.95))
    average = tf.train.ExponentialMovingAverage(0.5)
    averaged = average.apply([v])
    count = handled(0, "count")
    counted = count.count_up_to(2)
    parts = tf.get_variable(
        "p", [4, 2], use_resource=True, partitioner=tf.fixed_size_partitioner(2),
        initializer=tf.ones_initializer(),
    )  # fmt: skip
    loss = tf.reduce_sum(tf.nn.embedding_lookup(parts, [0, 3])) + tf.reduce_sum(v)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with started() as session:
        session.run(v.assign([3.0, 4.0]).op)
        session.run(averaged)
        assert list(session.run(average.average(v))) == [2.0, 3.0]
        assert isinstance(average.average(v), ResourceVariable)
        assert [session.run(counted), session.run(counted), session.run(count)] == [0, 1, 2]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(counted)
        session.run(train)
        np.testing.assert_allclose(session.run(v), [0.95, 0.95])
        found = session.run(tf.convert_to_tensor(parts))
        np.testing.assert_allclose(found, [[0.9] * 2, [1] * 2, [1] * 2, [0.9] * 2])
    assert all(isinstance(each, ResourceVariable) for each in parts)


def test_a_variable_without_a_shape_takes_any():
    start = tf.placeholder_with_default([1.0, 2.0], [None])
    v = tf.Variable(start, use_resource=True, validate_shape=False)
    with started() as session:
        assert list(session.run(v.assign([1.0, 2.0, 3.0]))) == [1.0, 2.0, 3.0]
    fixed = handled([1.0, 2.0])
    with pytest.raises(ValueError, match=r"Cannot assign value to variable 'v.*Shape mismatch"):
        fixed.assign([1.0, 2.0, 3.0])


def test_an_op_without_a_form_for_handles_says_so():
    with pytest.raises(TypeError, match="use_resource=True"):
        tf.get_default_graph().apply("InitializedValue", (handled(1.0), 2.0), {}, None)


CHANGES = {
    "assign": (lambda v, i, w: tf.assign(v, w), [3, 4]),
    "assign_add": (lambda v, i, w: tf.assign_add(v, w), [4, 6]),
    "assign_sub": (lambda v, i, w: tf.assign_sub(v, w), [-2, -2]),
    "scatter_update": (tf.scatter_update, [4, 3]),
    "scatter_mul": (tf.scatter_mul, [4, 6]),
    "scatter_nd_add": (lambda v, i, w: tf.scatter_nd_add(v, i[:, None], w), [5, 5]),
}


@pytest.mark.parametrize("kinds", list(np.ndindex(2, 2, 2)), ids=str)
@pytest.mark.parametrize("change", CHANGES)
def test_a_variable_of_either_kind_is_changed_by_values_of_either(change, kinds):
    v, i, w = (
        tf.Variable(value, use_resource=bool(kind))
        for value, kind in zip(([1.0, 2.0], [1, 0], [3.0, 4.0]), kinds, strict=True)
    )
    build, expected = CHANGES[change]
    update = build(v, i, w)
    with started() as session:
        session.run(update.op)
        assert session.run([v, i, w])[0].tolist() == expected
        assert session.run(w).tolist() == [3, 4]


def test_replicas_may_count_with_a_handle():
    with tf.variable_scope("", use_resource=True):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", initializer=[1.0, 2.0])
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1, 1)
    train = optimizer.minimize(tf.reduce_sum(w * w), global_step=step)
    hook = optimizer.make_session_run_hook(is_chief=True)
    with tf.train.MonitoredTrainingSession(is_chief=True, hooks=[hook]) as session:
        for _ in range(3):
            session.run(train)
        assert session.run(step) >= 2


@pytest.mark.parametrize("place", ["one process", "servers"])
def test_parameter_servers_hold_them(place, request):
    if place == "servers":
        cluster = request.getfixturevalue("ps_and_worker")
        target, ps, worker = cluster
    else:
        target, ps, worker = "", "/cpu:0", "/cpu:0"
    with tf.device(ps):
        v = handled([1.0, 2.0])
        step = tf.train.get_or_create_global_step()
    with tf.device(worker):
        loss = tf.reduce_sum(v * v)
        train = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run(train)
        np.testing.assert_allclose(session.run(v), [0.8347373, 1.8315433], atol=1e-6)
        assert session.run(step) == 2


@pytest.fixture
def ps_and_worker():
    from sparkflow_runtime.testing.local_cluster import LocalCluster

    with LocalCluster(num_ps=1, num_workers=1) as cluster:
        yield cluster.target("worker", 0), "/job:ps/task:0", "/job:worker/task:0"


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.assign([3.0, 3.0]),
        lambda v: tf.assign_add(v, [2.0, 2.0]),
        lambda v: tf.assign_sub(v, [-2.0, -2.0]),
        lambda v: tf.scatter_add(v, [0, 1], [2.0, 2.0]),
        lambda v: tf.scatter_update(v, [0, 1], [3.0, 3.0]),
        lambda v: v[:].assign([3.0, 3.0]),
    ],
)
def test_a_session_makes_no_node_for_an_update_that_it_fetches(graph, change):
    """Another thread may build the graph, or have finalized it."""
    updated = change(handled([1.0, 1.0]))
    with started() as session:
        before = len(graph.get_operations())
        graph.finalize()
        np.testing.assert_array_equal(session.run(updated), [3, 3])
        updated.eval(session=session)
        assert len(graph.get_operations()) == before


def test_nobody_reads_what_an_optimizer_updates(graph):
    v = handled([1.0, 1.0])
    before = len(graph.get_operations())
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(v))
    new = graph.get_operations()[before:]
    after = [op for op in new if any("Apply" in each.type for each in op.control_inputs)]
    assert [op.type for op in after] == ["NoOp"]
