"""Embedding variables: trained like dense tables, sharded, saved, evicted."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster

DIM = 8
BIG = 1 << 45
"""Ids are multiples of it: no dense table could have such rows."""


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(num_ps=3, num_workers=2) as made:
        yield made


@pytest.fixture(autouse=True)
def _fresh():
    with tf.Graph().as_default():
        yield


def normal():
    return tf.random_normal_initializer(seed=5)


def variable(shards=1, **option):
    return tf.get_embedding_variable(
        "emb",
        DIM,
        initializer=normal(),
        partitioner=tf.fixed_size_partitioner(shards) if shards > 1 else None,
        ev_option=tf.EmbeddingVariableOption(**option) if option else None,
    )


OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.5),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "lazy adam": lambda: tf.contrib.opt.LazyAdamOptimizer(0.1),
    "nadam": lambda: tf.contrib.opt.NadamOptimizer(0.1),
    "adamax": lambda: tf.contrib.opt.AdaMaxOptimizer(0.1),
    "add sign": lambda: tf.contrib.opt.AddSignOptimizer(0.1),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
    "centered rmsprop": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
    "proximal": lambda: tf.train.ProximalAdagradOptimizer(0.1),
}
BATCHES = [np.array(b) for b in ([3, 5, 3], [7, 5, 1], [3, 3, 9, 11, 5], [1, 2, 3])]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_that_of_a_dense_table(name, shards):
    keys = np.arange(12)
    growing = variable(shards)
    ids = tf.placeholder(tf.int64, [None])
    start = tf.get_variable("start", [12, DIM], trainable=False)
    dense = tf.get_variable("dense", initializer=tf.zeros([12, DIM]))
    optimizers = OPTIMIZERS[name](), OPTIMIZERS[name]()
    if name in ("adam", "nadam"):  # in a dense table the moments of other rows decay, too
        optimizers = optimizers[0], tf.contrib.opt.LazyAdamOptimizer(0.1)
    slope = tf.range(1.0, DIM + 1)
    trains = [
        optimizer.minimize(tf.reduce_sum(tf.square(tf.nn.embedding_lookup(each, at) * slope - 1)))
        for optimizer, each, at in zip(optimizers, (growing, dense), (ids * BIG, ids), strict=True)
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(growing.lookup(keys * BIG))
        session.run(dense.assign(first))
        session.run(start.assign(first))
        for batch in BATCHES:
            session.run(trains, {ids: batch})
        found, expected = session.run([growing.lookup(keys * BIG, insert=False), dense])
        assert session.run(growing.size()) == 12
    if name not in ("nadam", "add sign"):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    moved = np.unique(np.concatenate(BATCHES))
    assert (found[moved] != first[moved]).any(1).all()
    still = np.setdiff1d(keys, moved)
    np.testing.assert_array_equal(found[still], first[still])


def test_rows_start_the_same_whatever_came_before_and_wherever():
    found = []
    for shards, before in ((1, []), (3, [8, 2]), (2, [1, 2, 3, 4, 5, 6, 7, 8])):
        with tf.Graph().as_default(), tf.Session() as session:
            table = variable(shards)
            session.run(tf.global_variables_initializer())
            if before:
                session.run(table.lookup(np.array(before) * BIG))
            found.append(session.run(table.lookup(np.array([2, 4, 9, 100]) * BIG)))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert len(np.unique(found[0], axis=0)) == 4


@pytest.mark.parametrize("function", ["embedding_lookup_sparse", "safe_embedding_lookup_sparse"])
def test_it_stands_for_a_table_where_rows_are_combined(function):
    table = variable(2)
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([BIG, 7, BIG], tf.int64), [3, 2])
    rows = getattr(tf.nn, function)(table, ids, None, combiner="sum")
    single = table.lookup(tf.constant([BIG, 7], tf.int64))
    grads = tf.gradients(tf.reduce_sum(rows), table.values)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        combined, (first, second), each = session.run([rows, single, grads])
    np.testing.assert_allclose(combined[0], first + second, rtol=1e-6)
    np.testing.assert_allclose(combined[2], first, rtol=1e-6)
    total = sum(grad.values.sum(0) for grad in each)
    np.testing.assert_allclose(total, 3.0 if function.startswith("emb") else total)


def test_texts_and_small_integers_are_ids_too():
    texts = tf.get_embedding_variable("texts", DIM, tf.string, initializer=normal())
    small = tf.get_embedding_variable("small", DIM, tf.int32, tf.float64)
    found = tf.nn.embedding_lookup(texts, [["a", "b"], ["a", "c"]])
    other = tf.nn.embedding_lookup(small, [1, 2])
    assert found.shape.as_list() == [2, 2, DIM]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        rows, numbers = session.run([found, other])
        assert session.run(texts.size()) == 3
    np.testing.assert_array_equal(rows[0, 0], rows[1, 0])
    assert (rows[0, 1] != rows[1, 1]).any()
    assert numbers.dtype == np.float64


def test_norms_may_be_bounded():
    found = tf.nn.embedding_lookup(variable(), tf.constant([1, 2], tf.int64), max_norm=0.5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(np.linalg.norm(session.run(found), axis=1), 0.5, rtol=1e-5)


def test_ids_are_zeros_and_not_trained_until_they_are_admitted():
    table = variable(filter_option=tf.CounterFilter(3))
    ids = tf.placeholder(tf.int64, [None])
    rows = tf.nn.embedding_lookup(table, ids)
    train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows - 1)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, _ = session.run([rows, train], {ids: [4, 4, 9]})
        np.testing.assert_array_equal(found, np.zeros((3, DIM)))
        assert session.run([table.size(), table.statistics()["waiting"]]) == [0, 2]
        found, _ = session.run([rows, train], {ids: [4]})
        assert found.all()
        after = session.run(table.lookup(tf.constant([4, 9], tf.int64), insert=False))
    assert (after[0] != found[0]).all()
    assert not after[1].any()


def test_a_limit_a_life_and_a_norm_take_rows_away():
    full = tf.get_embedding_variable(
        "full", 2, ev_option=tf.EmbeddingVariableOption(capacity=20, evict_by="age")
    )
    aging = tf.get_embedding_variable(
        "aging", 2, ev_option=tf.EmbeddingVariableOption(evict_option=tf.GlobalStepEvict(4))
    )
    short = tf.get_embedding_variable(
        "short",
        1,
        initializer=tf.constant_initializer(0.5),
        ev_option=tf.EmbeddingVariableOption(evict_option=tf.L2WeightEvict(0.75)),
    )
    ids = tf.placeholder(tf.int64, [None])
    rows = [tf.nn.embedding_lookup(each, ids) for each in (full, aging, short)]
    evicted = short.evict()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for start in range(0, 100, 10):
            session.run(rows, {ids: np.arange(start, start + 10)})
        sizes = session.run([full.size(), aging.size(), short.size()])
        assert sizes[0] <= 20
        assert sizes[1] < 70
        assert sizes[2] == 100
        kept, values, counts = session.run(full.export())
        assert set(kept) >= set(range(90, 100))
        assert values.shape == (len(kept), 2)
        assert (counts == 1).all()
        assert session.run(evicted) == 100
        assert session.run(short.size()) == 0


def test_initialising_again_forgets_the_ids():
    table = tf.get_embedding_variable(
        "emb",
        DIM,
        initializer=tf.random_normal_initializer(),
        partitioner=tf.fixed_size_partitioner(2),
        ev_option=tf.EmbeddingVariableOption(initial_rows=1),
    )
    rows = table.lookup(tf.range(20, dtype=tf.int64))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(rows)
        session.run(table.initializer)
        assert session.run(table.size()) == 0
        assert len(np.unique(session.run(rows), axis=0)) == 1  # all shards start from the same rows


@pytest.mark.parametrize(("saved", "restored"), [(1, 1), (3, 2), (2, 3)])
def test_checkpoints_fit_any_number_of_shards(tmp_path, saved, restored):
    ids = np.array([3, 5, 7, 11, 13, 17]) * BIG

    def build(shards):
        table = variable(shards, filter_option=tf.CounterFilter(2))
        fed = tf.placeholder(tf.int64, [None])
        loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, fed) - 1))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss)
        return table, fed, train, tf.train.Saver()

    def run(session, fed, train, *batches):
        for batch in batches:
            session.run(train, {fed: batch})

    table, fed, train, saver = build(saved)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        run(session, fed, train, ids, ids[:4], ids[:3])
        path = saver.save(session, str(tmp_path / "model"))
        run(session, fed, train, ids, ids * 3)
        every = np.concatenate([ids, ids * 3])
        read = table.lookup(every, insert=False)
        expected, size = session.run([read, table.size()])
    with tf.Graph().as_default():
        table, fed, train, saver = build(restored)
        read = table.lookup(every, insert=False)
        with tf.Session() as session:
            saver.restore(session, path)
            assert session.run(table.size()) == 4
            assert session.run(table.statistics()["waiting"]) == 2
            run(session, fed, train, ids, ids * 3)
            found, again = session.run([read, table.size()])
    assert again == size
    np.testing.assert_array_equal(found, expected)
    names = [name for name, _ in tf.train.list_variables(path)]
    assert names == [
        f"emb/{each}" for each in ("ages", "counts", "initial", "keys", "slots/Adagrad", "values")
    ]


def test_shards_on_parameter_servers_train_as_in_one_process(cluster, tmp_path):
    rng = np.random.default_rng(0)
    batches = [rng.integers(0, 50, (8, 2)) * BIG for _ in range(5)]

    def run(target, setter):
        with tf.Graph().as_default(), tf.device(setter):
            table = variable(3)
            ids = tf.placeholder(tf.int64, [None, 2])
            loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids) - 1))
            train = tf.train.AdagradOptimizer(0.1).minimize(loss)
            read = table.lookup(np.arange(50) * BIG, insert=False)
            saver = tf.train.Saver(sharded=bool(target))
            devices = [each.device for each in table.values]
            with tf.Session(target) as session:
                session.run(tf.global_variables_initializer())
                for batch in batches:
                    session.run(train, {ids: batch})
                found = session.run(read)
                path = saver.save(session, str(tmp_path / f"model{bool(target)}"))
                session.run(table.initializer)
                saver.restore(session, path)
                np.testing.assert_array_equal(session.run(read), found)
        return found, devices

    setter = tf.train.replica_device_setter(3)
    found, devices = run(cluster.target("worker", 0), setter)
    expected, _ = run("", None)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len(set(devices)) == 3


def test_monitored_sessions_restore_it(tmp_path):
    def run(steps):
        with tf.Graph().as_default():
            table = variable(2)
            step = tf.train.get_or_create_global_step()
            loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, step * [1, 2, 3])))
            train = tf.train.AdamOptimizer(0.1).minimize(loss, step)
            size = table.size()
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), log_step_count_steps=None
            ) as session:
                for _ in range(steps):
                    session.run(train)
                return session.run(size)

    assert run(2) == 4  # 0; 1, 2, 3
    assert run(1) == 6  # 2, 4, 6


def test_rows_may_travel_narrow(cluster):
    with tf.device(tf.train.replica_device_setter(1)):
        table = variable()
        found = tf.nn.embedding_lookup(table, tf.constant([1, 2], tf.int64))
    tf.train.set_wire_dtype(table.values, tf.bfloat16)
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(tf.global_variables_initializer())
        rows = session.run(found)
    np.testing.assert_array_equal(rows, rows.astype(tf.bfloat16.as_numpy_dtype).astype(np.float32))


def test_names_are_those_of_variable_scopes():
    with tf.variable_scope("model"):
        table = tf.get_embedding_variable("emb", DIM)
        with pytest.raises(ValueError, match="'model/emb' exists already"):
            tf.get_embedding_variable("emb", DIM)
    with tf.variable_scope("model", reuse=True):
        assert tf.get_embedding_variable("emb", DIM) is table
        with pytest.raises(ValueError, match="'model/other' does not exist"):
            tf.get_embedding_variable("other", DIM)
    assert table.values[0].op.name == "model/emb/values_0"
    assert table.values[0] in tf.trainable_variables()


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="embedding_dim must be at least 1, got 0"):
        tf.get_embedding_variable("a", 0)
    with pytest.raises(ValueError, match="not float32 and float32"):
        tf.get_embedding_variable("a", 4, tf.float32)
    with pytest.raises(TypeError, match="'b' is looked up by int64, got ids of int32"):
        tf.get_embedding_variable("b", 4).lookup(tf.constant([1]))
    for given, text in (
        ({"capacity": 0}, "capacity must be at least 1"),
        ({"initial_rows": 0}, "initial_rows must be at least 1"),
        ({"evict_by": "size"}, "'frequency' or 'age', got 'size'"),
    ):
        with pytest.raises(ValueError, match=text):
            tf.EmbeddingVariableOption(**given)
    with pytest.raises(ValueError, match="filter_freq must be at least 1"):
        tf.CounterFilter(0)
    with pytest.raises(ValueError, match="steps_to_live must be at least 1"):
        tf.GlobalStepEvict(0)
    with pytest.raises(ValueError, match="l2_weight_threshold must be positive"):
        tf.L2WeightEvict(0.0)
