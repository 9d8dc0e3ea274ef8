"""Elements of every kind through every transformation: scalar strings and sparse tensors.

Where an element comes from decides how it is held at run time: as a row of an array, as what a
kernel returned. A transformation must not notice.
"""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster

WORDS = ["x", "yy", "z", "yy"]
Dataset = tf.data.Dataset
experimental = tf.data.experimental


def message(word):
    example = tf.train.Example()
    example.features.feature["w"].bytes_list.value.append(word.encode())
    return example.SerializeToString()


def lines(folder):
    (folder / "lines").write_text("".join(f"{word}\n" for word in WORDS))
    return tf.data.TextLineDataset(str(folder / "lines"))


def parsed(_):
    features = {"w": tf.FixedLenFeature([], tf.string)}
    messages = Dataset.from_tensor_slices([message(word) for word in WORDS])
    return messages.map(lambda each: tf.parse_single_example(each, features)["w"])


def defaults(_):
    features = {"none": tf.FixedLenFeature([], tf.string, "x")}
    one = Dataset.from_tensors(message("?")).repeat(2)
    found = one.map(lambda each: tf.parse_single_example(each, features)["none"])
    return found.take(1).concatenate(parsed(_).skip(1))


def contexts(_):
    features = {"w": tf.FixedLenFeature([], tf.string)}
    # An Example is a SequenceExample that has only a context.
    messages = Dataset.from_tensor_slices([message(word) for word in WORDS])
    return messages.map(lambda each: tf.parse_single_sequence_example(each, features, {})[0]["w"])


SOURCES = {
    "rows": lambda _: Dataset.from_tensor_slices(WORDS),
    "generator": lambda _: Dataset.from_generator(lambda: iter(WORDS), tf.string, []),
    "lines": lines,
    "parsed": parsed,
    "defaults": defaults,
    "contexts": contexts,
    "csv": lambda _: Dataset.from_tensor_slices(WORDS).map(lambda w: tf.decode_csv(w, [[""]])[0]),
    "gathered": lambda _: Dataset.range(4).map(lambda number: tf.gather(WORDS, number)),
    "split": lambda _: Dataset.from_tensor_slices(WORDS).map(
        lambda word: tf.string_split([tf.string_join([word, "a b"], " ")]).values[0]
    ),
}


def length(word):
    return tf.cast(tf.strings.length(word), tf.int64)


WAYS = {
    "batch": lambda d: d.batch(3),
    "padded_batch": lambda d: d.padded_batch(3, []),
    "enumerate": lambda d: d.enumerate().batch(3).map(lambda _, word: word),
    "zip": lambda d: Dataset.zip((d, d)).batch(3).map(lambda word, _: word),
    "filter": lambda d: d.filter(lambda word: length(word) > 1).batch(3),
    "cache": lambda d: d.cache().repeat(2).batch(5),
    "window": lambda d: d.window(2).flat_map(lambda window: window.batch(2)),
    "shuffle": lambda d: d.shuffle(4, seed=1).batch(3),
    "interleave": lambda d: d.interleave(lambda word: Dataset.from_tensors(word), 2).batch(3),
    "scan": lambda d: d.scan("", lambda before, word: (before + word, before + word)).batch(3),
    "reduce": lambda d: Dataset.from_tensors(d.reduce("", lambda before, word: before + word)),
    "parallel": lambda d: d.map(lambda word: word, 2).batch(3),
    "map_and_batch": lambda d: d.apply(experimental.map_and_batch(lambda word: word, 3)),
    "group": lambda d: d.apply(
        experimental.group_by_window(length, lambda _, window: window.batch(2), 2)
    ),
    "unique": lambda d: d.unique().batch(3),
    "prefetch": lambda d: d.prefetch(1).batch(3),
    "unbatch": lambda d: d.batch(3).unbatch().batch(2),
    "ignore_errors": lambda d: d.apply(experimental.ignore_errors()).batch(3),
    "sparse_batch": lambda d: (
        d.map(lambda word: tf.expand_dims(word, 0))
        .apply(experimental.dense_to_sparse_batch(3, [2]))
        .map(tf.sparse.to_dense)
    ),
    "split": lambda d: d.map(lambda word: tf.string_split([word], "y").values).padded_batch(
        3, [None]
    ),
}


