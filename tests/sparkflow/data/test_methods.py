"""Methods of datasets that used to be functions of `tf.data.experimental`."""

import collections

import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


def elements(dataset):
    return list(dataset.as_numpy_iterator())


def test_arrays_of_elements_by_the_default_session():
    dataset = tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [3.0, 4.0]})
    assert elements(dataset) == [{"a": 1, "b": 3.0}, {"a": 2, "b": 4.0}]


def test_arrays_need_a_session():
    with tf.Graph().as_default() as graph:
        dataset = tf.data.Dataset.range(2)
    tf.get_default_session()
    with pytest.raises(Exception, match=r"session|graph"), graph.as_default():
        list(dataset.as_numpy_iterator())


def test_elements_are_described():
    dataset = tf.data.Dataset.from_tensor_slices((np.zeros([4, 2], np.float32), [1, 2, 3, 4]))
    spec = (tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.int32))
    assert dataset.element_spec == spec
    assert dataset.make_one_shot_iterator().element_spec == spec
    sparse = tf.SparseTensor([[0, 0]], [1], [2, 3])
    of_sparse = tf.data.Dataset.from_tensor_slices(sparse)
    assert isinstance(of_sparse.element_spec, tf.SparseTensorSpec)


def test_what_experimental_functions_do():
    numbers = tf.data.Dataset.range(6)
    assert elements(numbers.take_while(lambda x: x < 3)) == [0, 1, 2]
    assert elements(tf.data.Dataset.from_tensor_slices([1, 1, 2]).unique()) == [1, 2]
    assert elements(numbers.scan(np.int64(0), lambda s, x: (s + x, s + x))) == [0, 1, 3, 6, 10, 15]
    assert [each.tolist() for each in elements(numbers.batch(4).rebatch(3))] == [
        [0, 1, 2],
        [3, 4, 5],
    ]
    assert elements(tf.data.Dataset.counter(5).take(2)) == [5, 6]
    assert len(elements(tf.data.Dataset.random(seed=1).take(3))) == 3
    choice = tf.data.Dataset.from_tensor_slices(np.array([0, 1, 0], np.int64))
    datasets = [tf.data.Dataset.range(3), tf.data.Dataset.range(10, 13)]
    assert elements(tf.data.Dataset.choose_from_datasets(datasets, choice)) == [0, 10, 1]
    sampled = tf.data.Dataset.sample_from_datasets(datasets, [1.0, 0.0], seed=1)
    assert elements(sampled.take(3)) == [0, 1, 2]


def test_their_number(session):
    assert session.run(tf.data.Dataset.range(6).cardinality()) == 6
    infinite = tf.data.Dataset.range(6).repeat().cardinality()
    assert session.run(infinite) == tf.data.INFINITE_CARDINALITY
    assert session.run(tf.data.Dataset.range(1).get_single_element()) == 0


def test_windows_and_buckets():
    numbers = tf.data.Dataset.range(6)
    grouped = numbers.group_by_window(lambda x: x % 2, lambda _, part: part.batch(3), 3)
    assert [each.tolist() for each in elements(grouped)] == [[0, 2, 4], [1, 3, 5]]
    rows = tf.data.Dataset.range(1, 5).map(lambda n: tf.ones([n]))
    bucketed = rows.bucket_by_sequence_length(lambda row: tf.shape(row)[0], [3], [2, 2])
    assert [each.shape for each in elements(bucketed)] == [(2, 2), (2, 4)]


def test_resampled_classes_are_distributed_as_asked():
    labels = np.array([0] * 900 + [1] * 100)
    np.random.default_rng(0).shuffle(labels)
    dataset = tf.data.Dataset.from_tensor_slices(labels).repeat(3)
    balanced = dataset.rejection_resample(lambda x: x, [0.5, 0.5], [0.9, 0.1], seed=7)
    counts = collections.Counter(int(kind) for kind, element in elements(balanced))
    assert sum(counts.values()) > 300
    assert 0.4 < counts[0] / sum(counts.values()) < 0.6
    resample = tf.data.experimental.rejection_resample(lambda x: x, [0.5, 0.5], [0.9, 0.1], seed=7)
    applied = collections.Counter(int(kind) for kind, _ in elements(dataset.apply(resample)))
    assert 0.4 < applied[0] / sum(applied.values()) < 0.6


def test_a_signature_describes_what_a_generator_yields():
    signature = (tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.int32))
    dataset = tf.data.Dataset.from_generator(
        lambda: iter([([1.0, 2.0], 3)]), output_signature=signature
    )
    ((values, number),) = elements(dataset)
    assert (values.tolist(), number) == ([1.0, 2.0], 3)
    with pytest.raises(TypeError, match="Either `output_types` or `output_signature` must be"):
        tf.data.Dataset.from_generator(lambda: iter([]))


def test_datasets_are_zipped_in_both_spellings():
    one, other = tf.data.Dataset.range(2), tf.data.Dataset.range(2, 4)
    assert elements(tf.data.Dataset.zip(one, other)) == [(0, 2), (1, 3)]
    assert elements(tf.data.Dataset.zip((one, other))) == [(0, 2), (1, 3)]
    assert elements(tf.data.Dataset.zip(datasets={"a": one})) == [{"a": 0}, {"a": 1}]
    assert elements(tf.data.Dataset.range(2, output_type=tf.int32, name="n"))[0].dtype == np.int32


def test_names_are_accepted_everywhere():
    dataset = tf.data.Dataset.range(8, name="a").map(lambda x: x, deterministic=True, name="b")
    dataset = dataset.filter(lambda x: x < 6, name="c").batch(2, num_parallel_calls=2, name="d")
    assert len(elements(dataset.prefetch(tf.data.AUTOTUNE, name="e"))) == 3


def test_an_element_or_none(session):
    following = tf.data.Dataset.range(1).make_one_shot_iterator().get_next_as_optional()
    assert following.element_spec == tf.TensorSpec([], tf.int64)
    assert session.run([following.has_value(), following.get_value()]) == [True, 0]
    empty = tf.data.experimental.Optional.empty(tf.TensorSpec([], tf.int64))
    assert not session.run(empty.has_value())


def test_elements_beyond_the_last_boundary_are_refused_when_padding_to_it():
    rows = tf.data.Dataset.range(6).map(tf.range)
    bucketed = rows.bucket_by_sequence_length(
        tf.size, [2, 4], [2, 2, 2], pad_to_bucket_boundary=True
    )
    following = iter(bucketed.as_numpy_iterator())
    assert next(following).shape == (2, 1)
    assert next(following).shape == (2, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"max\(bucket_boundaries\)"):
        next(following)
