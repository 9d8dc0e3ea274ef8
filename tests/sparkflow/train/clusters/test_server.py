import socket
import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master import remote_session
from sparkflow_runtime.testing.local_cluster import LocalCluster


def test_a_local_server_tells_its_target_and_runs_sessions():
    server = tf.train.Server.create_local_server()
    try:
        host, _, port = server.target.removeprefix("grpc://").rpartition(":")
        assert host == "localhost"
        assert int(port) > 0
        assert server.server_def.job_name == "localhost"
        with tf.Graph().as_default(), tf.Session(server.target) as session:
            assert session.run(tf.constant(2) * 3) == 6
            assert session.list_devices()[0].name.startswith("/job:localhost/replica:0/task:0")
    finally:
        server.stop()


def test_join_returns_when_the_server_stops():
    server = tf.train.Server.create_local_server()
    thread = threading.Thread(target=server.join)
    thread.start()
    server.stop()
    server.stop()
    thread.join(10.0)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (({"a": ["localhost:0"]}, "b"), ValueError, "No such job in cluster: 'b'"),
        (({"a": ["localhost:0"]}, "b", 0), tf.errors.InternalError, 'Job "b" was not defined'),
        (({"a": ["localhost:0", "localhost:0"]}, "a"), ValueError, "explicit `task_index`"),
        (({"a": ["localhost:0"], "b": ["localhost:0"]},), ValueError, "explicit `job_name`"),
        (
            ({"a": ["localhost:0"]}, "a", 3),
            tf.errors.InternalError,
            'Task 3 was not defined in job "a"',
        ),
        ((3,), TypeError, "Could not convert `server_or_cluster_def`"),
        (({"a": ["localhost:x"]},), ValueError, "'localhost:x' is not the address of a task"),
        (({"a": [1]},), TypeError, "Task address 1"),
    ],
)
def test_clusters_that_do_not_fit_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        tf.train.Server(*arguments)


def test_a_server_tells_that_it_started_and_which_port_is_taken(caplog):
    with caplog.at_level("INFO", "tensorflow"):
        server = tf.train.Server.create_local_server()
    try:
        assert f"Started server with target: {server.target}" in caplog.messages
        with pytest.raises(tf.errors.UnknownError, match=r"^Could not start gRPC server.*in use"):
            tf.train.Server({"worker": [server.target.removeprefix("grpc://")]})
        server.start()
    finally:
        server.stop()


def test_what_others_can_reach_needs_credentials():
    cluster = {"worker": ["0.0.0.0:0"]}
    with pytest.raises(tf.errors.PermissionDeniedError, match="insecure=True"):
        tf.train.Server(cluster)
    tf.train.Server(cluster, insecure=True).stop()
    tf.train.Server(cluster, token="secret").stop()


def test_a_token_is_asked_for():
    server = tf.train.Server({"worker": ["localhost:0"]}, token="secret")
    try:
        with tf.Graph().as_default():
            x = tf.constant(1.0)
            with pytest.raises(tf.errors.UnauthenticatedError):
                tf.Session(server.target)
            with tf.Session(server.target, credentials="secret") as session:
                assert session.run(x) == 1.0
    finally:
        server.stop()


def test_a_server_from_a_message():
    message = tf.train.ServerDef(job_name="worker", task_index=0, protocol="grpc")
    message.cluster.CopyFrom(tf.train.ClusterSpec({"worker": ["localhost:0"]}).as_cluster_def())
    server = tf.train.Server(message, start=False)
    assert server.server_def == message
    server.start()
    server.stop()


def test_training_between_two_parameter_servers_and_a_worker():
    rng = np.random.RandomState(0)
    x_values = rng.randn(32, 3)
    y_values = x_values @ [[1.0], [2.0], [-1.0]] + 0.5
    with LocalCluster(num_ps=2, num_workers=2) as cluster, tf.Graph().as_default() as graph:
        setter = tf.train.replica_device_setter(2, worker_device="/job:worker/task:1")
        with tf.device(setter):
            x = tf.placeholder(tf.float32, [None, 3])
            y = tf.placeholder(tf.float32, [None, 1])
            loss = tf.reduce_mean(tf.squared_difference(tf.layers.dense(x, 1), y))
            step = tf.train.get_or_create_global_step()
            train = tf.train.AdamOptimizer(0.1).minimize(loss, step)
            init = tf.global_variables_initializer()
        with tf.Session(cluster.target("worker", 0), graph=graph) as session:
            session.run(init)
            first = session.run(loss, {x: x_values, y: y_values})
            for _ in range(60):
                session.run(train, {x: x_values, y: y_values})
            assert session.run(loss, {x: x_values, y: y_values}) < first / 20
        with tf.Session(cluster.target("worker", 1), graph=graph) as other:
            # Variables are shared by the sessions of all masters.
            assert other.run(step) == 60


