"""Read-only tables: one that others train, and that of a trained model."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.embedding.read_only import LAST_KEY, FixedEmbedding, ObservedEmbedding
from sparkflow.embedding.variable import kinds

ENDS = (1 << 63) - 1, -(1 << 63)


@pytest.fixture(autouse=True)
def _fresh():
    with tf.Graph().as_default():
        yield


def fixed(name="clicks", dim=2, **kwargs):
    with kinds.entered(FixedEmbedding):
        return tf.get_embedding_variable(name, dim, **kwargs)


def fill(session, table, keys, rows):
    """Assigns these ids and rows to a fixed table, with zeros for all others."""
    held = {each.op.name: each for each in tf.global_variables()}
    rows = np.asarray(rows, table.dtype.as_numpy_dtype).reshape(-1, table.dim)
    zeros = np.zeros((1, table.dim), rows.dtype)
    for name, value in (
        ("keys", np.array([*keys, LAST_KEY], np.int64)),
        ("rows", np.concatenate([rows, zeros])),
    ):
        variable = held[f"{table.name}/{name}"]
        session.run(tf.assign(variable, value, validate_shape=False))


@pytest.mark.parametrize("known", [[], [-5], [ENDS[1], -1, 0, 7, 1 << 40], [3, ENDS[0]]])
def test_rows_are_those_of_the_ids_and_zeros_for_others(known):
    table = fixed(partitioner=tf.fixed_size_partitioner(3))
    ids = tf.placeholder(tf.int64, [None, 3])
    found = tf.nn.embedding_lookup(table, ids)
    assert found.shape.as_list() == [None, 3, 2]
    asked = np.array([[*ENDS, -1], [0, 7, 8], [-5, 1 << 40, 3]])
    rows = {key: [number + 1.0, -number - 1.0] for number, key in enumerate(known)}
    with tf.Session() as session:
        fill(session, table, known, list(rows.values()))
        expected = [[rows.get(int(id_), [0.0, 0.0]) for id_ in each] for each in asked]
        np.testing.assert_array_equal(session.run(found, {ids: asked}), expected)
        assert session.run(found, {ids: np.empty((0, 3), np.int64)}).shape == (0, 3, 2)
        assert session.run(table.size()) == len(known)
        keys, held, counts = session.run(table.export())
    np.testing.assert_array_equal(keys, np.array(known, np.int64))
    assert held.shape == (len(known), 2)
    assert not counts.any()


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
def test_texts_and_small_integers_are_ids_too(dtype):
    table = fixed(key_dtype=tf.string, value_dtype=dtype)
    small = fixed("small", key_dtype=tf.int32)
    growing = tf.strings.to_hash_bucket_fast(["a", "b"], (1 << 63) - 1)
    with tf.Session() as session:
        hashes = session.run(growing)
        order = np.argsort(hashes)
        fill(session, table, hashes[order], np.array([[1.0, 2.0], [3.0, 4.0]])[order])
        fill(session, small, [4], [[5.0, 6.0]])
        rows, other = session.run([table.lookup(["b", "c", "a"]), small.lookup([[4], [5]])])
    assert rows.dtype == dtype.as_numpy_dtype
    assert rows.tolist() == [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]]
    assert other.tolist() == [[[5.0, 6.0]], [[0.0, 0.0]]]
    with pytest.raises(TypeError, match="looked up by int32, got ids of int64"):
        small.lookup(tf.constant([1], tf.int64))


def test_a_fixed_table_starts_empty_and_never_changes():
    table = fixed()
    statistics, evicted = table.statistics(), table.evict()
    with tf.Session() as session:
        session.run(table.initializer)
        session.run(table.lookup(np.arange(5)))
        found = session.run(statistics)
        assert session.run(evicted) == 0
    assert set(found) == {"size", "waiting", "rows", "evicted", "lookups"}
    assert not any(found.values())
    assert tf.trainable_variables() == []
    assert repr(table) == "<FixedEmbedding 'clicks' dim=2 dtype=float32>"


def test_an_observed_table_gives_no_rows_and_counts_nothing():
    with kinds.entered(ObservedEmbedding):
        table = tf.get_embedding_variable("clicks", 2)
    found = tf.nn.embedding_lookup(table, tf.constant([1, 2], tf.int64))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert not session.run(found).any()
        assert session.run([table.size(), table.statistics()["lookups"]]) == [0, 0]
