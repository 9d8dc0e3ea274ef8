"""Synchronous replicas: the same results as one process, backups, stale gradients, ends."""

import threading
from contextlib import ExitStack, suppress

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.ir.graph_def import import_graph
from sparkflow_runtime.passes.partitioning.partition import partition
from sparkflow_runtime.passes.prune import prune
from sparkflow_runtime.testing.local_cluster import LocalCluster

DEADLINE_S = 60
STEPS = 5
INPUTS = np.random.RandomState(0).randn(8, 3).astype(np.float32)
TARGETS = (INPUTS @ np.array([[1.0], [-2.0], [0.5]])).astype(np.float32)


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


class Model:
    """A linear model, its optimizer wrapped."""

    def __init__(self, wrap=lambda optimizer: optimizer, rate=0.1):
        self.w = tf.get_variable("w", initializer=np.zeros([3, 1], np.float32))
        self.step = tf.train.get_or_create_global_step()
        self.x = tf.placeholder(tf.float32, [None, 3])
        self.y = tf.placeholder(tf.float32, [None, 1])
        loss = tf.reduce_mean(tf.square(tf.matmul(self.x, self.w) - self.y))
        self.optimizer = wrap(tf.train.AdagradOptimizer(rate))
        self.train = self.optimizer.minimize(loss, global_step=self.step)

    def feed(self, part):
        return {self.x: INPUTS[part], self.y: TARGETS[part]}


def alone():
    """Returns the values after the steps of one process with all the data."""
    with tf.Graph().as_default():
        model = Model()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(STEPS):
                session.run(model.train, model.feed(slice(None)))
            return session.run(model.w)


def in_threads(*functions):
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(f,), daemon=True) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads)


def test_two_replicas_compute_what_one_process_does():
    """They begin each step together, so that neither takes the token for the other's step."""
    seen, together = {}, threading.Barrier(2, timeout=DEADLINE_S)

    def worker(task):
        with tf.Graph().as_default():
            setter = tf.train.replica_device_setter(
                ps_tasks=1, worker_device=f"/job:worker/task:{task}"
            )
            with tf.device(setter):
                model = Model(lambda opt: tf.train.SyncReplicasOptimizer(opt, 2, 2))
            # No spare tokens: no replica may be a step ahead of the data.
            hook = model.optimizer.make_session_run_hook(task == 0, num_tokens=0)
            with tf.train.MonitoredTrainingSession(
                cluster.target("worker", task),
                is_chief=task == 0,
                hooks=[hook],
                max_wait_secs=DEADLINE_S,
            ) as session:
                for _ in range(STEPS):
                    together.wait()
                    session.run(model.train, model.feed(slice(task, None, 2)))
                seen[task] = session.run([model.w, model.step])

    with LocalCluster(num_ps=1, num_workers=2) as cluster:
        in_threads(lambda: worker(0), lambda: worker(1))
    expected = alone()
    for values, step in seen.values():
        assert step == STEPS
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)


