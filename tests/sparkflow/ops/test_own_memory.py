"""User-defined ops may return any memory: nothing that was read changes afterwards.

Each op is compared with one that does the same but copies, which no planner can misunderstand, in
every way that a graph can run.
"""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime import dtypes
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.testing.local_cluster import LocalCluster

BUFFER = np.arange(16.0, dtype=np.float32).reshape(4, 4)
BUFFER.flags.writeable = False


class _Square(Op):
    """[4, 4] to [4, 4]."""

    inputs = "x: T"
    outputs = "y: T"
    attrs = {"T": type_attr(frozenset({dtypes.float32}))}  # noqa: RUF012
    kernels = {"CPU": None}  # noqa: RUF012

    def infer(self, node):
        return [node.shapes[0]] * len(self.signature.outputs)

    def gradient(self, g, op, *grads):
        return [grads[0]]


class Reversed(_Square):
    def compute(self, xp, x):
        return x[::-1]


class Same(_Square):
    def compute(self, xp, x):
        return x


class Turned(_Square):
    def compute(self, xp, x):
        return x.T


class Broadcast(_Square):
    def compute(self, xp, x):
        return np.broadcast_to(x[1], x.shape)  # stride 0, read-only


class ReadOnly(_Square):
    def compute(self, xp, x):
        view = x[:]
        view.flags.writeable = False
        return view


class Sometimes(_Square):
    """Which memory is returned depends on the values."""

    def compute(self, xp, x):
        return x if x[0, 0] > 0 else -x


class Largest(_Square):
    """The start of the view depends on the values."""

    def compute(self, xp, x):
        row = int(np.argmax(x[:, 0]))
        return np.lib.stride_tricks.as_strided(x[row], (4, 4), (0, x.strides[1]), writeable=False)


class Global(_Square):
    def compute(self, xp, x):
        return BUFFER[::-1]


class Twice(_Square):
    """One array as two outputs."""

    outputs = "y: T, z: T"

    def compute(self, xp, x):
        view = x[::-1]
        return view, view


class Halves(_Square):
    """Two views that overlap."""

    outputs = "y: T, z: T"

    def compute(self, xp, x):
        return x[::-1], x.T


class Delayed(_Square):
    """The input of the previous step: it keeps a reference between steps."""

    stateful = True

    def __init__(self):
        super().__init__()
        self._before = {}

    def bind(self, node, context):
        def run(x):
            before = self._before.get(node.name, np.zeros_like(x))
            self._before[node.name] = self.kept(x)
            return before

        return run

    @staticmethod
    def kept(x):
        return x


class Said(Reversed):
    aliases = frozenset({"x"})


class SaidView(Said):
    is_view = True


OPS = [
    *(Reversed, Same, Turned, Broadcast, ReadOnly, Sometimes, Largest, Global, Twice, Halves),
    *(Delayed, Said, SaidView),
]


def copying(op):
    """Returns the same op with its own outputs."""
    if op is Delayed:
        members = {"kept": staticmethod(np.copy), "aliases": frozenset()}
    else:

        def compute(self, xp, x):
            made = op.compute(self, xp, x.copy())
            return tuple(map(np.copy, made)) if isinstance(made, tuple) else made.copy()

        members = {"compute": compute, "aliases": frozenset(), "is_view": False}
    return type(f"Copying{op.__name__}", (op,), members)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_OPS", {op.op_type: op for op in registry.all_ops()})


def first(made):
    """Returns one tensor that depends on every output."""
    return made[0] + 10.0 * made[1] if isinstance(made, tuple | list) else made


def products(own, x):
    """Its input lives in the plan's memory, and is released before the output."""
    seen = own(tf.matmul(x, x))
    with tf.control_dependencies(list(seen) if isinstance(seen, tuple) else [seen]):
        later = tf.matmul(tf.matmul(tf.matmul(x, x + 1.0), x), x)
    fused = own(tf.tanh(later) + 1.0)
    both = tf.matmul(tf.exp(-later * later), later)
    return [first(seen) + 0.0 * both, both, first(fused) - 0.0 * both]


