"""Templates: names of variables and nodes are those of TensorFlow 2.21's version 1 interface."""

import pytest

import sparkflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def add_bias(x):
    return x + tf.get_variable("b", [1])


def names(*tensors):
    return [tensor.name for tensor in tensors]


def test_a_scope_that_is_opened_at_once_names_nodes_at_the_calls():
    first = tf.make_template("t", add_bias, create_scope_now_=True)
    second = tf.make_template("t", add_bias, create_scope_now_=True)
    zeros = tf.zeros([1])
    made = names(second(zeros), first(zeros), first(zeros))
    assert made == ["t_1/add:0", "t/add:0", "t_2/add:0"]
    assert names(*tf.global_variables()) == ["t_1/b:0", "t/b:0"]
    assert first.variable_scope.name == first.var_scope.name == "t"


def test_a_scope_that_is_opened_at_the_first_call():
    first, second = tf.make_template("t", add_bias), tf.make_template("t", add_bias)
    zeros = tf.zeros([1])
    assert first.var_scope is None
    made = names(second(zeros), first(zeros), first(zeros))
    assert made == ["t/add:0", "t_1/add:0", "t_1_1/add:0"]
    assert names(*tf.global_variables()) == ["t/b:0", "t_1/b:0"]


def test_variables_stay_where_the_scope_was_opened():
    with tf.variable_scope("o"):
        template = tf.make_template("t", add_bias, create_scope_now_=True)
    with tf.variable_scope("p"):
        made = names(template(tf.zeros([1])), template(tf.zeros([1])))
    assert made == ["p/t/add:0", "p/t_1/add:0"]
    assert names(*tf.global_variables()) == ["o/t/b:0"]


def test_a_later_call_makes_no_variables():
    left = ["a", "b"]
    template = tf.make_template("t", lambda: tf.get_variable(left.pop(0), [1]))
    template()
    with pytest.raises(ValueError, match="does not exist"):
        template()
