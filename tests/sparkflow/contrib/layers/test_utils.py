"""`tf.contrib.layers.utils`: sizes, and results by the names given to them."""

import pytest

import sparkflow as tf
from sparkflow.contrib import layers, slim
from sparkflow.contrib.layers import utils

SHAPE = tf.TensorShape([None, 4, 3])


def test_sizes_of_shapes() -> None:
    assert utils.last_dimension(SHAPE, 3) == 3
    assert utils.channel_dimension(SHAPE, "NHWC") == 3
    assert utils.channel_dimension(SHAPE, "NCHW") == 4
    with pytest.raises(ValueError, match="rank of shape must be at least 4 not: 3"):
        utils.last_dimension(SHAPE, 4)
    with pytest.raises(ValueError, match="must be known but is None"):
        utils.last_dimension(tf.TensorShape([2, None]))
    with pytest.raises(ValueError, match="dims of shape must be known"):
        utils.last_dimension(tf.TensorShape(None))


def test_several_sizes_from_one() -> None:
    assert utils.two_element_tuple(3) == (3, 3)
    assert utils.two_element_tuple([1, 2]) == (1, 2)
    assert utils.two_element_tuple(tf.TensorShape([4, 5])) == (4, 5)
    assert utils.n_positive_integers(3, 2) == (2, 2, 2)
    assert utils.n_positive_integers(2, (1, 4)) == (1, 4)
    for wrong in ([1], [1, 2, 3]):
        with pytest.raises(ValueError, match="2"):
            utils.two_element_tuple(wrong)
    with pytest.raises(ValueError, match="positive"):
        utils.n_positive_integers(2, [1, 0])


def test_results_are_found_by_the_names_of_their_layers() -> None:
    assert slim.utils is layers.utils
    with tf.Graph().as_default(), tf.variable_scope("net") as scope:
        collection = scope.name + "_end_points"
        with slim.arg_scope([slim.fully_connected], outputs_collections=collection):
            last = slim.fully_connected(tf.zeros([2, 3]), 4, scope="fc")
        found = slim.utils.convert_collection_to_dict(collection)
        assert found == {"net/fc": last}
        other = slim.utils.collect_named_outputs(collection, "net/copy", tf.identity(last))
        assert slim.utils.convert_collection_to_dict(collection)["net/copy"] is other