def test_an_error_on_another_task_arrives_with_its_node_and_line():
    with LocalCluster(num_ps=1, num_workers=1) as cluster, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            w = tf.Variable(1.0, name="w")
        with tf.device("/job:worker/task:0"):
            y = w * 2.0
        with (
            tf.Session(cluster.target("worker", 0)) as session,
            pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value w") as e,
        ):
            session.run(y)
    assert "/job:ps/replica:0/task:0" in str(e.value)
    assert "test_server.py:" in str(e.value)
    assert e.value.op is w.value().op


def test_the_port_for_channels_can_be_chosen():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(tf.errors.UnknownError, match=rf"tensor channels on .* port {port}: "):
            tf.train.Server({"local": ["localhost:0"]}, channel_port=port)
    server = tf.train.Server({"local": ["localhost:0"]}, channel_port=port)
    try:
        socket.create_connection(("127.0.0.1", port), 10).close()
    finally:
        server.stop()


def test_a_transport_that_there_is_not_is_refused():
    with pytest.raises(tf.errors.FailedPreconditionError, match="'udp' is none of auto, tcp"):
        tf.train.Server({"local": ["localhost:0"]}, transport="udp")


@pytest.mark.parametrize("how", ["in process", "grpc"])
def test_a_servers_options_are_the_defaults_of_its_sessions(how, monkeypatch, request):
    if how == "grpc":
        monkeypatch.setattr(remote_session, "masters_here", {})
    config = tf.ConfigProto(operation_timeout_in_ms=200, allow_soft_placement=True)
    server = tf.train.Server.create_local_server(config=config)
    request.addfinalizer(server.stop)
    with tf.Graph().as_default(), tf.Session(server.target) as session:
        queue = tf.FIFOQueue(1, tf.float32)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(queue.dequeue())
        with tf.device("/gpu:7"):
            assert session.run(tf.constant(2.0) * 2.0) == 4.0
    own = tf.ConfigProto(operation_timeout_in_ms=60_000)
    with tf.Graph().as_default(), tf.Session(server.target, config=own) as session:
        queue = tf.FIFOQueue(1, tf.float32)
        enqueue = queue.enqueue(3.0)
        later = threading.Timer(0.4, session.run, [enqueue])
        later.start()
        assert session.run(queue.dequeue()) == 3.0
        later.join()  # its answer may arrive later than its result


def cluster_of(*servers):
    """The tasks of servers that were started individually."""
    jobs = {}
    for server in servers:
        given = server.server_def
        address = server.target.removeprefix("grpc://")
        jobs.setdefault(given.job_name, {})[given.task_index] = address
    return tf.train.ClusterSpec(jobs)


@pytest.fixture
def alone(request):
    """Creates servers that know only their own task."""

    def make(job, task):
        server = tf.train.Server({job: {task: "localhost:0"}}, job, task)
        request.addfinalizer(server.stop)
        return server

    return make


@pytest.mark.parametrize("how", ["in process", "grpc"])
def test_a_session_may_bring_the_cluster_that_its_servers_were_not_told(how, alone, monkeypatch):
    if how == "grpc":
        monkeypatch.setattr(remote_session, "masters_here", {})
    servers = alone("ps", 0), alone("worker", 0), alone("worker", 1)
    config = tf.ConfigProto(cluster_def=cluster_of(*servers).as_cluster_def())
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            total = tf.Variable(1.0)
        with tf.device("/job:worker/task:0"):
            first = total * 2.0
        with tf.device("/job:worker/task:1"):
            second = first + tf.placeholder_with_default(5.0, [])
        for server in servers[1:]:
            with tf.Session(server.target, config=config) as session:
                assert len(session.list_devices()) == 3
                session.run(total.initializer)
                assert session.run([second, total.assign_add(second)])[0] == 7.0
                assert session.run(total) == 8.0
        with tf.Session(servers[0].target) as session:  # the next session does not pass one
            assert len(session.list_devices()) == 1


def test_a_cluster_in_which_the_server_has_another_name_is_refused(alone):
    server, other = alone("worker", 0), alone("worker", 1)
    spec = tf.train.ClusterSpec({"local": [server.target.removeprefix("grpc://")]})
    config = tf.ConfigProto(cluster_def=spec.as_cluster_def())
    with pytest.raises(tf.errors.InvalidArgumentError, match="name each task as its server was"):
        tf.Session(server.target, config=config)
    swapped = tf.train.ClusterSpec(
        {"worker": [each.target.removeprefix("grpc://") for each in (server, server)]}
    )
    config = tf.ConfigProto(cluster_def=swapped.as_cluster_def())
    with pytest.raises(tf.errors.FailedPreconditionError, match="have the same address"):
        tf.Session(server.target, config=config)
    right = tf.ConfigProto(cluster_def=cluster_of(server, other).as_cluster_def())
    with tf.Session(server.target, graph=tf.Graph(), config=right) as session:
        assert len(session.list_devices()) == 2
