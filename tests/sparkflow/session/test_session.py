import collections
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master import client

Pair = collections.namedtuple("Pair", ["first", "second"])


@pytest.fixture(params=["in process", "grpc"])
def session(request):
    with tf.Graph().as_default():
        if request.param == "in process":
            with tf.Session() as session:
                yield session
        else:
            server = tf.train.Server.create_local_server()
            with tf.Session(server.target) as session:
                yield session
            server.stop()


def test_values_come_back_in_the_structure_of_the_fetches(session):
    x, y = tf.constant(1.0), tf.constant([2, 3])
    done = tf.no_op()
    ordered = collections.OrderedDict([("b", y), ("a", (x,))])
    result = session.run({"list": [x, [y]], "pair": Pair(x, done), "name": "Const:0", "o": ordered})
    assert result["list"][0] == 1.0
    np.testing.assert_array_equal(result["list"][1][0], [2, 3])
    assert result["pair"] == Pair(1.0, None)
    assert result["name"] == 1.0
    assert isinstance(result["o"], collections.OrderedDict)
    assert list(result["o"]) == ["b", "a"]
    assert session.run([]) == []
    assert session.run(done) is None


def test_scalars_are_numpy_scalars_and_arrays_belong_to_the_caller(session):
    value = session.run(tf.constant(1.0))
    assert type(value) is np.float32
    x = tf.constant([1.0, 2.0])
    array = session.run(x)
    array[0] = 7.0
    np.testing.assert_array_equal(session.run(x), [1.0, 2.0])


def test_any_tensor_can_be_fed(session):
    x = tf.placeholder(tf.float32, [None])
    y = x * 2.0
    z = y + 1.0
    np.testing.assert_array_equal(session.run(z, {x: [1, 2]}), [3, 5])
    np.testing.assert_array_equal(session.run(z, {y: [1, 2]}), [2, 3])
    np.testing.assert_array_equal(session.run(z, {y.name: np.array([1.5])}), [2.5])
    np.testing.assert_array_equal(session.run(y, {y: [9]}), [9])


def test_the_graph_may_grow_between_runs(session):
    x = tf.constant(2.0)
    assert session.run(x) == 2.0
    y = x * x
    assert session.run(y) == 4.0
    assert session.run([x, y, y + 1.0]) == [2.0, 4.0, 5.0]


def test_variables_live_from_run_to_run(session):
    w = tf.Variable(1.0)
    up = tf.assign_add(w, 2.0)
    session.run(tf.global_variables_initializer())
    assert session.run(up) == 3.0
    assert session.run(up) == 5.0
    assert session.run(w) == 5.0
    assert w.eval() == 5.0
    w.load(8.0)
    assert session.run([w, w.read_value()]) == [8.0, 8.0]


def test_sparse_rows_are_fetched_and_fed_by_part(session):
    rows = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([2]), tf.constant([3, 1]))
    value = session.run(rows)
    assert (value.values, value.indices) == ([[1.0]], [2])
    np.testing.assert_array_equal(value.dense_shape, [3, 1])
    fed = session.run(rows.values + 1.0, {rows: ([[5.0]], [0], [3, 1])})
    np.testing.assert_array_equal(fed, [[6.0]])


def test_an_uninitialised_variable_is_named_with_its_line(session):
    w = tf.Variable(1.0, name="scope/w")
    y = w * 2.0
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value scope/w") as e:
        session.run(y)
    assert "test_session.py:" in str(e.value)
    assert e.value.op is w.value().op
    assert e.value.node_def.name == "scope/w/read"
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"scope/w.*\n.*test_session.py:"):
        session.run(w)


def test_a_missing_feed_is_named_with_its_line(session):
    x = tf.placeholder(tf.float32, [None, 3], name="features")
    with pytest.raises(tf.errors.InvalidArgumentError, match="'features' with dtype float ") as e:
        session.run(x * 2.0)
    assert "test_session.py:" in str(e.value)
    assert e.value.op is x.op


def test_shapes_that_do_not_fit_at_run_time_name_the_node(session):
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    z = tf.matmul(x, y, name="product")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[2,3\].*\[4,5\]") as e:
        session.run(z, {x: np.ones((2, 3)), y: np.ones((4, 5))})
    assert e.value.op is z.op
    assert "test_session.py:" in str(e.value)


