"""Variables stored as bfloat16: updates in float32, rounded once, stochastically or to nearest."""

import numpy as np
import pytest

import sparkflow as tf

ROWS, WIDTH = 40, 6
OPTIMIZERS = {
    "gradient descent": lambda: tf.train.GradientDescentOptimizer(0.5),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.5),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(1.0),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
    "lazy adam": lambda: tf.contrib.opt.LazyAdamOptimizer(0.05),
    "adamax": lambda: tf.contrib.opt.AdaMaxOptimizer(0.05),
    "nadam": lambda: tf.contrib.opt.NadamOptimizer(0.05),
    "adamw": lambda: tf.contrib.opt.AdamWOptimizer(1e-4, 0.05),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.02),
    "centred rmsprop": lambda: tf.train.RMSPropOptimizer(0.02, centered=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.5),
    "proximal adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.5),
    "add sign": lambda: tf.contrib.opt.AddSignOptimizer(0.02),
}


@pytest.fixture(autouse=True)
def _graph():
    tf.reset_default_graph()


def values(seed=0):
    return np.random.default_rng(seed).standard_normal((ROWS, WIDTH)).astype(np.float32)


def trained(optimizer, dtype, sparse, resource, steps=60, rounding=None):
    """Returns the losses of some steps, and the global variables after them."""
    tf.reset_default_graph()
    tf.set_random_seed(3)
    table = tf.get_variable(
        "table",
        initializer=tf.cast(tf.constant(values()), dtype),
        use_resource=resource,
    )
    if rounding:
        tf.train.set_rounding(table, rounding)
    ids = np.array([3, 7, 7, 0, 39, 3, 21])
    rows = tf.nn.embedding_lookup(table, ids) if sparse else tf.identity(table)
    wanted = values(1)[ids] if sparse else values(1)
    loss = tf.reduce_mean(tf.square(tf.cast(rows, tf.float32) - wanted))
    train = optimizer().minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train])[0] for _ in range(steps)]
        held = {each.name: session.run(each) for each in tf.global_variables()}
    return losses, held


@pytest.mark.parametrize("name", list(OPTIMIZERS))
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "rows"])
@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_training_goes_as_in_float32(name, sparse, resource):
    expected, _ = trained(OPTIMIZERS[name], tf.float32, sparse, resource)
    losses, held = trained(OPTIMIZERS[name], tf.bfloat16, sparse, resource)
    assert held["table:0"].dtype.name == "bfloat16"
    assert {each.dtype for key, each in held.items() if key != "table:0"} <= {np.dtype("float32")}
    np.testing.assert_allclose(losses, expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "rows"])
def test_rows_without_a_gradient_stay(sparse):
    _, held = trained(OPTIMIZERS["adagrad"], tf.bfloat16, True, False, steps=3)
    start = values().astype(held["table:0"].dtype)
    rest = np.setdiff1d(np.arange(ROWS), [0, 3, 7, 21, 39])
    np.testing.assert_array_equal(held["table:0"][rest], start[rest])


def small_steps(rounding, seed=1):
    """Makes 1,000 steps of 1/1000 from 256 ones; the next bfloat16 after 1 is 1 + 1/128."""
    tf.reset_default_graph()
    tf.set_random_seed(seed)
    table = tf.get_variable("table", initializer=tf.ones([256, 4], tf.bfloat16))
    if rounding:
        tf.train.set_rounding([table], rounding)
    loss = -tf.reduce_sum(tf.cast(table, tf.float32))
    train = tf.train.GradientDescentOptimizer(1e-3).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(1000):
            session.run(train)
        return session.run(table).astype(np.float32)


def test_small_steps_count_by_chance_and_are_lost_to_the_nearest():
    np.testing.assert_allclose(small_steps(None).mean(), 2, atol=0.01)
    np.testing.assert_allclose(small_steps("stochastic").std(), 0.088, rtol=0.2)
    np.testing.assert_array_equal(small_steps("nearest"), 1)


def test_a_seed_makes_it_reproducible():
    np.testing.assert_array_equal(small_steps(None, 5), small_steps(None, 5))
    assert (small_steps(None, 5) != small_steps(None, 6)).any()


