"""Batches of a data source as ops."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
)
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.data import iterator as iterator_ops
from support.array_source import ArraySource
from support.eager import EagerBuilder
from support.step import FakeStep

EXPECTED = {
    "output_types": [dtypes.float32, dtypes.int64],
    "output_shapes": [(None, 3), (None,)],
}


@pytest.fixture
def g():
    return EagerBuilder()


def enter(g, features, labels, batch_size=2):
    g.resources.put("", "train_data", ArraySource([features, labels], batch_size))


def iterator(g, **attrs):
    return g.IteratorV2(shared_name="train_data", container="", **{**EXPECTED, **attrs})


def test_batches_until_the_data_end(g):
    handle = iterator_of_three_rows(g)
    features, labels = g.IteratorGetNext(handle, **EXPECTED)
    np.testing.assert_array_equal(features.value, [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(labels.value, [0, 1])
    assert (features.static_shape, labels.static_shape) == ((None, 3), (None,))
    assert g.IteratorGetNext(handle, **EXPECTED)[1].value.tolist() == [2]
    with pytest.raises(OutOfRangeError, match="End of sequence"):
        g.IteratorGetNext(handle, **EXPECTED)


def iterator_of_three_rows(g):
    enter(g, np.arange(9, dtype=np.float32).reshape(3, 3), np.arange(3))
    return iterator(g)


def test_a_source_that_is_missing_is_named(g):
    with pytest.raises(FailedPreconditionError, match="'train_data': there is no data source"):
        g.IteratorGetNext(iterator(g), **EXPECTED)


def test_something_else_under_the_name_is_refused(g):
    g.resources.put("", "train_data", [1, 2])
    with pytest.raises(InvalidArgumentError, match="is a list, which is no data source"):
        iterator(g)


@pytest.mark.parametrize(
    ("features", "labels", "text"),
    [
        (np.zeros((3, 3), "f8"), np.zeros(3, "i8"), r"Component 0 .* float64 \(2, 3\), .* float32"),
        (np.zeros((3, 4), "f4"), np.zeros(3, "i8"), r"Component 0 .* \(2, 4\), .* \(\?, 3\)"),
        (np.zeros((3, 3), "f4"), np.zeros((3, 1), "i8"), r"Component 1 .*\(2, 1\), .* \(\?,\)"),
    ],
)
def test_batches_are_checked(g, features, labels, text):
    enter(g, features, labels)
    with pytest.raises(InvalidArgumentError, match=text):
        g.IteratorGetNext(iterator(g), **EXPECTED)


def test_the_number_of_components_is_checked(g):
    g.resources.put("", "train_data", ArraySource([np.zeros((3, 3), "f4")], 2))
    with pytest.raises(InvalidArgumentError, match="gave 1 components, the graph expects 2"):
        g.IteratorGetNext(iterator(g), **EXPECTED)


def test_one_shape_per_type(g):
    with pytest.raises(InvalidArgumentError, match=r"as many output_shapes as .*, got 1 and 2"):
        iterator(g, output_shapes=[None])


def test_iterators_are_stateful_and_live_on_the_cpu():
    ops = [op for op in registry.all_ops() if type(op).__module__ == iterator_ops.__name__]
    assert len(ops) == 2
    assert all(op.stateful and set(op.kernels) == {"CPU"} for op in ops)


def test_a_cancelled_step_takes_no_batch(g):
    handle = iterator_of_three_rows(g)
    g.step = FakeStep()
    g.step.cancel()
    with pytest.raises(CancelledError):
        g.IteratorGetNext(handle, **EXPECTED)
    g.step = FakeStep()
    assert g.IteratorGetNext(handle, **EXPECTED)[1].value.tolist() == [0, 1]


def test_kinds_of_iterators():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        dataset = tf.data.Dataset.range(3)
        shot = dataset.make_one_shot_iterator()
        anonymous = graph.add_node(
            "AnonymousIterator", [], {"output_types": [tf.int64], "output_shapes": [()]}
        )
        begun = graph.add_node("MakeIterator", [dataset._variant_tensor, anonymous.outputs[0]])
        with tf.control_dependencies([begun]):
            first = graph.add_node(
                "IteratorGetNextSync",
                [anonymous.outputs[0]],
                {"output_types": [tf.int64], "output_shapes": [()]},
            )
        ended = graph.add_node("DeleteIterator", [shot._iterator_resource, dataset._variant_tensor])
        text = shot.string_handle()
        found = graph.add_node("IteratorFromStringHandle", [text])
        same = tf.data.Iterator(found.outputs[0], None, dataset._structure).get_next()
        other = tf.data.Iterator.from_string_handle(text, tf.int64)
        assert [op.type for op in (shot._iterator_resource.op, text.op)] == [
            "OneShotIterator",
            "IteratorToStringHandle",
        ]
        assert other._iterator_resource.op.type == "IteratorFromStringHandleV2"
        assert session.run(first.outputs[0]) == 0
        assert session.run(same) == 0
        assert session.run(other.get_next()) == 1
        session.run(ended)
        assert session.run(same) == 0  # a one-shot iterator that has ended starts again


def test_optionals():
    experimental = tf.data.experimental
    with tf.Graph().as_default(), tf.Session() as session:
        iterator = tf.data.Dataset.range(1).make_one_shot_iterator()
        following = experimental.get_next_as_optional(iterator)
        nothing = experimental.Optional.none_from_structure(following)
        some = experimental.Optional.from_value(tf.constant(3))
        types = [each._variant_tensor.op.type for each in (following, nothing, some)]
        assert types == ["IteratorGetNextAsOptional", "OptionalNone", "OptionalFromValue"]
        has = following.has_value()
        assert has.op.type == "OptionalHasValue"
        assert some.get_value().op.type == "OptionalGetValue"
        assert [session.run(has) for _ in range(2)] == [True, False]
        assert session.run(some.get_value()) == 3
        with pytest.raises(InvalidArgumentError, match="does not have a value"):
            session.run(nothing.get_value())