def elements(dataset):
    with tf.Session() as session:
        iterator = dataset.make_initializable_iterator()
        following = iterator.get_next()
        session.run([iterator.initializer, tf.tables_initializer()])
        found = []
        while True:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", [name for name in SOURCES if name != "rows"])
def test_scalar_strings_are_the_same_wherever_they_come_from(source, way, tmp_path):
    with tf.Graph().as_default():
        wanted = elements(WAYS[way](SOURCES["rows"](tmp_path)))
    with tf.Graph().as_default():
        found = elements(WAYS[way](SOURCES[source](tmp_path)))
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


DENSE = np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0], [4, 5, 6]], np.int64)


def sparse_rows():
    indices = np.argwhere(DENSE)
    whole = tf.SparseTensor(indices, tf.as_string(DENSE[tuple(indices.T)]), DENSE.shape)
    return Dataset.from_tensor_slices((whole, np.arange(4)))


def made_sparse():
    def from_dense(number):
        row = tf.constant(DENSE)[number]
        found = tf.sparse.from_dense(row)
        texts = tf.SparseTensor(found.indices, tf.as_string(found.values), found.dense_shape)
        return texts, number

    return Dataset.range(4).map(from_dense)


SPARSE_WAYS = {
    "batch": lambda d, _: d.batch(3),
    "batch of batches": lambda d, _: d.batch(2).batch(2),
    "unbatch": lambda d, _: d.batch(3).unbatch().batch(2),
    "shuffle": lambda d, _: d.shuffle(4, seed=1).batch(4),
    "cache": lambda d, _: d.cache().repeat(2).batch(4),
    "cache in a file": lambda d, folder: d.cache(str(folder / "cache")).repeat(2).batch(4),
    "window": lambda d, _: d.window(2).flat_map(
        lambda *parts: Dataset.zip(tuple(part.batch(2) for part in parts))
    ),
    "map": lambda d, _: d.map(lambda each, number: (each, number), 2).batch(4),
    "prefetch": lambda d, _: d.prefetch(2).batch(4),
}


@pytest.mark.parametrize("way", SPARSE_WAYS)
@pytest.mark.parametrize("source", [sparse_rows, made_sparse])
def test_sparse_tensors_go_through_datasets(source, way, tmp_path):
    with tf.Graph().as_default():
        found = elements(
            SPARSE_WAYS[way](source(), tmp_path).map(
                lambda each, number: (tf.sparse.to_dense(each, "0"), number)
            )
        )
    assert found
    for rows, numbers in found:
        np.testing.assert_array_equal(rows.astype(np.int64), DENSE[numbers])


def test_a_sparse_element_is_not_changed_by_who_fetches_it():
    with tf.Graph().as_default():
        found = elements(made_sparse().take(1).cache().repeat(2))
        first, again = (value for value, _ in found)
    first.values[:] = b"changed"
    assert again.values.tolist() == [b"1", b"2"]


def test_sparse_tensors_come_from_another_task():
    with LocalCluster(num_ps=1, num_workers=1) as cluster, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            iterator = sparse_rows().batch(4).make_initializable_iterator()
        rows, _ = iterator.get_next()
        with tf.device("/job:worker/task:0"):
            dense = tf.sparse.to_dense(rows, "0")
        with tf.Session(cluster.target("worker", 0)) as session:
            session.run(iterator.initializer)
            np.testing.assert_array_equal(session.run(dense).astype(np.int64), DENSE)


def run_all(dataset):
    iterator = tf.data.make_initializable_iterator(dataset)
    element, found = iterator.get_next(), []
    with tf.Session() as session:
        session.run(iterator.initializer)
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found


def test_a_function_returns_what_was_made_outside_of_it():
    with tf.Graph().as_default():
        x, word = tf.constant(3.0) * 2.0, tf.constant("w")
        numbers = Dataset.from_generator(lambda: iter([1, 2]), tf.int64, [])
        assert run_all(Dataset.range(2).map(lambda i: x)) == [6, 6]
        assert run_all(Dataset.range(1).map(lambda i: (i, word))) == [(0, b"w")]
        assert run_all(Dataset.range(2).flat_map(lambda i: numbers)) == [1, 2, 1, 2]
        assert run_all(Dataset.range(2).interleave(lambda i: numbers, 2)) == [1, 1, 2, 2]
        assert run_all(Dataset.range(2).filter(lambda i: x > 5.0)) == [0, 1]
