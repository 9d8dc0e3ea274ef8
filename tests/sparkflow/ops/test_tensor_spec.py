"""`TensorSpec`, `SparseTensorSpec`, `IndexedSlicesSpec`, and shapes that fit several others."""

import pytest

import sparkflow as tf


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def test_a_sparse_tensor_is_described():
    sparse = tf.SparseTensor([[0, 1]], [1.0], [2, 3])
    spec = tf.type_spec_from_value(sparse)
    assert repr(spec) == "SparseTensorSpec(TensorShape([Dimension(2), Dimension(3)]), tf.float32)"
    assert spec == tf.SparseTensorSpec([2, 3], tf.float32)
    assert spec.value_type is tf.SparseTensor
    assert tf.SparseTensorSpec([None, 3]).is_compatible_with(sparse)
    assert not tf.SparseTensorSpec([None, 4]).is_compatible_with(sparse)
    assert not tf.SparseTensorSpec([None, 3], tf.int32).is_compatible_with(sparse)
    assert not tf.SparseTensorSpec([None, 3]).is_compatible_with(tf.zeros([2, 3]))


def test_slices_are_described():
    slices = tf.IndexedSlices(tf.zeros([2, 3]), tf.constant([0, 1]), tf.constant([4, 3]))
    spec = tf.type_spec_from_value(slices)
    assert spec == tf.IndexedSlicesSpec([4, 3], tf.float32, tf.int32, tf.int32, [2])
    assert spec != tf.IndexedSlicesSpec([4, 3], tf.float32, tf.int64, tf.int32, [2])
    assert spec.value_type is tf.IndexedSlices


def test_the_narrowest_description_of_both():
    one, other = tf.TensorSpec([2, 3]), tf.TensorSpec([2, 4])
    assert one.most_specific_compatible_type(other) == tf.TensorSpec([2, None])
    assert one.is_subtype_of(tf.TensorSpec([None, 3]))
    assert not one.is_subtype_of(other)
    with pytest.raises(ValueError, match="No TypeSpec is compatible with both"):
        one.most_specific_compatible_type(tf.TensorSpec([2, 3], tf.int32))
    assert one.most_specific_common_supertype([tf.SparseTensorSpec([2, 3])]) is None


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ([2, 3], [2, 3], [2, 3]),
        ([2, 3], [2, 4], [2, None]),
        ([2, None], [2, 4], [2, None]),
        ([2, 3], [2], None),
        ([2, 3], None, None),
        ([], [], []),
    ],
)
def test_the_most_specific_shape_that_fits_both(one, other, both):
    shape = tf.TensorShape(one).most_specific_compatible_shape(other)
    assert (None if shape.ndims is None else shape.as_list()) == both


def test_references_are_keys():
    a, v = tf.constant(1.0), tf.Variable(1.0)
    known = {a.ref(): "a", v.ref(): "v"}
    assert (known[a.ref()], known[v.experimental_ref()]) == ("a", "v")
    assert a.ref().deref() is a
    assert a.ref() != v.ref()


def test_variables_say_whether_they_have_a_value():
    v = tf.Variable(1.0)
    with tf.Session() as session:
        assert not session.run(v.is_initialized())
        session.run(v.initializer)
        assert session.run(v.is_initialized())


def test_dimensions_in_tensorflow_2s_words():
    shape = tf.TensorShape([None, 3])
    assert tf.compat.dimension_value(shape[1]) == 3
    assert tf.compat.dimension_value(shape[0]) is None
    assert tf.compat.dimension_at_index(shape, 1).value == 3
    assert tf.compat.dimension_at_index(tf.TensorShape(None), 1).value is None
    assert tf.zeros([2, 3]).ndim == 2


def test_types_that_hold_numbers():
    assert tf.float32.is_numeric
    assert tf.int8.is_numeric
    assert not tf.string.is_numeric