def test_wrong_gradients_are_refused_and_nothing_changes():
    table = tf.get_variable("table", initializer=tf.ones([4, 2], tf.bfloat16))
    place = tf.placeholder(tf.int64, [None])
    rows = tf.cast(tf.nn.embedding_lookup(table, place), tf.float32)
    optimizer = tf.train.AdagradOptimizer(0.1)
    ((slices, _),) = optimizer.compute_gradients(tf.reduce_sum(rows))
    wrong = tf.IndexedSlices(slices.values, slices.indices + 3, slices.dense_shape)
    train = optimizer.apply_gradients([(wrong, table)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
            session.run(train, {place: [1, 2]})
        assert (session.run(table) == 1).all()


@pytest.mark.parametrize(
    ("variable", "rounding", "error"),
    [
        (lambda: tf.get_variable("v", [2], tf.bfloat16), "up", ValueError),
        (lambda: tf.get_variable("v", [2], tf.float32), "nearest", ValueError),
        (lambda: tf.constant(1.0), "nearest", TypeError),
        (lambda: "v", "nearest", TypeError),
    ],
)
def test_what_cannot_be_rounded(variable, rounding, error):
    with pytest.raises(error):
        tf.train.set_rounding(variable(), rounding)


def test_parts_of_a_partitioned_table():
    table = tf.get_variable("table", [10, 4], tf.bfloat16, partitioner=tf.fixed_size_partitioner(3))
    tf.train.set_rounding(table, "nearest")
    rows = tf.nn.embedding_lookup(table, [1, 5, 9])
    loss = tf.reduce_sum(tf.square(tf.cast(rows, tf.float32) - 1))
    train = tf.train.AdagradOptimizer(0.3).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train])[0] for _ in range(100)]
    assert losses[-1] < 0.01 * losses[0]


def test_checkpoints_keep_the_table_and_its_slots(tmp_path):
    table = tf.get_variable("table", [10, 4], tf.bfloat16)
    rows = tf.cast(tf.nn.embedding_lookup(table, [1, 5]), tf.float32)
    train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows - 1)))
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        saver.save(session, str(tmp_path / "model"))
        before = session.run(tf.global_variables())
        session.run(train)
        saver.restore(session, str(tmp_path / "model"))
        for old, new in zip(before, session.run(tf.global_variables()), strict=True):
            assert old.dtype == new.dtype
            np.testing.assert_array_equal(old, new)


NARROW = [tf.float16, tf.bfloat16]


@pytest.mark.parametrize("dtype", NARROW, ids=lambda each: each.name)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "rows"])
def test_gradients_of_many_batches_are_added_up(dtype, sparse):
    """300 of 1, in batches of 15 rows: 256 + 1 is 256 in bfloat16."""
    table = tf.get_variable("table", initializer=tf.zeros([4, 3], dtype))
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    optimizer = tf.train.GradientAccumulationOptimizer(optimizer, 300, tf.constant(15.0))
    rows = tf.nn.embedding_lookup(table, [1, 2]) if sparse else table[1:3]
    train = optimizer.minimize(tf.reduce_sum(tf.cast(rows, tf.float32)))
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for _ in range(300):
            session.run(train)
        changed = session.run(table).astype(np.float32)
    np.testing.assert_allclose(changed[:, 0], [0, -1, -1, 0], rtol=0.02)


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_averages_of_variables_move(resource):
    """By a thousandth of the distance per step, which is less than their last place."""
    tf.set_random_seed(1)
    table = tf.get_variable(
        "table", initializer=tf.ones([64, 4], tf.bfloat16), use_resource=resource
    )
    average = tf.train.ExponentialMovingAverage(0.999)
    update = average.apply([table])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.assign(table, tf.fill([64, 4], tf.cast(3.0, tf.bfloat16))))
        for _ in range(500):
            session.run(update)
        found = session.run(average.average(table))
    assert found.dtype.name == "bfloat16"
    np.testing.assert_allclose(found.astype(np.float32).mean(), 3 - 2 * 0.999**500, rtol=0.005)


@pytest.mark.parametrize("zero_debias", [False, True])
def test_averages_of_tensors_go_as_in_float32(zero_debias):
    value = tf.cast(tf.constant([1.0, 2.0]), tf.bfloat16)
    average = tf.train.ExponentialMovingAverage(0.9, zero_debias=zero_debias)
    update = average.apply([value])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(7):
            session.run(update)
        found = session.run(average.average(value))
    assert found.dtype.name == "bfloat16"
    expected = np.array([1, 2]) * (1 if zero_debias else 1 - 0.9**7)
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=0.02)
