import math

import pytest
from hypothesis import given, strategies as st

import sparkflow as tf

SHAPES = st.lists(st.integers(1, 50), min_size=1, max_size=3)


def test_a_fixed_number_of_parts_but_not_more_than_rows():
    assert tf.fixed_size_partitioner(3)([10, 4]) == [3, 1]
    assert tf.fixed_size_partitioner(3, axis=1)([10, 2]) == [1, 2]
    assert tf.fixed_size_partitioner(3)(tf.TensorShape([10])) == [3]


@given(SHAPES, st.integers(1, 4000))
def test_no_part_is_larger_than_asked_unless_a_row_is(shape, most):
    (parts, *others) = tf.variable_axis_size_partitioner(most)(shape, dtype=tf.float32)
    assert set(others) <= {1}
    row = 4 * math.prod(shape[1:])
    assert math.ceil(shape[0] / parts) * row <= max(most, row)
    if parts > 1:  # with one part less there would be
        assert math.ceil(shape[0] / (parts - 1)) * row > most or row > most


def test_the_number_of_parts_may_be_limited():
    make = tf.variable_axis_size_partitioner
    assert make(4, max_shards=2)([10], dtype=tf.float32) == [2]
    assert make(32, bytes_per_string_element=16)([10], dtype=tf.string) == [5]


@given(SHAPES, st.integers(1, 9), st.integers(1, 400))
def test_every_part_has_the_least_size(shape, most, least):
    partitioner = tf.min_max_variable_partitioner(most, min_slice_size=least)
    (parts, *_) = partitioner(shape, dtype=tf.float32)
    size = 4 * math.prod(shape)
    assert 1 <= parts <= min(most, shape[0])
    assert parts == 1 or size / parts >= least
    if parts < min(most, shape[0]):
        assert size / (parts + 1) < least


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: tf.variable_axis_size_partitioner(0), "must be positive"),
        (lambda: tf.variable_axis_size_partitioner(4, max_shards=-1), "max_shards"),
        (lambda: tf.min_max_variable_partitioner(0), "max_partitions"),
        (lambda: tf.min_max_variable_partitioner(1, min_slice_size=0), "min_slice_size"),
        (lambda: tf.min_max_variable_partitioner(2, axis=1)([4], dtype=tf.int32), "along axis 1"),
        (
            lambda: tf.fixed_size_partitioner(2)(tf.TensorShape([None])),
            "must be fully defined",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()