def updates(own, x):
    """The variable is updated after it was read."""
    v = tf.get_variable("v", initializer=np.arange(16, dtype=np.float32).reshape(4, 4))
    seen = first(own(v))
    once_more = first(own(tf.identity(v) + 0.0))
    with tf.control_dependencies([seen, once_more]):
        update = tf.assign_add(v, 0.0 * x + 100.0)
    with tf.control_dependencies([update]):
        return [tf.identity(seen), seen, once_more + 1.0, first(own(v.read_value()))]


def fetched_directly(own, x):
    """Fetched values must not change in later steps."""
    v = tf.get_variable("w", initializer=np.ones((4, 4), np.float32))
    seen = first(own(v))
    with tf.control_dependencies([seen]):
        return [seen, tf.assign_sub(v, 0.5 * x), first(own(x)), x * 2.0]


def loop(own, x):
    """In the body of a loop, whose variables it passes on."""
    return tf.while_loop(
        lambda i, a, b: i < 4,
        lambda i, a, b: (i + 1, first(own(b)) + 0.0 * a, first(own(a * 0.5 + b))),
        [tf.constant(0), x, x + 1.0],
    )[1:]


def loop_of_variable(own, x):
    """A loop that receives a variable's value and passes it on, before the variable changes."""
    v = tf.get_variable("u", initializer=np.arange(16, dtype=np.float32).reshape(4, 4))
    _, seen = tf.while_loop(
        lambda i, a: i < 2, lambda i, a: (i + 1, first(own(a))), [tf.constant(0), v.read_value()]
    )
    with tf.control_dependencies([seen]):
        update = tf.assign_add(v, x)
    with tf.control_dependencies([update]):
        return [tf.identity(seen), seen + 1.0]


def branches(own, x):
    """In a branch that passes on a variable's value, and one that changes the variable itself."""
    v = tf.get_variable("t", initializer=np.arange(16, dtype=np.float32).reshape(4, 4))
    read = first(own(v))

    def change():
        with tf.control_dependencies([tf.assign_add(v, x + 7.0)]):
            return tf.identity(read)

    seen = tf.cond(x[0, 0] > -100.0, change, lambda: x)
    kept = tf.cond(x[0, 0] > -100.0, lambda: first(own(v.read_value())), lambda: x)
    with tf.control_dependencies([seen, kept]):
        update = tf.assign_sub(v, 0.5 * x)
    with tf.control_dependencies([update]):
        return [tf.identity(seen), tf.identity(kept), kept * 2.0]


def trained(own, x):
    """An optimizer's updates between the uses."""
    v = tf.get_variable("s", initializer=np.full((4, 4), 0.1, np.float32))
    seen = first(own(v))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.square(v - x)))
    with tf.control_dependencies([train]):
        return [tf.identity(seen), seen * 2.0]


GRAPHS = [products, updates, fetched_directly, loop, loop_of_variable, branches, trained]


def steps(build, op, run, target=""):
    """Returns the values of four steps, read only after the last one."""
    with tf.Graph().as_default(), tf.name_scope(op.__name__):
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, [4, 4])
        with tf.variable_scope(op.__name__):
            fetches = build(tf.register_op(op), x)
        fetches = [each for each in fetches if each is not None]
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            found = []
            for number in range(4):
                values = np.random.RandomState(number).rand(4, 4).astype(np.float32) - 0.1 * number
                found.append(run(session, fetches, x, values))
            return [np.array(each) for each in found]


def plainly(session, fetches, x, values):
    return session.run(fetches, {x: values})


def partially(session, fetches, x, values):
    handle = session.partial_run_setup(fetches, [x])
    got = session.partial_run(handle, fetches[0], {x: values})
    return [got, *session.partial_run(handle, fetches[1:])]


_wanted = {}


