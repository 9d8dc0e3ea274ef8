"""`tf.CriticalSection`: the order of its executions, and what it refuses."""

import pytest

import sparkflow as tf


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


def test_executions_of_a_step_run_in_order(session):
    section = tf.CriticalSection()
    v = tf.get_variable("v", [], initializer=tf.ones_initializer(), use_resource=True)
    doubled = section.execute(lambda: v.assign(v.read_value() * 2) + 0.0)
    raised = section.execute(lambda: v.assign_add(1.0) + 0.0)
    session.run(v.initializer)
    assert session.run([raised, doubled]) == [3.0, 2.0]


def test_an_execution_inside_of_another_is_refused(session):
    section = tf.CriticalSection(shared_name="one")
    same = tf.CriticalSection(shared_name="one")
    other = tf.CriticalSection()
    for inner in (section, same):
        with pytest.raises(ValueError, match="in which we are already running"):
            section.execute(lambda inner=inner: inner.execute(lambda: tf.constant(1.0)))
    nested = section.execute(lambda: other.execute(lambda: tf.constant(1.0)))  # and again usable
    assert session.run(nested) == 1.0
