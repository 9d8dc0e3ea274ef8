import pytest

import sparkflow as tf


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def test_there_is_one_counter_per_graph():
    assert tf.train.get_global_step() is None
    step = tf.train.get_or_create_global_step()
    assert tf.train.get_or_create_global_step() is step
    assert tf.train.get_global_step() is step
    assert [step.name, step.dtype.base, step.shape] == ["global_step:0", tf.int64, []]
    assert tf.trainable_variables() == []
    assert tf.global_variables() == [step]
    with pytest.raises(ValueError, match="already exists"):
        tf.train.create_global_step()


def test_it_is_made_outside_of_scopes():
    with tf.name_scope("a"):
        assert tf.train.create_global_step().name == "global_step:0"


def test_it_can_be_made_in_another_graph():
    other = tf.Graph()
    step = tf.train.create_global_step(other)
    assert step.graph is other
    assert tf.train.get_global_step() is None
    assert tf.train.get_global_step(other) is step


def test_what_is_registered_is_checked():
    tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, tf.constant(1.0))
    with pytest.raises(TypeError, match="does not have integer type: float32"):
        tf.train.get_global_step()
    tf.get_collection_ref(tf.GraphKeys.GLOBAL_STEP)[:] = [tf.constant([1])]
    with pytest.raises(TypeError, match="not scalar"):
        tf.train.get_global_step()
    tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, tf.constant(1))
    with pytest.raises(RuntimeError, match="Multiple items"):
        tf.train.get_global_step()
