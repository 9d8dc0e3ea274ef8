import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_variable_is_made_once_and_then_shared():
    with tf.variable_scope("layer") as scope:
        w = tf.get_variable("w", [2, 3])
        with pytest.raises(
            ValueError, match=r"layer/w already exists.*\n\n.*test_variable_scope.py:"
        ):
            tf.get_variable("w", [2, 3])
        scope.reuse_variables()
        assert tf.get_variable("w", [2, 3]) is w
    with tf.variable_scope("layer", reuse=True):
        assert tf.get_variable("w") is w
        with pytest.raises(ValueError, match="layer/v does not exist"):
            tf.get_variable("v", [1])
    with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("w") is w
        v = tf.get_variable("v", [1])
        assert tf.get_variable("v", [1]) is v


def test_sharing_checks_shape_and_dtype():
    tf.get_variable("w", [2, 3])
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        with pytest.raises(ValueError, match=r"specified shape \(3, 2\) and found shape \(2, 3\)"):
            tf.get_variable("w", [3, 2])
        with pytest.raises(ValueError, match="specified dtype float64 and found dtype float32"):
            tf.get_variable("w", [2, 3], tf.float64)


def test_reuse_reaches_inner_scopes():
    with tf.variable_scope("a"), tf.variable_scope("b"):
        w = tf.get_variable("w", [1])
    with tf.variable_scope("a", reuse=True), tf.variable_scope("b"):
        assert tf.get_variable("w") is w


def test_names_of_variables_and_of_nodes():
    with tf.name_scope("ops"), tf.variable_scope("s"):
        assert tf.get_variable("w", [1]).name == "s/w:0"
        assert tf.constant(1.0).name == "ops/s/Const:0"
    with tf.variable_scope("s", reuse=True) as scope:
        assert tf.constant(1.0).name == "s/Const:0"
        assert scope.original_name_scope == "s/"
    with tf.variable_scope("t", auxiliary_name_scope=False):
        assert tf.constant(1.0).name == "Const:0"


def test_default_names_count_up():
    names = []
    for _ in range(2):
        with tf.variable_scope(None, "dense") as scope:
            names.append(scope.name)
            with tf.variable_scope(None, "inner") as inner:
                names.append(inner.name)
    assert names == ["dense", "dense/inner", "dense_1", "dense_1/inner"]
    with pytest.raises(TypeError, match="name_or_scope is required"):
        tf.variable_scope(None).__enter__()
    with pytest.raises(ValueError, match="reuse=True"):
        tf.variable_scope(None, "d", reuse=True).__enter__()


def test_a_scope_can_be_entered_again_from_elsewhere():
    with tf.variable_scope("a") as a:
        w = tf.get_variable("w", [1])
    with tf.variable_scope("b"), tf.variable_scope(a, reuse=True):
        assert tf.get_variable("w") is w
        assert tf.get_variable_scope().name == "a"
    assert tf.get_variable_scope().name == ""


def test_defaults_of_the_scope(graph):
    with tf.variable_scope(
        "s",
        initializer=tf.constant_initializer(3.0),
        regularizer=lambda w: tf.reduce_sum(w) * 0.5,
        dtype=tf.float64,
    ):
        w = tf.get_variable("w", [2])
        v = tf.get_variable("v", [2], tf.float32, regularizer=tf.no_regularizer)
    assert [w.dtype.base, v.dtype.base] == [tf.float64, tf.float32]
    losses = graph.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(losses) == [3.0]
        np.testing.assert_array_equal(session.run(v), [3, 3])


def test_constants_as_initialisers():
    w = tf.get_variable("w", initializer=np.array([1.0, 2.0]))
    assert w.shape == [2]
    assert w.dtype.base is tf.float64
    with pytest.raises(ValueError, match="do not specify shape"):
        tf.get_variable("v", [2], initializer=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"must be fully defined, but instead was \(\?, 2\)"):
        tf.get_variable("u", [None, 2])
    with pytest.raises(ValueError, match="is required"):
        tf.get_variable("t", [2], tf.complex64)


def test_custom_getters_see_the_full_name():
    seen = []

    def getter(make, name, **arguments):
        seen.append(name)
        return make(name, **{**arguments, "trainable": False})

    with tf.variable_scope("s", custom_getter=getter):
        tf.get_variable("w", [1])
    assert seen == ["s/w"]
    assert tf.trainable_variables() == []


def test_lists_of_a_scope():
    with tf.variable_scope("a") as a:
        w = tf.get_variable("w", [1])
    tf.get_variable("v", [1])
    assert a.trainable_variables() == [w]
    assert a.global_variables() == [w]


def test_graphs_do_not_share():
    w = tf.get_variable("w", [1])
    with tf.Graph().as_default():
        assert tf.get_variable("w", [1]) is not w


def test_partitioned_variables_are_found_again_without_their_partitioner():
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
        made = tf.get_variable("w", [4, 2])
    with tf.variable_scope("a", reuse=True):
        assert tf.get_variable("w", [4, 2]) is made
        assert tf.get_variable("w") is made
        with pytest.raises(ValueError, match="specified shape"):
            tf.get_variable("w", [5, 2])
    for reuse in (tf.AUTO_REUSE, False):  # TensorFlow itself requires reuse=True
        with (
            tf.variable_scope("a", reuse=reuse),
            pytest.raises(ValueError, match="No partitioner was provided"),
        ):
            tf.get_variable("w", [4, 2])


@pytest.mark.parametrize("trainable", [None, False, True])
def test_on_read_is_not_trainable_unless_asked_for(trainable):
    on_read = tf.VariableSynchronization.ON_READ
    made = [
        tf.get_variable("v", [1], trainable=trainable, synchronization=on_read),
        tf.Variable([1.0], trainable=trainable, synchronization=on_read),
    ]
    assert [each.trainable for each in made] == [bool(trainable)] * 2
    assert tf.trainable_variables() == (made if trainable else [])
