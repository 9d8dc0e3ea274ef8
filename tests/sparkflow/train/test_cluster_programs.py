"""How distributed programs of TensorFlow 1 use a cluster, with its tasks in this process."""

import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(num_ps=2, num_workers=2) as made:
        yield made


def session(cluster, index=0, **options):
    config = tf.ConfigProto(**options)
    return tf.Session(cluster.target("worker", index), config=config)


@pytest.fixture(autouse=True)
def _fresh(cluster):
    with tf.Graph().as_default():
        yield
    tf.Session.reset(cluster.target("worker", 0))


def test_towers_on_two_workers_average_their_gradients(cluster):
    x_values = np.linspace(-1, 1, 16).astype(np.float32).reshape(16, 1)
    y_values = 2 * x_values + 0.5
    with tf.device("/job:ps/task:0"):
        x, y = tf.placeholder(tf.float32, [16, 1]), tf.placeholder(tf.float32, [16, 1])
        w = tf.get_variable("w", [1, 1], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    towers = []
    parts = zip(tf.split(x, 2), tf.split(y, 2), strict=True)
    for index, (x_part, y_part) in enumerate(parts):
        with tf.device(f"/job:worker/task:{index}"), tf.name_scope(f"tower_{index}"):
            loss = tf.reduce_mean(tf.square(tf.matmul(x_part, w) + b - y_part))
            towers.append(optimizer.compute_gradients(loss, [w, b]))
    with tf.device("/job:ps/task:0"):
        mean = [
            (tf.reduce_mean(tf.stack([g for g, _ in pair]), 0), pair[0][1])
            for pair in zip(*towers, strict=True)
        ]
        train = optimizer.apply_gradients(mean)
    w_expected, b_expected = np.zeros((1, 1)), np.zeros(1)
    with session(cluster) as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            sess.run(train, {x: x_values, y: y_values})
            error = x_values @ w_expected + b_expected - y_values
            w_expected = w_expected - 0.1 * 2 * np.mean(error * x_values)
            b_expected = b_expected - 0.1 * 2 * np.mean(error)
        np.testing.assert_allclose(sess.run(w), w_expected, rtol=1e-5)
        np.testing.assert_allclose(sess.run(b), b_expected, rtol=1e-5)


VALUES = [
    np.array([b"a", "ß".encode(), b""], object),
    np.array(b"scalar", object),
    np.array([True, False]),
    np.array(True),
    np.array([1.5, -2], np.float16),
    np.array(3, np.int8),
    np.zeros((0, 3), np.float32),
    np.zeros((2, 0), np.int64),
    np.zeros(0, object),
    np.array([1 + 2j], np.complex64),
    np.array(2**40, np.uint64),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype}{value.shape}")
def test_every_type_and_shape_crosses_tasks(cluster, value):
    with tf.device("/job:ps/task:0"):
        there = tf.identity(tf.placeholder(tf.as_dtype(value.dtype), value.shape, name="x"))
    with tf.device("/job:worker/task:1"):
        back = tf.identity(there)
    with session(cluster) as sess:
        found = np.asarray(sess.run(back, {"x:0": value}))
    assert found.shape == value.shape
    np.testing.assert_array_equal(found.astype(value.dtype), value)


def test_bfloat16_crosses_tasks(cluster):
    with tf.device("/job:ps/task:0"):
        there = tf.cast(tf.constant([1.0, -2.5]), tf.bfloat16)
    with tf.device("/job:worker/task:1"):
        back = tf.cast(tf.identity(there), tf.float32) * 2.0
    with session(cluster) as sess:
        assert sess.run(there).astype(np.float32).tolist() == [1, -2.5]
        assert sess.run(back).tolist() == [2, -5]


def test_large_tensors_cross_tasks(cluster):
    with tf.device("/job:ps/task:0"):
        big = tf.fill([9, 1024, 1024], 1.0) * tf.placeholder(tf.float32, [], name="x")
    with tf.device("/job:worker/task:1"):
        total, last = tf.reduce_sum(big), big[-1, -1, -1]
    with session(cluster) as sess:
        assert sess.run([total, last], {"x:0": 0.5}) == [9 * 1024 * 512, 0.5]


def test_branches_and_loops_run_on_the_task_they_are_pinned_to(cluster):
    with tf.device("/job:ps/task:1"):
        v = tf.get_variable("v", [], initializer=tf.constant_initializer(3.0))
    with tf.device("/job:worker/task:1"):
        n = tf.placeholder(tf.int32, [])
        _, product = tf.while_loop(
            lambda i, _: i < n, lambda i, p: (i + 1, p * v), (tf.constant(0), tf.constant(1.0))
        )
        chosen = tf.cond(n > 2, lambda: product + v, lambda: product - v)
    slope = tf.gradients(chosen, v)[0]
    with tf.device("/job:worker/task:0"):  # what was recorded is elsewhere, and so is its gradient
        second = tf.gradients(slope, v)[0]
    with session(cluster) as sess:
        sess.run(v.initializer)
        assert sess.run([chosen, slope, second], {n: 3}) == [30, 28, 18]
        assert sess.run([chosen, slope], {n: 2}) == [6, 5]


def test_sessions_share_variables_unless_their_containers_differ(cluster):
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        with tf.container("mine"):
            own = tf.get_variable("own", [], initializer=tf.zeros_initializer())
    with tf.device("/job:worker/task:0"):
        add = tf.group(tf.assign_add(v, 1, use_locking=True), tf.assign_add(own, 2))
    sessions = [session(cluster, index % 2) for index in range(4)]
    sessions[0].run(tf.global_variables_initializer())

    def work(sess):
        for _ in range(10):
            sess.run(add)

    threads = [threading.Thread(target=work, args=(sess,)) for sess in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sessions[3].run(v) == 40
    for sess in sessions:
        sess.close()
    tf.Session.reset(cluster.target("worker", 0), ["mine"])
    with session(cluster, 1) as sess:
        assert sess.run(v) == 40
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(own)


def test_a_reset_closes_the_sessions_of_that_server(cluster):
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    sess = session(cluster)
    sess.run(v.initializer)
    tf.Session.reset(cluster.target("worker", 0))
    with pytest.raises(tf.errors.AbortedError):
        sess.run(v)
    sess.close()


def test_a_parameter_server_leaves_when_every_worker_has_said_that_it_is_done(cluster):
    def done_queue(index):
        with tf.device(f"/job:ps/task:{index}"):
            return tf.FIFOQueue(2, tf.int32, shared_name=f"done_{index}")

    def worker(index):
        with tf.Graph().as_default():
            queues = [done_queue(ps) for ps in range(2)]
            enqueue = [queue.enqueue(index) for queue in queues]
            with session(cluster, index) as sess:
                sess.run(enqueue)

    said = []

    def serve(index):
        with tf.Graph().as_default():
            take = done_queue(index).dequeue()
            with tf.Session(cluster.target("ps", index)) as sess:
                said.append(sorted(int(sess.run(take)) for _ in range(2)))

    calls = [(serve, 0), (serve, 1), (worker, 1), (worker, 0)]
    threads = [threading.Thread(target=call, args=(index,)) for call, index in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert said == [[0, 1], [0, 1]]


@pytest.mark.parametrize("sharded", [False, True])
def test_two_parameter_servers_are_saved_and_restored(cluster, tmp_path, sharded):
    with tf.device(tf.train.replica_device_setter(2)):
        a = tf.get_variable("a", initializer=[1.0, 2.0])
        b = tf.get_variable("b", initializer=[[3, 4]])
        part = tf.get_variable(
            "part",
            [4, 2],
            partitioner=tf.fixed_size_partitioner(2),
            initializer=tf.ones_initializer(),
        )
        saver = tf.train.Saver(sharded=sharded)
    with session(cluster) as sess:
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, str(tmp_path / "model"))
        sess.run(
            [a.assign([0, 0]), b.assign([[0, 0]]), *[each.assign(each * 0.0) for each in part]]
        )
        saver.restore(sess, path)
        assert sess.run(a).tolist() == [1, 2]
        assert sess.run(b).tolist() == [[3, 4]]
        assert sess.run(tf.convert_to_tensor(part)).tolist() == [[1, 1]] * 4
    shards = sorted(each.name for each in tmp_path.glob("model.data-*"))
    assert len(shards) == (2 if sharded else 1)
    assert tf.train.list_variables(path) == [("a", [2]), ("b", [1, 2]), ("part", [4, 2])]


@pytest.mark.parametrize("device", ["/job:tpu/task:0", "/job:worker/task:7", "/job:ps/gpu:9"])
def test_devices_outside_the_cluster_are_refused(cluster, device):
    with tf.device(device):
        c = tf.constant(1.0, name="c")
    match = r"Cannot assign a device for operation c"
    with session(cluster) as sess, pytest.raises(tf.errors.InvalidArgumentError, match=match):
        sess.run(c)


def test_a_server_that_stops_ends_the_steps_of_its_sessions():
    server = tf.train.Server.create_local_server()
    queue = tf.FIFOQueue(1, tf.int32)
    take = queue.dequeue()
    ends = []
    sess = tf.Session(server.target)
    sess.run(queue.size())

    def work():
        try:
            sess.run(take)
        except tf.errors.OpError as error:
            ends.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    server.stop()
    thread.join(30)
    assert not thread.is_alive()
    with pytest.raises(tf.errors.UnavailableError):
        sess.run(take)
    with pytest.raises(tf.errors.UnavailableError):
        sess.close()
    assert isinstance(ends[0], tf.errors.CancelledError | tf.errors.UnavailableError)


def test_clusters_with_other_tokens_do_not_mix():
    one = tf.train.Server.create_local_server()
    two = tf.train.Server({"worker": ["localhost:0"]}, token="two")
    try:
        address = two.target.removeprefix("grpc://")
        mixed = tf.train.Server(
            {"ps": ["localhost:0"], "worker": [address]}, "ps", 0, token="three"
        )
        with pytest.raises(tf.errors.UnauthenticatedError):
            tf.Session(mixed.target, credentials="three")
        mixed.stop()
    finally:
        one.stop()
        two.stop()


def test_twenty_workers_train_partitioned_variables_on_four_servers():
    with LocalCluster(num_ps=4, num_workers=20) as cluster:
        with tf.device(tf.train.replica_device_setter(4, worker_device="/job:worker/task:0")):
            table = tf.get_variable(
                "table",
                [40, 3],
                partitioner=tf.fixed_size_partitioner(4),
                initializer=tf.zeros_initializer(),
            )
            init = tf.global_variables_initializer()
        devices = {each.device for each in table}
        assert devices == {f"/job:ps/task:{index}" for index in range(4)}
        with tf.Session(cluster.target("worker", 0)) as sess:
            sess.run(init)
        errors = []

        def work(index):
            try:
                with tf.Graph().as_default():
                    worker = f"/job:worker/task:{index}"
                    with tf.device(tf.train.replica_device_setter(4, worker_device=worker)):
                        mine = tf.get_variable(
                            "table", [40, 3], partitioner=tf.fixed_size_partitioner(4)
                        )
                        rows = tf.nn.embedding_lookup(mine, [2 * index, 2 * index + 1], "div")
                        loss = tf.reduce_sum(tf.square(rows - float(index)))
                        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
                    config = tf.ConfigProto(device_filters=["/job:ps", worker])
                    with tf.Session(cluster.target("worker", index), config=config) as sess:
                        sess.run(train)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(index,)) for index in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
        assert not errors
        with tf.Session(cluster.target("worker", 7)) as sess:
            found = sess.run(tf.convert_to_tensor(table))
    np.testing.assert_allclose(found, np.repeat(np.arange(20), 2)[:, None] * np.ones(3), rtol=1e-6)