def test_a_backup_worker_s_gradient_is_dropped():
    """Two of three are aggregated; the third arrives after its step."""
    with LocalCluster(num_ps=1, num_workers=3) as cluster, ExitStack() as stack:
        replicas = []
        for task in range(3):
            with tf.Graph().as_default():
                setter = tf.train.replica_device_setter(
                    ps_tasks=1, worker_device=f"/job:worker/task:{task}"
                )
                with tf.device(setter):
                    model = Model(lambda opt: tf.train.SyncReplicasOptimizer(opt, 2, 3))
                optimizer = model.optimizer
                tokens = optimizer.get_init_tokens_op()
                init = tf.global_variables_initializer()
                session = stack.enter_context(tf.Session(cluster.target("worker", task)))
                replicas.append((model, session))
            if task == 0:
                session.run(init)
                session.run(optimizer.chief_init_op)
                session.run(tokens)
                coord = tf.train.Coordinator()
                runner = optimizer.get_chief_queue_runner()
                threads = runner.create_threads(session, coord, daemon=True, start=True)
            else:
                session.run(optimizer.local_step_init_op)
        for model, session in replicas[:2]:
            session.run(model.train, model.feed(slice(None)))
        model, session = replicas[2]
        pause = threading.Event()
        while session.run(model.step) < 1:
            pause.wait(0.01)
        before = session.run(model.w)
        session.run(model.train, model.feed(slice(0, 1)))
        (handle,) = (
            op.outputs[0]
            for op in model.w.graph.get_operations()
            if op.type == "ConditionalAccumulator"
        )
        with model.w.graph.as_default():
            base = tf.ConditionalAccumulatorBase(tf.float32, [3, 1], handle)
            assert session.run(base.num_accumulated()) == 0
        after, step = session.run([model.w, model.step])
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=DEADLINE_S)
    assert step == 1
    np.testing.assert_array_equal(after, before)
    with tf.Graph().as_default(), tf.Session() as session:
        once = Model()
        session.run(tf.global_variables_initializer())
        session.run(once.train, once.feed(slice(None)))
        np.testing.assert_allclose(before, session.run(once.w), rtol=1e-6)


def test_a_replica_that_is_killed_while_it_waits_takes_no_token():
    """Its run is parked at the parameter server, without a thread: nothing of it stays there."""
    with LocalCluster(num_ps=1, num_workers=2, processes=True) as cluster, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            tokens = tf.FIFOQueue(-1, [tf.int64], [[]], shared_name="tokens")
            given = tf.placeholder(tf.int64, [None])
            put, taken, size = tokens.enqueue_many([given]), tokens.dequeue(), tokens.size()
        with ExitStack() as stack:
            sessions = []
            for task in (0, 1):
                filters = ["/job:ps", f"/job:worker/task:{task}"]
                config = tf.ConfigProto(device_filters=filters)
                sessions.append(tf.Session(cluster.target("worker", task), config=config))
            stack.callback(sessions[0].close)
            found, failed = [], []

            def take(task):
                try:
                    found.append((task, int(sessions[task].run(taken))))
                except tf.errors.OpError as error:
                    failed.append(error)

            for number in range(3):  # so that they know the step, and run it over the channel
                for session in sessions:
                    session.run(put, {given: [number]})
                    assert session.run(taken) == number
            killed = threading.Thread(target=take, args=(1,), daemon=True)
            killed.start()
            pause = threading.Event()
            pause.wait(0.3)
            left = threading.Thread(target=take, args=(0,), daemon=True)
            left.start()
            pause.wait(0.3)
            cluster.kill("worker", 1)
            killed.join(DEADLINE_S)
            assert len(failed) == 1
            sessions[0].run(put, {given: [7]})
            left.join(DEADLINE_S)
            assert found == [(0, 7)]
            assert sessions[0].run(size) == 0
            with suppress(tf.errors.UnavailableError):
                sessions[1].close()


def test_stale_gradients_are_dropped_by_step():
    accumulator = tf.ConditionalAccumulator(tf.float32, [], shared_name="w/grad_accum")
    early, late = accumulator.apply_grad(1.0, 3), accumulator.apply_grad(5.0, 4)
    with tf.Session() as session:
        session.run(accumulator.set_global_step(4))
        session.run([early, late])
        assert session.run(accumulator.num_accumulated()) == 1
        assert session.run(accumulator.take_grad(1)) == 5
        session.run(late)  # taking ended step 4
        assert session.run(accumulator.num_accumulated()) == 0


