"""What replicas do if others are slow, dead or gone: sessions on one cluster, without threads.

If a replica would wait for another one, a time limit of 0 makes it fail immediately.
"""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.replication.local_sgd import LocalSgd
from sparkflow.train.replication.staleness import BoundedStaleness
from sparkflow.train.replication.sync import SyncReplication
from sparkflow_runtime.errors import DeadlineExceededError, InvalidArgumentError
from sparkflow_runtime.ir.function_def import import_function
from sparkflow_runtime.ir.graph_def import import_graph
from sparkflow_runtime.passes.functions import ready_functions
from sparkflow_runtime.testing.local_cluster import LocalCluster


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(1, 2) as started:
        yield started


class Program:
    """One replica that trains `w` from 0, with a gradient of -1 and a rate of 1."""

    def __init__(self, cluster, index, strategy_of, name):
        setter = tf.train.replica_device_setter(
            ps_tasks=1, worker_device=f"/job:worker/task:{index}"
        )
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device(setter), tf.variable_scope(name):
            self._step = tf.train.get_or_create_global_step()
            self.strategy = strategy_of(index)
            with self.strategy.scope():
                self.w = tf.get_variable("w", initializer=0.0)
                optimizer = tf.train.GradientDescentOptimizer(1.0)
                self._train = optimizer.minimize(-self.w, global_step=self._step)
            initialise = [tf.global_variables_initializer(), tf.local_variables_initializer()]
        self.session = tf.Session(cluster.target("worker", index), graph=self.graph)
        if index == 0:
            self.session.run(initialise[0])
        self.session.run(initialise[1])
        self.session.run(self.strategy.join_ops)

    def train(self):
        self.session.run(self._train)

    @property
    def state(self):
        w, step = self.session.run([self.w, self._step])
        return float(w), int(step)


@pytest.fixture
def programs(cluster, request):
    """Creates both replicas of a strategy."""
    made = []

    def make(strategy_of):
        # A separate scope, so that no test finds what an earlier one left on the server.
        name = "".join(c if c.isalnum() else "_" for c in request.node.name)
        made.extend(Program(cluster, index, strategy_of, name) for index in range(2))
        return made

    yield make
    for program in made:
        program.session.close()


def sync(**options):
    return lambda index: SyncReplication(replica=index, num_replicas=2, **options)


def test_backup_workers_are_not_waited_for_and_go_on_with_the_newest_step(programs):
    fast, slow = programs(sync(replicas_to_aggregate=1))
    for _ in range(3):
        fast.train()
    assert fast.state == (3.0, 3)
    slow.train()  # for step 0
    assert fast.state == (3.0, 3), "it came too late"
    slow.train()
    assert fast.state == (4.0, 4)


def test_a_replica_that_does_not_come_is_named(programs):
    first, second = programs(sync(timeout_s=0.0))
    with pytest.raises(DeadlineExceededError, match=r"gradients of replica\(s\) 1"):
        first.train()
    with pytest.raises(DeadlineExceededError, match=r"gradients of replica\(s\) 0"):
        second.train()
    assert first.state == (0.0, 0), "a contribution that was given up does not count"


def test_a_replica_that_left_is_not_waited_for(programs):
    first, second = programs(sync(timeout_s=0.0))
    second.session.run(second.strategy.leave_ops)
    first.train()
    first.train()
    assert first.state == (2.0, 2)
    second.session.run(second.strategy.join_ops)
    with pytest.raises(DeadlineExceededError, match=r"replica\(s\) 0"):
        second.train()  # which takes part again


def test_no_replica_is_further_ahead_than_the_bound(programs):
    fast, slow = programs(
        lambda index: BoundedStaleness(2, replica=index, num_replicas=2, timeout_s=0.0)
    )
    fast.train()
    fast.train()
    with pytest.raises(DeadlineExceededError, match=r"made 3 steps .* replica\(s\) 1.* than 2"):
        fast.train()
    for _ in range(2):
        slow.train()
    fast.train()
    assert fast.state == (6.0, 6), "every update was made, the one before the wait, too"


def test_a_replica_that_is_gone_does_not_hold_the_others(programs):
    fast, slow = programs(
        lambda index: BoundedStaleness(0, replica=index, num_replicas=2, timeout_s=0.0)
    )
    with pytest.raises(DeadlineExceededError, match="more than 0 steps behind"):
        fast.train()
    slow.session.run(slow.strategy.leave_ops)
    for _ in range(5):
        fast.train()
    assert fast.state == (6.0, 6)


def test_copies_are_apart_until_they_are_averaged(programs):
    first, second = programs(
        lambda index: LocalSgd(2, replica=index, num_replicas=2, timeout_s=0.0)
    )
    for _ in range(4):
        first.train()
    second.train()
    assert first.state == (4.0, 0)
    assert second.state == (1.0, 0)
    with pytest.raises(DeadlineExceededError, match=r"replica\(s\) 1"):
        first.session.run(first.strategy.average_op)
    second.session.run(second.strategy.leave_ops)
    first.session.run(first.strategy.average_op)
    assert first.state == (4.0, 4)
    assert second.state == (1.0, 4), "its copy is its own"


