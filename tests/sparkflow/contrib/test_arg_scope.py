import pytest

import sparkflow as tf
from sparkflow.contrib.framework import (
    add_arg_scope,
    arg_scope,
    arg_scoped_arguments,
    has_arg_scope,
)


@add_arg_scope
def first(*args, **kwargs):
    return args, kwargs


@add_arg_scope
def second(a, b=1, c=None):
    return a, b, c


def test_arguments_of_scopes_are_defaults_and_inner_scopes_win():
    with arg_scope([first, second], b=2):
        assert second(0) == (0, 2, None)
        assert second(0, b=5) == (0, 5, None)
        with arg_scope([second], c=3, b=4):
            assert second(0) == (0, 4, 3)
            assert first(7) == ((7,), {"b": 2})
        assert second(0) == (0, 2, None)
    assert second(0) == (0, 1, None)


def test_a_scope_can_be_entered_again():
    with arg_scope([second], b=2) as scope:
        pass
    with arg_scope([second], c=9), arg_scope(scope):
        assert second(0) == (0, 2, None)
    with pytest.raises(ValueError, match="kwargs must be empty"), arg_scope(scope, b=1):
        pass


def test_only_decorated_functions_in_a_list_are_taken():
    with pytest.raises(ValueError, match="not decorated with @add_arg_scope"), arg_scope([len]):
        pass
    message = "must either be a list/tuple or reused scope"
    with pytest.raises(TypeError, match=message), arg_scope(second, b=1):
        pass
    assert has_arg_scope(second)
    assert not has_arg_scope(len)
    assert arg_scoped_arguments(second) == ("b", "c")


def test_variables_are_chosen_by_scope_and_suffix():
    framework = tf.contrib.framework
    with tf.Graph().as_default():
        with tf.variable_scope("A"):
            a = framework.model_variable("a", [5])
        with tf.variable_scope("B"):
            b = framework.variable("a", [5])
        assert framework.get_model_variables() == [a]
        assert framework.get_variables("B") == [b]
        assert framework.get_variables_by_suffix("a") == [a, b]
        assert framework.get_variables_to_restore(exclude=["A"]) == [b]
        assert framework.get_unique_variable("B/a") is b
        with pytest.raises(ValueError, match="Couldn't find variable C"):
            framework.get_unique_variable("C")


def test_variables_are_assigned_from_arrays_and_checkpoints(tmp_path):
    framework = tf.contrib.framework
    with tf.Graph().as_default(), tf.Session() as session:
        v = framework.variable("v", [2], initializer=tf.zeros_initializer())
        operation, feeds = framework.assign_from_values({"v": [1.0, 2.0]})
        session.run(operation, feeds)
        assert session.run(v).tolist() == [1.0, 2.0]
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        session.run(tf.global_variables_initializer())
        framework.assign_from_checkpoint_fn(path, [v])(session)
        assert session.run(v).tolist() == [1.0, 2.0]
        with pytest.raises(ValueError, match="missing variable"):
            framework.assign_from_checkpoint(path, {"other": v})
        operation, feeds = framework.assign_from_checkpoint(path, {"v": [v]})
        session.run(v.assign([0.0, 0.0]))
        session.run(operation, feeds)
        assert session.run(v).tolist() == [1.0, 2.0]


def test_shapes_are_checked_now_or_in_the_step():
    with_shape = tf.contrib.framework.with_shape
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(ValueError, match="Wrong shape"):
            with_shape([3], tf.zeros([2]))
        x = tf.placeholder(tf.float32)
        checked = with_shape([2], x)
        assert checked.shape.as_list() == [2]
        assert session.run(checked, {x: [1, 2]}).tolist() == [1, 2]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Wrong shape"):
            session.run(checked, {x: [1]})