def test_what_must_be_called_first():
    w = tf.Variable([1.0])
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(0.1), 3, 2)
    with pytest.raises(ValueError, match="after apply_gradients"):
        optimizer.get_chief_queue_runner()
    with pytest.raises(ValueError, match="after apply_gradients"):
        optimizer.get_init_tokens_op()
    with pytest.raises(ValueError, match="should be called before using the hook"):
        optimizer.make_session_run_hook(True).begin()
    with pytest.raises(ValueError, match="at least one variable"):
        optimizer.apply_gradients([], step)
    with pytest.raises(ValueError, match="required to check staleness"):
        optimizer.minimize(tf.reduce_sum(w))
    optimizer.minimize(tf.reduce_sum(w), global_step=step)
    with pytest.raises(ValueError, match=r"Too few tokens .*: 0 \(given\) vs 1 \(needed\)"):
        optimizer.get_init_tokens_op(0)
    assert optimizer.get_init_tokens_op(1).type == "QueueEnqueueManyV2"
    assert optimizer.get_slot_names() == ["m", "v"]
    assert optimizer.get_slot(w, "m") is not None
    assert {v.op.name for v in optimizer.variables()} >= {"beta1_power", "beta2_power"}


def test_where_things_are():
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:3")):
        model = Model(lambda opt: tf.train.SyncReplicasOptimizer(opt, 2))
    graph = tf.get_default_graph()
    (local_step,) = tf.local_variables()
    assert local_step.name == "sync_rep_local_step:0"
    assert local_step.device == "/job:worker/task:3"
    (accumulator,) = [op for op in graph.get_operations() if op.type == "ConditionalAccumulator"]
    assert accumulator.device == model.w.device
    assert accumulator.get_attr("shared_name") in (b"w:0/grad_accum", "w:0/grad_accum")
    queues = [op for op in graph.get_operations() if op.type == "FIFOQueueV2"]
    assert {queue.device for queue in queues} == {model.step.device}


def test_the_chief_takes_one_mean_after_the_other():
    """Threads that wait concurrently would wake once for each variable and step."""
    weights = [tf.Variable(np.ones([2], np.float32), name=f"w{i}") for i in range(4)]
    table = tf.Variable(np.ones([4, 2], np.float32))
    step = tf.train.get_or_create_global_step()
    loss = tf.add_n([tf.reduce_sum(w) for w in weights]) + tf.reduce_sum(tf.gather(table, [1]))
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), 1)
    optimizer.minimize(loss, global_step=step)
    (sync_op,) = optimizer.get_chief_queue_runner().enqueue_ops
    whole = import_graph(tf.get_default_graph().as_graph_def())
    (part,) = partition(prune(whole, [], [], [sync_op.name]))
    assert not part.waits
    places = {node.op: [] for node in part.nodes}
    for place, node in enumerate(part.nodes):
        places[node.op].append(place)
    takes = places["AccumulatorTakeGradient"] + places["SparseAccumulatorTakeGradient"]
    updates = places["ApplyGradientDescent"] + places["ScatterSub"]
    assert (len(takes), len(updates)) == (5, 5)
    assert max(takes) < min(updates)


def test_averages_follow_the_update():
    w = tf.Variable([0.0])
    step = tf.train.get_or_create_global_step()
    averages = tf.train.ExponentialMovingAverage(0.5)
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(1.0),
        1,
        variable_averages=averages,
        variables_to_average=[w],
    )
    train = optimizer.minimize(tf.reduce_sum(w), global_step=step)
    hook = optimizer.make_session_run_hook(True, num_tokens=0)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(train)
        raw = session._tf_sess()
        waited = threading.Event()
        while raw.run(averages.average(w)) == 0:
            waited.wait(0.01)
        assert raw.run([w, averages.average(w)]) == [[-1.0], [-0.5]]


def test_sparse_gradients_are_aggregated():
    table = tf.Variable(np.zeros([4, 2], np.float32))
    step = tf.train.get_or_create_global_step()
    rows = tf.gather(table, [1, 3, 1])
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), 1)
    train = optimizer.minimize(tf.reduce_sum(rows), global_step=step)
    hook = optimizer.make_session_run_hook(True, num_tokens=0)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(train)
        np.testing.assert_array_equal(session.run(table), [[0, 0], [-2, -2], [0, 0], [-1, -1]])
