import numpy as np
import pytest

import sparkflow as tf
from sparkflow.graph.constants import constant_array, filled


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def value(tensor):
    return tensor.op.attr("value")


def test_a_tensor_is_itself_and_keeps_its_dtype():
    x = tf.placeholder(tf.float32)
    assert tf.convert_to_tensor(x) is x
    with pytest.raises(ValueError, match="requested dtype int32 for Tensor with dtype float32"):
        tf.convert_to_tensor(x, tf.int32)


def test_a_preferred_dtype_is_used_only_where_it_fits():
    assert tf.convert_to_tensor([1, 2], preferred_dtype=tf.int64).dtype is tf.int64
    assert tf.convert_to_tensor([1.5], preferred_dtype=tf.int64).dtype is tf.float32


def test_lists_with_tensors_are_packed_in_their_dtype():
    x = tf.placeholder(tf.float64, [])
    packed = tf.convert_to_tensor([[x, 1], [2, x]])
    assert packed.dtype is tf.float64
    assert packed.shape == [2, 2]
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(packed, {x: 7}), [[7, 1], [2, 7]])


def test_shapes_become_vectors_where_they_are_known():
    np.testing.assert_array_equal(value(tf.convert_to_tensor(tf.TensorShape([2, 3]))), [2, 3])
    assert tf.convert_to_tensor(tf.TensorShape([2]), tf.int64).dtype is tf.int64
    assert value(tf.convert_to_tensor(tf.TensorShape([2, 3])[1])) == 3
    np.testing.assert_array_equal(value(tf.convert_to_tensor([tf.TensorShape([4])[0], 1])), [4, 1])
    with pytest.raises(ValueError, match="partially known TensorShape"):
        tf.convert_to_tensor(tf.TensorShape([None, 3]))
    with pytest.raises(ValueError, match="unknown Dimension"):
        tf.convert_to_tensor(tf.TensorShape([None])[0])
    with pytest.raises(TypeError, match="float32"):
        tf.convert_to_tensor(tf.TensorShape([2]), tf.float32)


def test_sparse_rows_become_a_dense_sum():
    rows = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([1, 3, 1]), tf.constant([4, 2]))
    assert rows.shape == [4, 2]
    with tf.Session() as session:
        dense = session.run(tf.convert_to_tensor(rows))
    np.testing.assert_array_equal(dense, [[0, 0], [2, 2], [0, 0], [1, 1]])
    with pytest.raises(ValueError, match="without dense_shape"):
        tf.convert_to_tensor(tf.IndexedSlices(tf.ones([3, 2]), tf.constant([1, 3, 1])))


@pytest.mark.parametrize(
    ("given", "dtype", "expected"),
    [
        (1.0, None, np.float32),
        ([1, 2], None, np.int32),
        (2**40, None, np.int64),
        (np.arange(3.0), None, np.float64),
        (np.float64(1), None, np.float64),
        ([], None, np.float32),
        (1, tf.float64, np.float64),
        (np.array([1.7]), tf.int32, np.int32),
    ],
)
def test_default_dtypes(given, dtype, expected):
    assert constant_array(given, dtype).dtype == expected


class Columns:
    """Has numpy's protocol, as a column of pandas does."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


def test_what_stands_for_an_array_keeps_its_dtype():
    precise = 1.123456789012345
    for kind in (np.float64, np.int64, np.int8, np.uint16, np.bool_, np.float16):
        assert constant_array(Columns(np.ones(2, kind))).dtype == kind
    assert constant_array(Columns(np.array([precise]))).tolist() == [precise]
    assert tf.constant(Columns(np.array([1.7])), tf.int32).dtype is tf.int32
    assert constant_array(Columns(np.array(["a"], object))).tolist() == [b"a"]
    kept = np.zeros(1)
    made = constant_array(Columns(kept))
    kept[0] = 7.0
    assert made.tolist() == [0.0]


def test_columns_of_pandas_keep_their_dtypes():
    pandas = pytest.importorskip("pandas")
    column = pandas.Series([1.123456789012345, 2.0])
    for given in (column, column.to_frame(), pandas.Index(column)):
        array = constant_array(given)
        assert array.dtype == np.float64
        assert array.reshape(-1).tolist() == column.tolist()
    assert constant_array(pandas.Series([2**40])).tolist() == [2**40]
    assert constant_array(pandas.Series(["a", "b"])).tolist() == [b"a", b"b"]
    assert constant_array(pandas.Series([1, 2], dtype="Int64"), tf.int64).tolist() == [1, 2]
    with pytest.raises(TypeError, match="Failed to convert object of type Series"):
        constant_array(pandas.Series(["a", None], dtype=object))


def test_arrays_of_objects_become_numbers_as_lists_do():
    assert constant_array(np.array([1, 2], object), tf.int64).tolist() == [1, 2]
    with pytest.raises(TypeError, match=r"Expected int64, got 1\.5 of type 'float'"):
        constant_array(np.array([1, 1.5], object), tf.int64)
    with pytest.raises(TypeError, match="Expected float32"):
        constant_array(np.array([1.0, None], object), tf.float32)


@pytest.mark.parametrize("given", [np.int64(3), np.array([1.5]), np.array([True])])
def test_arrays_of_numbers_are_no_texts(given):
    with pytest.raises(TypeError, match="Expected string, got"):
        constant_array(given, tf.string)
    with tf.Graph().as_default(), tf.Session() as session:
        texts = tf.placeholder(tf.string)
        with pytest.raises(TypeError, match="Expected string, got"):
            session.run(texts, {texts: given})


def test_a_constant_does_not_change_with_the_array_it_was_made_from():
    array = np.zeros(3)
    constant = tf.constant(array)
    array[0] = 7.0
    np.testing.assert_array_equal(value(constant), [0.0, 0.0, 0.0])


def test_texts_are_bytes():
    array = constant_array([["a", b"b"], ["ü", ""]])
    assert array.tolist() == [[b"a", b"b"], ["ü".encode(), b""]]
    assert tf.constant("a").dtype is tf.string


@pytest.mark.parametrize(
    ("given", "dtype", "text"),
    [
        (1.5, tf.int32, "Expected int32, got 1.5 of type 'float' instead"),
        ([1, 2.5], tf.int64, "Expected int64, got 2.5 of type 'float' instead"),
        ("a", tf.float32, "Expected float32, got 'a' of type 'str' instead"),
        (1, tf.string, "Expected string, got 1 of type 'int' instead"),
        (object(), None, "Failed to convert object of type object"),
    ],
)
def test_values_of_another_kind_are_refused(given, dtype, text):
    with pytest.raises(TypeError, match=text):
        constant_array(given, dtype)


def test_integers_out_of_range_are_refused():
    with pytest.raises(ValueError, match="300 is out of range for uint8"):
        constant_array([1, 300], tf.uint8)


def test_filling_up_repeats_the_last_element():
    assert filled(np.array([1, 2]), (2, 2)).tolist() == [[1, 2], [2, 2]]
    with pytest.raises(ValueError, match="Needed at most 1, but received 2"):
        filled(np.array([1, 2]), (1,))
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        tf.constant([1, 2], shape=[3], verify_shape=True)


def test_zero_bytes_at_the_end_of_texts_stay():
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.string, [None])
        texts = [b"a\x00", b"\x00\x00", b""]
        assert session.run(tf.constant(texts)).tolist() == texts
        assert session.run(fed, {fed: texts}).tolist() == texts
        assert session.run(tf.identity(tf.constant(b"x\x00"))) == b"x\x00"
