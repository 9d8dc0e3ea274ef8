"""Training on a GPU: on a stand-in that runs the same launches on the CPU, and on a real GPU."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.compiler.card import CardCompiler
from sparkflow_runtime.device.gpu_graph import RUNS_BEFORE
from support import cuda_emulator, fake_cupy

STEPS = 12
needs_compiler = pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cuda")


@pytest.fixture
def plans(monkeypatch):
    """Records the plans created for a GPU."""
    made = []
    plan = CardCompiler.plan

    def noted(self, shapes):
        made.append(plan(self, shapes))
        return made[-1]

    monkeypatch.setattr(CardCompiler, "plan", noted)
    return made


def network(device, optimizer, seed=0):
    """A classifier of 20 numbers as one of 5; returns what a step needs."""
    rng = np.random.default_rng(seed)
    graph = tf.Graph()
    with graph.as_default(), tf.device(device):
        x = tf.placeholder(tf.float32, [None, 20], name="x")
        labels = tf.placeholder(tf.int32, [None], name="labels")
        hidden = tf.Variable((rng.normal(size=(20, 16)) * 0.3).astype(np.float32))
        bias = tf.Variable(np.zeros(16, np.float32))
        last = tf.Variable((rng.normal(size=(16, 5)) * 0.3).astype(np.float32))
        logits = tf.matmul(tf.nn.relu(tf.matmul(x, hidden) + bias), last)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        step = optimizer().minimize(loss)
        start = tf.global_variables_initializer()
    return graph, x, labels, loss, step, start, [hidden, bias, last]


def batches(steps):
    rng = np.random.default_rng(3)
    for _ in range(steps):
        x = rng.normal(size=(8, 20)).astype(np.float32)
        yield x, rng.integers(0, 5, 8).astype(np.int32)


def train(device, optimizer, steps=STEPS):
    """Returns the losses, and the variables after the last step."""
    graph, x, labels, loss, step, start, variables = network(device, optimizer)
    with tf.Session(graph=graph) as session:
        session.run(start)
        losses = [
            session.run([loss, step], {x: one, labels: other})[0] for one, other in batches(steps)
        ]
        return losses, session.run(variables)


OPTIMIZERS = {
    "gradient descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "rms": lambda: tf.train.RMSPropOptimizer(0.01),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
}


@needs_compiler
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_on_the_stand_in_is_training_on_the_cpu(name, folder, plans):
    losses, variables = train("/cpu:0", OPTIMIZERS[name])
    with fake_cupy.installed(folder) as cupy:
        found, there = train("/gpu:0", OPTIMIZERS[name])
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    for one, other in zip(there, variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    steady = [plan.steady for plan in plans if plan.late]  # the training step
    assert [each.refusal for each in steady] == [""]
    before = RUNS_BEFORE
    assert steady[0].replays == STEPS - before - 1
    assert cupy.graph_launches == STEPS - before


@needs_compiler
def test_partitions_have_streams_of_their_own_and_the_pool_of_their_gpu(folder):
    with fake_cupy.installed(folder) as cupy:
        train("/gpu:0", OPTIMIZERS["gradient descent"], steps=2)
    pools = {id(pool) for pool in cupy.allocations}
    default = id(cupy.default_pool)
    assert len(pools - {default}) == 1


@needs_compiler
def test_without_nvmath_nothing_with_products_is_recorded(folder, plans):
    expected = train("/cpu:0", OPTIMIZERS["momentum"])[0]
    with fake_cupy.installed(folder, with_nvmath=False):
        losses = train("/gpu:0", OPTIMIZERS["momentum"])[0]
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    (steady,) = [plan.steady for plan in plans if plan.late]
    assert "cuBLAS API during stream capture" in steady.refusal


@needs_compiler
def test_labels_out_of_range_are_found_after_the_step(folder):
    with fake_cupy.installed(folder):
        graph, x, labels, loss, step, start, _ = network("/gpu:0", OPTIMIZERS["adam"])
        with tf.Session(graph=graph) as session:
            session.run(start)
            for one, other in batches(STEPS):
                session.run([loss, step], {x: one, labels: other})
            with pytest.raises(
                tf.errors.InvalidArgumentError, match="detected only after the step"
            ):
                session.run([loss, step], {x: one, labels: other + 5})
            session.run([loss, step], {x: one, labels: other})


@needs_compiler
def test_a_trace_of_a_step_on_a_gpu(folder):
    with fake_cupy.installed(folder):
        graph, x, labels, loss, step, start, _ = network("/gpu:0", OPTIMIZERS["adam"])
        with tf.Session(graph=graph) as session:
            session.run(start)
            metadata = tf.RunMetadata()
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            one, other = next(batches(1))
            session.run([loss, step], {x: one, labels: other}, options, metadata)
    names = {stats.device.rpartition("/")[2] for stats in metadata.step_stats.dev_stats}
    assert "device:GPU:0" in names


def loop(rng):
    """The gradient of a loop: plans of functions, arrays saved for the gradient."""
    weights = tf.Variable(rng.normal(size=(8, 8)).astype(np.float32))
    start = [tf.constant(0), tf.constant(rng.normal(size=(6, 8)).astype(np.float32))]
    _, last = tf.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, tf.tanh(tf.matmul(x, weights))), start
    )
    loss = tf.reduce_mean(last)
    return [loss, *tf.gradients(loss, [weights])]


def embedding(rng):
    """Rows of a table and their updates; the same row twice."""
    table = tf.Variable(rng.normal(size=(20, 4)).astype(np.float32))
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, tf.constant([1, 3, 3, 7])) ** 2)
    return [loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)]


def layer_norm(rng):
    """Reductions within rows, and their gradients over columns."""
    shift = tf.Variable(rng.normal(size=8).astype(np.float32))
    x = tf.constant(rng.normal(size=(6, 8)).astype(np.float32)) + shift
    mean, variance = tf.nn.moments(x, [1], keep_dims=True)
    result = (x - mean) * tf.rsqrt(variance + 1e-3)
    return [result, *tf.gradients(tf.reduce_sum(result**3), [shift])]


def pieces(rng):
    """Other parts of convolutional networks, and their gradients."""
    images = tf.Variable(rng.normal(size=(2, 6, 6, 4)).astype(np.float32))
    filters = tf.Variable(rng.normal(size=(3, 3, 4, 1)).astype(np.float32))
    x = tf.pad(images, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")
    x = tf.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "VALID")
    x = tf.concat([x, tf.nn.lrn(x, 2), tf.reverse(x, [2])], 3)
    one, other, last = tf.split(x, 3, 3)
    x = tf.stack([one, tf.tile(other[:, :3], [1, 2, 1, 1]), tf.cumsum(last, 1)])[:, :, ::2]
    x = tf.space_to_depth(tf.pad(x[0], [[0, 0], [0, 1], [0, 0], [0, 0]]), 2)
    return [x, *tf.gradients(tf.reduce_sum(x**2), [images, filters])]


def some_runs(make, device):
    with tf.Graph().as_default(), tf.device(device):
        fetches = make(np.random.default_rng(0))
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run(tf.global_variables_initializer())
            return [[x for x in session.run(fetches) if x is not None] for _ in range(STEPS)]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("make", [loop, embedding, layer_norm, pieces])
def test_other_graphs_on_the_stand_in_are_those_on_the_cpu(make, folder):
    expected = some_runs(make, "/cpu:0")
    with fake_cupy.installed(folder):
        found = some_runs(make, "/gpu:0")
    for one, other in zip(found, expected, strict=True):
        for got, wanted in zip(one, other, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("make", [loop, embedding, layer_norm, pieces])
def test_other_graphs_on_a_card_are_those_on_the_cpu(make):
    for one, other in zip(some_runs(make, "/gpu:0"), some_runs(make, "/cpu:0"), strict=True):
        for got, wanted in zip(one, other, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=2e-3)  # TF32


def train_pictures(device, pool):
    """Returns the losses of a small convolutional network, without feeds."""
    rng = np.random.default_rng(0)
    with tf.Graph().as_default(), tf.device(device):
        pictures = tf.constant(rng.normal(size=(2, 6, 6, 1)).astype(np.float32))
        filters = tf.Variable(rng.normal(size=(3, 3, 1, 4)).astype(np.float32))
        dense = tf.Variable(rng.normal(size=(36, 5)).astype(np.float32))
        hidden = tf.nn.relu(tf.nn.conv2d(pictures, filters, [1, 1, 1, 1], "SAME"))
        hidden = pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        logits = tf.matmul(tf.reshape(hidden, [2, 36]), dense)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 3], logits=logits)
        loss = tf.reduce_mean(losses)
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return [session.run([loss, step])[0] for _ in range(STEPS)]


POOLS = {"maximum": tf.nn.max_pool, "average": tf.nn.avg_pool}


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("pool", POOLS)
def test_a_convolutional_network_on_the_stand_in(pool, folder, plans):
    expected = train_pictures("/cpu:0", POOLS[pool])
    with fake_cupy.installed(folder):
        found = train_pictures("/gpu:0", POOLS[pool])
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert max(plan.steady.replays for plan in plans) == STEPS - RUNS_BEFORE - 1


@pytest.mark.gpu
@pytest.mark.parametrize("pool", POOLS)
def test_a_convolutional_network_on_a_card(pool, plans):
    found = train_pictures("/gpu:0", POOLS[pool])
    np.testing.assert_allclose(found, train_pictures("/cpu:0", POOLS[pool]), rtol=2e-2)
    assert max(plan.steady.replays for plan in plans) == STEPS - RUNS_BEFORE - 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_on_a_card_is_training_on_the_cpu(name, plans):
    losses, variables = train("/cpu:0", OPTIMIZERS[name])
    found, there = train("/gpu:0", OPTIMIZERS[name])
    np.testing.assert_allclose(found, losses, rtol=5e-3)  # TF32
    for one, other in zip(there, variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=0.1, atol=5e-3)
    (steady,) = [plan.steady for plan in plans if plan.late]
    assert steady.refusal == ""
    assert steady.replays > 0
