"""Batches of `tf.train.SequenceExample` messages as tensors."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.protos.example_pb2 import SequenceExample


def message(context=None, **lists):
    """Integers in the context; lists of steps, each of integers or strings."""
    made = SequenceExample()
    for key, values in (context or {}).items():
        made.context.feature[key].int64_list.value.extend(values)
    for key, steps in lists.items():
        target = made.feature_lists.feature_list[key]
        for values in steps:
            feature = target.feature.add()
            if all(isinstance(value, bytes) for value in values):
                feature.bytes_list.value.extend(values)
            else:
                feature.int64_list.value.extend(values)
    return made.SerializeToString()


LONG = message({"a": [7], "s": [1, 2]}, q=[[1, 2], [3, 4], [5, 6]], w=[[b"x"], [b"y", b"z"]])
SHORT = message({"a": [8]}, q=[[9, 10]], w=[])
BARE = message({"a": [9]}, q=[])


def parsed(messages, context=None, lists=None, **keywords):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(tf.io.parse_sequence_example(messages, context, lists, **keywords))


def test_dense_features_are_stacked_and_lists_padded_to_the_longest():
    context, lists, lengths = parsed(
        [LONG, SHORT, BARE],
        {"a": tf.FixedLenFeature([], tf.int64), "d": tf.FixedLenFeature([2], tf.int64, [4, 5])},
        {"q": tf.FixedLenSequenceFeature([2], tf.int64)},
    )
    np.testing.assert_array_equal(context["a"], [7, 8, 9])
    np.testing.assert_array_equal(context["d"], [[4, 5]] * 3)
    np.testing.assert_array_equal(
        lists["q"],
        [[[1, 2], [3, 4], [5, 6]], [[9, 10], [0, 0], [0, 0]], [[0, 0], [0, 0], [0, 0]]],
    )
    np.testing.assert_array_equal(lengths["q"], [3, 1, 0])
    assert lengths["q"].dtype == np.int64


def test_texts_are_padded_with_empty_ones_and_a_list_may_be_missing():
    first = message(w=[[b"x"], [b"y"]])
    sequence = tf.FixedLenSequenceFeature([], tf.string, allow_missing=True)
    context, lists, lengths = parsed([first, BARE], None, {"w": sequence})
    assert context == {}
    assert lists["w"].tolist() == [[b"x", b"y"], [b"", b""]]
    assert lengths["w"].tolist() == [2, 0]


def test_sparse_features_have_their_row_in_front():
    context, lists, lengths = parsed(
        [SHORT, LONG, BARE],
        {"s": tf.VarLenFeature(tf.int64)},
        {"w": tf.VarLenFeature(tf.string), "q": tf.VarLenFeature(tf.int64)},
    )
    assert context["s"].indices.tolist() == [[1, 0], [1, 1]]
    assert context["s"].values.tolist() == [1, 2]
    assert context["s"].dense_shape.tolist() == [3, 2]
    assert lists["w"].indices.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert lists["w"].values.tolist() == [b"x", b"y", b"z"]
    assert lists["w"].dense_shape.tolist() == [3, 2, 2]
    assert lists["q"].indices[:3].tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert lists["q"].values.tolist() == [9, 10, 1, 2, 3, 4, 5, 6]
    assert lists["q"].dense_shape.tolist() == [3, 3, 2]
    assert lengths == {}


def test_a_batch_of_no_messages():
    context, lists, lengths = parsed(
        np.empty(0, object),
        {"a": tf.FixedLenFeature([2], tf.int64), "s": tf.VarLenFeature(tf.int64)},
        {
            "q": tf.FixedLenSequenceFeature([2], tf.int64),
            "w": tf.VarLenFeature(tf.string),
        },
    )
    assert context["a"].shape == (0, 2)
    assert context["s"].dense_shape.tolist() == [0, 0]
    assert lists["q"].shape == (0, 0, 2)
    assert lists["w"].indices.shape == (0, 3)
    assert lists["w"].dense_shape.tolist() == [0, 0, 0]
    assert lengths["q"].shape == (0,)


@pytest.mark.parametrize(
    ("bad", "context", "text"),
    [
        ({"a": [1]}, {"a": tf.FixedLenFeature([], tf.float32, 0.0)}, "Feature: a.*don't"),
        ({"a": [1]}, {"a": tf.VarLenFeature(tf.string)}, "Feature: a.*types don't match"),
        ({"a": [1]}, {"a": tf.FixedLenFeature([2], tf.int64, [0, 0])}, "size: 1 but"),
    ],
)
def test_a_context_that_does_not_fit_is_refused(bad, context, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Name: two, .*{text}"):
        parsed([message(), message(bad)], context, None, example_names=["one", "two"])


@pytest.mark.parametrize(
    ("feature", "text"),
    [
        (tf.VarLenFeature(tf.float32), "Feature: q.*types don't match"),
        (tf.FixedLenSequenceFeature([2], tf.string), "Feature: q, Index: 0.*types don't match"),
        (tf.FixedLenSequenceFeature([3], tf.int64), "size: 2 but"),
    ],
)
def test_a_list_that_does_not_fit_is_refused(feature, text):
    messages = [message(q=[]), message(q=[[1, 2]])]
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Name: two, .*{text}"):
        parsed(messages, None, {"q": feature}, example_names=["one", "two"])


def test_what_must_be_there_is_missed():
    names = ["one", "two"]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Name: two, Feature: s.*is req"):
        parsed([LONG, BARE], {"s": tf.FixedLenFeature([2], tf.int64)}, example_names=names)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"two, Feature list 'w' is required"):
        parsed(
            [message(w=[]), BARE],
            None,
            {"w": tf.FixedLenSequenceFeature([], tf.string)},
            example_names=names,
        )


def test_names_must_be_as_many_as_messages():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"1 vs\. 2"):
        parsed([LONG, SHORT], {"a": tf.FixedLenFeature([], tf.int64)}, example_names=["one"])


def test_static_shapes():
    with tf.Graph().as_default():
        known, unknown = tf.constant([LONG, SHORT]), tf.placeholder(tf.string)
        for messages, batch in ((known, 2), (unknown, None)):
            context, lists, lengths = tf.io.parse_sequence_example(
                messages,
                {"a": tf.FixedLenFeature([4], tf.int64), "s": tf.VarLenFeature(tf.int64)},
                {
                    "q": tf.FixedLenSequenceFeature([2], tf.int64),
                    "w": tf.VarLenFeature(tf.string),
                },
            )
            assert context["a"].shape.as_list() == [batch, 4]
            assert context["s"].indices.shape.as_list() == [None, 2]
            assert lists["q"].shape.as_list() == [batch, None, 2]
            assert lists["w"].indices.shape.as_list() == [None, 3]
            assert lists["w"].dense_shape.shape.as_list() == [3]
            assert lengths["q"].shape.as_list() == [batch]


def test_features_are_needed():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Missing features"):
        tf.io.parse_sequence_example([LONG])