def test_slots_are_local_to_a_replica_and_may_be_averaged():
    for average_slots in (False, True):
        with tf.Graph().as_default():
            strategy = LocalSgd(1, average_slots=average_slots)
            with strategy.scope():
                w = tf.get_variable("w", initializer=0.0)
                optimizer = tf.train.AdamOptimizer(1.0)
                train_op = optimizer.minimize(-w)
            assert [v.op.name for v in tf.global_variables()] == ["w"]
            assert optimizer.get_slot(w, "m") in tf.local_variables()
            averaged = [
                op for op in tf.get_default_graph().get_operations() if op.type == "ReplicaMean"
            ]
            assert len(averaged[0].get_attr("dense_types")) == (5 if average_slots else 1)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(tf.local_variables_initializer())
                session.run(train_op)
                session.run(strategy.average_op)
                np.testing.assert_allclose(session.run("w/read:0"), 1.0, rtol=1e-6)


def test_local_sgd_refuses_variables_without_copies():
    with tf.Graph().as_default():
        strategy = LocalSgd(1)
        with strategy.scope():
            alone = tf.Variable(0.0, name="alone")
            with pytest.raises(InvalidArgumentError, match="'alone': it has no copies"):
                tf.train.GradientDescentOptimizer(1.0).minimize(alone)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SyncReplication(replica=2, num_replicas=2), "Replica 2 of 2"),
        (lambda: SyncReplication(replicas_to_aggregate=0), "replicas_to_aggregate is 0"),
        (lambda: BoundedStaleness(-1), "staleness is -1"),
        (lambda: LocalSgd(0), "every 0 steps"),
    ],
)
def test_strategies_that_make_no_sense(make, message):
    with tf.Graph().as_default(), pytest.raises(InvalidArgumentError, match=message):
        make()


def test_accumulating_no_batches_makes_no_sense():
    with pytest.raises(ValueError, match="num_batches must be at least 1, got 0"):
        tf.train.GradientAccumulationOptimizer(tf.train.GradientDescentOptimizer(1.0), 0)


def average_gradients(tower_grads):
    """As in TensorFlow's tutorial for several GPUs."""
    average_grads = []
    for grad_and_vars in zip(*tower_grads, strict=True):
        grads = [tf.expand_dims(grad, 0) for grad, _ in grad_and_vars]
        average_grads.append((tf.reduce_mean(tf.concat(grads, 0), 0), grad_and_vars[0][1]))
    return average_grads


def test_towers_in_one_graph_equal_one_process(cluster):
    random = np.random.default_rng(0)
    x_value = random.standard_normal((3, 8, 4)).astype(np.float32)
    y_value = random.standard_normal((3, 8, 1)).astype(np.float32)

    def learned(target, devices, setter):
        with tf.Graph().as_default():
            optimizer = tf.train.AdamOptimizer(0.1)
            x, y = tf.placeholder(tf.float32, [8, 4]), tf.placeholder(tf.float32, [8, 1])
            parts = zip(tf.split(x, len(devices)), tf.split(y, len(devices)), strict=True)
            tower_grads = []
            with tf.variable_scope("towers", reuse=tf.AUTO_REUSE):
                for device, (features, labels) in zip(devices, parts, strict=True):
                    with tf.device(setter(device)):
                        start = tf.constant_initializer(0.5)
                        kernel = tf.get_variable("kernel", [4, 1], initializer=start)
                        error = tf.tanh(tf.matmul(features, kernel)) - labels
                        loss = tf.reduce_mean(tf.square(error))
                        tower_grads.append(optimizer.compute_gradients(loss))
            train_op = optimizer.apply_gradients(average_gradients(tower_grads))
            with tf.Session(target) as session:
                session.run(tf.global_variables_initializer())
                for features, labels in zip(x_value, y_value, strict=True):
                    session.run(train_op, {x: features, y: labels})
                return session.run(kernel)

    alone = learned("", [""], tf.DeviceSpec.from_string)
    towers = learned(
        cluster.target("worker", 0),
        ["/job:worker/task:0", "/job:worker/task:1"],
        lambda device: tf.train.replica_device_setter(ps_tasks=1, worker_device=device),
    )
    np.testing.assert_allclose(towers, alone, rtol=3e-6)


def test_rows_are_updated_without_being_added_up_before():
    with tf.Graph().as_default() as graph:
        with SyncReplication().scope():
            table = tf.get_variable("table", [6, 3])
            rows = tf.nn.embedding_lookup(table, [1, 2, 1])
            tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows))
        message = graph.as_graph_def()
    library = {f.signature.name: import_function(f) for f in message.library.function}
    ready = ready_functions(import_graph(message), library.__getitem__)
    ops = {node.op for function in ready.values() for node in function.body}
    assert "SparseApplyAdagrad" in ops
    assert "Unique" not in ops
