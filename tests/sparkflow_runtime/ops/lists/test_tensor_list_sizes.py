"""TensorListResize, TensorListPushBack and TensorListPopBack.

Also how TensorArrays keep the size they were declared with.
"""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.lists.tensor_list import TensorList
from sparkflow_runtime.ops.lists.tensor_list_sizes import TensorListResize

ANY = np.int32(-1)


def resized(value, size, keeps_all=False, keeps_size=False):
    return TensorListResize().compute(
        np, value, np.int32(size), _keeps_all=keeps_all, _keeps_size=keeps_size
    )


def test_the_same_length_is_the_same_list():
    rows = TensorList.rows_of(np.ones((2, 3), np.float32))
    assert resized(rows, 2) is rows
    assert resized(rows, 2, keeps_all=True, keeps_size=True) is rows


def test_elements_are_added_unset_and_taken_off_the_end():
    rows = TensorList.rows_of(np.ones((2, 3), np.float32))
    longer = resized(rows, 3, keeps_all=True)
    assert len(longer) == 3
    assert longer.items[2] is None
    assert longer.items[1].tolist() == [1, 1, 1]
    assert [each.tolist() for each in resized(rows, 1).items] == [[1, 1, 1]]


def test_what_is_refused():
    rows = TensorList.rows_of(np.ones((2, 3), np.float32))
    with pytest.raises(InvalidArgumentError, match=r"non-negative\. Got: -1"):
        resized(rows, -1)
    with pytest.raises(InvalidArgumentError, match="index 1 but array is not resizeable"):
        resized(rows, 1, keeps_all=True)
    with pytest.raises(InvalidArgumentError, match=r"size of lengths \(3 vs\. 2\)"):
        resized(rows, 3, keeps_size=True)


def compute(op, *inputs, **attrs):
    return registry.lookup(op).compute(np, *inputs, **attrs)


def test_push_and_pop_are_inverse():
    empty = compute("EmptyTensorList", ANY, ANY, element_dtype=tf.float32)
    one = compute("TensorListPushBack", empty, np.float32([1, 2]))
    assert not empty.items
    rest, last = compute("TensorListPopBack", one, ANY)
    assert rest.items == []
    assert last.tolist() == [1, 2]
    with pytest.raises(InvalidArgumentError, match="pop from an empty list"):
        compute("TensorListPopBack", rest, ANY)


def value_of(make, feeds=None):
    with tf.Session() as session:
        return session.run(make, feeds).tolist()


def array(size, **options):
    return tf.TensorArray(tf.float32, size, **options)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("is_static", [True, False])
def test_an_array_keeps_its_size_when_it_is_unstacked(is_static):
    def size(number):
        return number if is_static else tf.placeholder_with_default(number, [])

    assert value_of(array(size(3)).unstack([1.0, 2]).stack()) == [1, 2, 0]
    assert value_of(array(size(3)).unstack([1.0, 2]).size()) == 3
    assert value_of(array(size(2)).unstack([1.0, 2]).stack()) == [1, 2]
    assert value_of(array(size(4)).unstack([1.0, 2]).write(3, 7.0).stack()) == [1, 2, 0, 7]
    assert value_of(array(size(3)).unstack([[1.0], [2.0]]).concat()) == [1, 2, 0]
    with pytest.raises(InvalidArgumentError, match="dynamic_size=True"):
        value_of(array(size(2)).unstack([1.0, 2, 3]).stack())
    for number, expected in ((0, [1, 2]), (1, [1, 2]), (4, [1, 2, 0, 0])):
        grown = array(size(number), dynamic_size=True).unstack([1.0, 2])
        assert value_of(grown.stack()) == expected


def test_rows_go_into_an_array_that_was_written_before():
    assert value_of(array(3).write(2, 5.0).unstack([1.0, 2]).stack()) == [1, 2, 5]
    with pytest.raises(InvalidArgumentError, match="already been written to"):
        value_of(array(3).write(0, 5.0).unstack([1.0, 2]).stack())


def test_scatter_and_split_keep_the_size():
    assert value_of(array(2, dynamic_size=True).scatter([0, 3], [1.0, 2]).size()) == 4
    with pytest.raises(InvalidArgumentError, match="write to index 3 but array is not resizeable"):
        value_of(array(2).scatter([0, 3], [1.0, 2]).stack())
    pieces = array(2, infer_shape=False).split([1.0, 2, 3], [1, 2])
    assert value_of(pieces.concat()) == [1, 2, 3]
    with pytest.raises(InvalidArgumentError, match="not equal to the size of lengths"):
        value_of(array(3, infer_shape=False).split([1.0, 2, 3], [1, 2]).concat())


def test_loops_write_the_rest():
    def body(index, values):
        return index + 1, values.write(index, tf.cast(index, tf.float32) * 10)

    start = array(4).unstack([1.0, 2])
    _, filled = tf.while_loop(lambda index, _: index < 4, body, [2, start])
    assert value_of(filled.stack()) == [1, 2, 20, 30]


@pytest.mark.parametrize("size", [3, None])
def test_gradients(size):
    x = tf.constant([1.0, 2])
    size = tf.placeholder_with_default(3, []) if size is None else size
    longer = array(size).unstack(x)
    loss = longer.stack() * [3.0, 4.0, 5.0]
    assert value_of(tf.gradients(loss, x)[0]) == [3, 4]
    loss = longer.write(2, x[0] * x[1]).stack() * [3.0, 4.0, 5.0]
    assert value_of(tf.gradients(loss, x)[0]) == [13, 9]
    assert value_of(tf.gradients(longer.read(1) * 7, x)[0]) == [0, 7]


def test_gradients_of_pushing_and_popping(graph):
    with tf.Session() as session:
        x, y = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
        attrs = {"element_dtype": tf.float32}
        handle = graph.apply("EmptyTensorList", ([2], -1), attrs)
        for value in (x, y * x):
            handle = graph.apply("TensorListPushBack", (handle, value), attrs)
        rest, last = graph.apply("TensorListPopBack", (handle, [2]), attrs)
        first = graph.apply("TensorListGetItem", (rest, 0, [2]), attrs)
        total = tf.reduce_sum(first * first + last * 5.0)
        found = session.run(tf.gradients(total, [x, y]))
    assert [each.tolist() for each in found] == [[17.0, 24.0], [5.0, 10.0]]
