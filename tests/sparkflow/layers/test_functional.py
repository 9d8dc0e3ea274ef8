import inspect

import numpy as np
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


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize(("strides", "dilation"), [(1, 1), (2, 1), (1, 3)])
def test_causal_outputs_see_nothing_that_comes_after_them(data_format, strides, dilation):
    values = np.random.default_rng(0).standard_normal((2, 9, 3)).astype(np.float32)
    led = np.pad(values, [(0, 0), (2 * dilation, 0), (0, 0)])
    expected = [
        led[:, at : at + 2 * dilation + 1 : dilation].sum((1, 2)) for at in range(0, 9, strides)
    ]
    first = data_format == "channels_first"
    ones = tf.ones_initializer()
    with tf.Graph().as_default(), tf.Session() as session:
        given = values.transpose(0, 2, 1) if first else values
        taken = (given, 1, 3, strides, "causal", data_format, dilation)
        whole = tf.layers.conv1d(*taken, kernel_initializer=ones)
        parts = tf.layers.separable_conv1d(
            *taken, depthwise_initializer=ones, pointwise_initializer=ones
        )
        layer = tf.layers.Conv1D(*taken[1:])
        assert layer.compute_output_shape(given.shape).as_list() == whole.shape.as_list()
        session.run(tf.global_variables_initializer())
        for found in session.run((whole, parts)):
            np.testing.assert_allclose(
                found[:, 0] if first else found[..., 0], np.stack(expected, 1), rtol=1e-5
            )


def test_only_sequences_are_causal():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="only for `Conv1D"):
        tf.layers.conv2d(tf.ones([1, 4, 4, 1]), 1, 2, padding="causal")
