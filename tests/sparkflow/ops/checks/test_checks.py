"""The output of failed checks and prints; when they fail is in golden/differential/checks.json."""

import re

import pytest

import sparkflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_an_assertion_names_both_tensors_and_the_message():
    x = tf.placeholder(tf.float32, [2], "x")
    check = tf.assert_less(x, 2.0, message="too large")
    wanted = "[too large] [Condition x < y did not hold element-wise:] [x (x:0) = ] [1 3]"
    with tf.Session() as session:
        session.run(check, {x: [1, 1]})
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(wanted)):
            session.run(check, {x: [1, 3]})


def test_what_the_graph_tells_fails_at_once():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)oh no.*Condition x == y"):
        tf.assert_equal(tf.constant([1, 2]), [1, 3], message="oh no")
    with pytest.raises(ValueError, match="must have rank 2"):
        tf.assert_rank(tf.zeros([3]), 2)


def test_assert_is_an_operation_in_a_scope():
    made = tf.Assert(tf.placeholder(tf.bool, []), ["a", 1.0], name="check")
    assert (made.type, made.name) == ("Assert", "check/Assert")


def test_shapes_are_checked_when_they_are_known():
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    check = tf.debugging.assert_shapes([(x, ("N", "D")), (y, ("N",)), (tf.zeros([]), ())])
    with tf.Session() as session:
        session.run(check, {x: [[1, 2]], y: [1]})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(check, {x: [[1, 2]], y: [1, 2]})


def test_numerics_are_checked_everywhere():
    x = tf.placeholder(tf.float32, [2], "x")
    tf.log(x, name="log")
    check = tf.add_check_numerics_ops()
    with tf.Session() as session:
        session.run(check, {x: [1, 2]})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"log:0 : Tensor had Inf"):
            session.run(check, {x: [1, 0]})


def test_prints_write_structures_of_tensors(capsys):
    x = tf.constant([1, 2, 3, 4, 5, 6, 7, 8])
    with tf.Session() as session:
        session.run(tf.print("x:", x, {"k": [x[0], "t"]}, summarize=1, end=";\n"))
        session.run(tf.print(tf.constant("plain")))
        shown = tf.Print(x, [tf.shape(x), x], "shape ", first_n=1)
        session.run(shown)
        session.run(shown)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["x: [1 ... 8] {'k': [1, 't']};", "plain", "shape [8][1 2 3...]"]