def test_a_session_goes_on_after_an_error(session):
    x = tf.placeholder(tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run(x)
    assert session.run(x, {x: 1.0}) == 1.0


def test_callables_take_feeds_by_position(session):
    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    run = session.make_callable({"sum": x + y}, [x, y])
    assert run(1.0, 2) == {"sum": 3.0}
    assert run(2.0, 2) == {"sum": 4.0}
    with pytest.raises(tf.errors.InvalidArgumentError, match="takes 2 values, got 1"):
        run(1.0)
    with pytest.raises(TypeError, match="must be a list or tuple"):
        session.make_callable(x, x)
    metadata = tf.RunMetadata()
    with_options = session.make_callable(x + y, [x, y], accept_options=True)
    options = tf.RunOptions(output_partition_graphs=True)
    assert with_options(1, 2, options=options, run_metadata=metadata) == 3.0
    assert len(metadata.partition_graphs) == 1


def test_a_closed_session_says_so():
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        session = tf.Session()
        run = session.make_callable(x)
        assert session.run(x) == 1.0
        session.close()
        session.close()
        for use in (lambda: session.run(x), session.list_devices):
            with pytest.raises(RuntimeError, match="closed Session"):
                use()
        with pytest.raises(tf.errors.CancelledError, match="Session has been closed"):
            run()


def test_the_first_run_of_an_empty_graph_says_so():
    with tf.Session(graph=tf.Graph()) as session, pytest.raises(RuntimeError, match="is empty"):
        session.run([])


def test_sessions_nest_as_defaults():
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        assert tf.get_default_session() is None
        with tf.Session() as outer:
            assert tf.get_default_session() is outer
            with tf.Session() as inner:
                assert tf.get_default_session() is inner
            assert tf.get_default_session() is outer
            assert x.eval() == 1.0
        with pytest.raises(ValueError, match="No default session"):
            x.eval()
        with tf.Graph().as_default(), tf.Session() as other:
            with pytest.raises(ValueError, match="graph is different"):
                x.eval(session=other)
            with pytest.raises(ValueError, match="graph is different"):
                x.op.run()


def test_an_interactive_session_is_the_default_one_until_closed():
    with tf.Graph().as_default():
        session = tf.InteractiveSession()
        w = tf.Variable(2.0)
        tf.global_variables_initializer().run()
        assert (w * 3.0).eval({w.value(): 5.0}) == 15.0
        session.close()
        assert tf.get_default_session() is None


def test_an_interactive_session_makes_its_graph_the_default_one():
    graph = tf.Graph()
    session = tf.InteractiveSession(graph=graph)
    assert tf.get_default_graph() is graph
    session.close()
    assert tf.get_default_graph() is not graph


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"graph": 3}, "must be a tf.Graph"),
        ({"config": {}}, "must be a tf.ConfigProto"),
    ],
)
def test_wrong_arguments_are_refused(arguments, text):
    with pytest.raises(TypeError, match=text):
        tf.Session(**arguments)


def test_a_target_that_is_none_is_refused():
    with pytest.raises(tf.errors.NotFoundError, match="neither '' nor 'grpc://host:port'"):
        tf.Session("http://localhost")


def test_several_threads_may_run_one_session():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [])
        ys = [x * float(k) for k in range(20)]
        wrong = []

        def work(offset):
            for k, y in enumerate(ys):
                if session.run(y, {x: offset}) != offset * k:
                    wrong.append((offset, k))

        threads = [threading.Thread(target=work, args=(float(n),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


class CountingClient:
    """Counts a session's requests to the runtime."""

    def __init__(self, inner):
        self.inner = inner
        self.extended = []
        self.made = 0

    def extend(self, graph_def):
        self.extended.append(len(graph_def.node))
        self.inner.extend(graph_def)

    def make_callable(self, *args):
        self.made += 1
        return self.inner.make_callable(*args)

    def close(self):
        self.inner.close()


def test_equal_runs_are_prepared_once_and_nodes_sent_once(monkeypatch):
    clients = []

    def open_session(target, **options):
        clients.append(CountingClient(client.open_session(target, **options)))
        return clients[-1]

    monkeypatch.setattr("sparkflow.session.session.open_session", open_session)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32)
        y = x * 2.0
        for _ in range(3):
            session.run([y, {"x": x}], {x: 1.0})
        assert clients[0].made == 1
        session.run([y, {"x": x}], {y: 1.0, x: 2.0})
        session.run(y, {x: 1.0})
        assert clients[0].made == 3
        assert clients[0].extended == [3]
        session.run(y + 1.0, {x: 1.0})
        assert clients[0].extended == [3, 2]


def test_reset_drops_the_variables_of_a_server():
    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default(), tf.Session(server.target) as session:
        w = tf.Variable(1.0)
        session.run(w.initializer)
        tf.Session.reset(server.target)
    with tf.Session(server.target, graph=w.graph) as session:
        assert session.run(tf.is_variable_initialized(w)) == np.False_
    server.stop()


def test_a_program_that_closes_nothing_ends():
    program = """
import sparkflow as tf
server = tf.train.Server.create_local_server()
remote, local = tf.Session(server.target), tf.Session()
print(remote.run(tf.constant(2)) + local.run(tf.constant(3)))
"""
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")


def test_a_session_that_is_dropped_is_closed(monkeypatch):
    closed = []
    monkeypatch.setattr(CountingClient, "close", lambda self: closed.append(self.inner.close()))
    monkeypatch.setattr(
        "sparkflow.session.session.open_session",
        lambda target, **options: CountingClient(client.open_session(target, **options)),
    )
    with tf.Graph().as_default():
        session = tf.Session()
        session.run(tf.constant(1.0))
        del session
    gc.collect()
    assert len(closed) == 1


def test_a_session_has_as_many_cpu_devices_as_it_asks_for():
    with tf.device("/cpu:1"):
        fed = tf.placeholder(tf.float32, [])
        doubled = tf.constant(2.0) * fed
    with tf.device("/cpu:0"):
        total = doubled + 1.0
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        assert [device.name[-5:] for device in session.list_devices()] == ["CPU:0", "CPU:1"]
        assert session.run(total, {fed: 3.0}) == 7.0
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="CPU:1"):
        session.run(total, {fed: 3.0})


def test_a_session_is_entered_once_at_a_time():
    with tf.Graph().as_default():
        two = tf.constant(2)
        session = tf.Session()
        with session:
            with pytest.raises(RuntimeError, match=r"not re-entrant\. Use `Session\.as_default"):
                session.__enter__()
            with session.as_default(), session.as_default():
                assert two.eval() == 2
            assert two.eval() == 2
        with pytest.raises(RuntimeError, match="closed Session"), session:
            two.eval()


def test_a_graph_without_operations_cannot_run():
    other = tf.constant(1)
    with tf.Session(graph=tf.Graph()) as session:
        for fetch in (other, "a:0", []):
            with pytest.raises(RuntimeError, match="The Session graph is empty"):
                session.run(fetch)