def compare(build, op, run, target="", placed=None):
    """Compares steps run in some way with those of the copying op, run plainly in one process."""
    found = steps(placed or build, op, run, target)
    if (build, op) not in _wanted:
        _wanted[build, op] = steps(build, copying(op), plainly)
    for one, other in zip(found, _wanted[build, op], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.usefixtures("plans_at_once")
@pytest.mark.parametrize("run", [plainly, partially], ids=lambda each: each.__name__)
@pytest.mark.parametrize("op", OPS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("build", GRAPHS, ids=lambda each: each.__name__)
def test_no_value_changes_once_it_is_read(build, op, run):
    compare(build, op, run)


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(num_ps=1, num_workers=1) as started:
        yield started


@pytest.fixture
def worker(cluster):
    """The target of a worker; nothing of the test stays in the cluster."""
    target = cluster.target("worker", 0)
    yield target
    tf.Session.reset(target)


@pytest.mark.parametrize("op", OPS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("build", GRAPHS, ids=lambda each: each.__name__)
def test_nor_on_another_task(build, op, worker):
    """Variables on a parameter server, which lends them to a worker with a different name."""

    def placed(own, x):
        with tf.device("/job:worker/task:0"):
            x = x * 1.0
        with tf.device(tf.train.replica_device_setter(ps_tasks=1)):
            return build(own, x)

    compare(build, op, plainly, worker, placed)


def test_what_a_fold_gives_is_not_the_ops_own_memory():
    """Two nodes whose op fills the same array each time."""
    buffer = np.zeros((4, 4), np.float32)

    class Filling(_Square):
        def compute(self, xp, x):
            return np.multiply(x, 2, out=buffer)

    filling = tf.register_op(Filling)
    with tf.Graph().as_default(), tf.Session() as session:
        one, other = filling(tf.ones([4, 4])), filling(tf.fill([4, 4], 3.0))
        assert session.run([one[0, 0], other[0, 0]]) == [2.0, 6.0]


@pytest.mark.parametrize("stateful", [True, False])
def test_what_a_python_function_keeps_and_returns_stays_as_it_is(stateful):
    kept = []

    def keep(value):
        kept.append(value)
        return value

    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=np.ones(3, np.float32))
        seen = tf.py_func(keep, [v], tf.float32, stateful=stateful)
        computed = tf.py_func(keep, [v * 3.0], tf.float32, stateful=stateful)
        with tf.control_dependencies([seen, computed]):
            update = tf.assign_add(v, [1.0, 1.0, 1.0])
        with tf.control_dependencies([update]):
            after = tf.identity(seen)
        session.run(v.initializer)
        fetched = [session.run([seen, after, computed, update]) for _ in range(3)]
    for number, (one, two, three, _) in enumerate(fetched, 1):
        assert one.tolist() == two.tolist() == [number] * 3
        assert three.tolist() == [3 * number] * 3
    assert sorted(each[0] for each in kept) == [1, 2, 3, 3, 6, 9]


def test_what_an_array_of_tensors_was_given_stays_as_it_is():
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=np.ones((2, 3), np.float32))
        array = tf.TensorArray(tf.float32, 3, clear_after_read=False).write(0, v).write(1, v * 2.0)
        array = array.write(2, tf.identity(v))
        rows = tf.TensorArray(tf.float32, 2).unstack(v)
        first_read = array.read(0)
        with tf.control_dependencies([first_read, rows.flow]):
            update = tf.assign_add(v, tf.ones([2, 3]))
        with tf.control_dependencies([update]):
            fetches = [array.read(0), tf.identity(first_read), array.stack(), rows.stack()]
        session.run(v.initializer)
        for number in (1, 2, 3):
            one, two, all_of_them, again = session.run(fetches)
            assert one[0, 0] == two[0, 0] == again[1, 2] == number
            assert all_of_them[:, 0, 0].tolist() == [number, 2 * number, number]


def test_a_queue_keeps_the_value_that_was_put_in():
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=np.ones(3, np.float32))
        queue = tf.FIFOQueue(10, tf.float32, [[3]])
        put, update, taken = queue.enqueue(v), tf.assign_add(v, [1.0, 1.0, 1.0]), queue.dequeue()
        session.run(v.initializer)
        session.run(put)
        session.run(update)
        session.run(put)
        assert [session.run(taken)[0] for _ in range(2)] == [1, 2]


def test_printing_hands_on_what_it_was_given(capfd):
    """tf.Print passes on its input: the plan must not reuse that memory."""
    x = np.random.RandomState(0).rand(64, 64).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.float32, [64, 64])
        seen = tf.Print(tf.matmul(fed, fed), [fed], first_n=1)
        with tf.control_dependencies([seen]):
            later = tf.matmul(tf.matmul(tf.matmul(fed, fed + 1.0), fed), fed)
        value, _ = session.run([seen + 0.0 * later, later], {fed: x})
    np.testing.assert_allclose(value, x @ x, rtol=1e-4)
    assert "[0.5488" in capfd.readouterr().err
