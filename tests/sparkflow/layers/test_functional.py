import inspect

import pytest

import sparkflow as tf


def test_a_function_takes_what_its_class_takes_and_reuse() -> None:
    taken = [*inspect.signature(tf.layers.Conv2D).parameters.values()][:-1]
    inputs, *others, reuse = inspect.signature(tf.layers.conv2d).parameters.values()
    assert (inputs.name, others, reuse.name) == ("inputs", taken, "reuse")
    assert tf.layers.conv2d.__name__ == tf.layers.conv2d.__qualname__ == "conv2d"
    assert tf.layers.conv2d.__doc__ == (
        "A `Conv2D` layer applied to images [batch, height, width, channels]."
    )
    assert "reuse" not in inspect.signature(tf.layers.max_pooling2d).parameters


def test_arguments_go_by_position_and_by_name() -> None:
    tf.reset_default_graph()
    images = tf.placeholder(tf.float64, [2, 8, 8, 3])
    made = tf.layers.conv2d(images, 4, 3, 2, name="c")
    again = tf.layers.conv2d(images, filters=4, kernel_size=3, strides=2, name="c", reuse=True)
    assert made.shape.as_list() == again.shape.as_list() == [2, 3, 3, 4]
    assert made.dtype == tf.float64
    assert [v.name for v in tf.trainable_variables()] == ["c/kernel:0", "c/bias:0"]


@pytest.mark.parametrize(("given", "said"), [({}, "missing .*'filters'"), ({"a": 1}, "'a'")])
def test_wrong_arguments_are_told_with_the_name(given: dict[str, int], said: str) -> None:
    arguments = {"kernel_size": 1, "filters": 1, **given} if given else {}
    with pytest.raises(TypeError, match=rf"^conv2d\(\) .*{said}"):
        tf.layers.conv2d(tf.zeros([1, 4, 4, 1]), **arguments)


def test_steps_of_a_rank_are_the_default() -> None:
    for rank, kind in enumerate((tf.layers.Conv1D, tf.layers.Conv2D, tf.layers.Conv3D), 1):
        steps = inspect.signature(kind).parameters["strides"].default
        assert steps == ((1,) * rank if rank > 1 else 1)
        assert kind(1, 2).strides == (1,) * rank
