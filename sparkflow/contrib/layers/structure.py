"""Flattening, one-hot vectors, repeating and stacking layers, and their relatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sparkflow as tf
from sparkflow.contrib.framework.scoped_arguments import add_arg_scope
from sparkflow.contrib.framework.variables import model_variable
from sparkflow.contrib.layers.variables import collect_named_outputs, collections_of
from sparkflow.layers.core import flatten as _flatten


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> Any:
    """[batch, the product of the other sizes].

    Raises:
        ValueError: The inputs have no dimension.
    """
    with tf.name_scope(scope, "Flatten", [inputs]) as name:
        inputs = tf.convert_to_tensor(inputs)
        if inputs.shape.ndims == 0:
            raise ValueError("Inputs must have a least 1 dimension.")
        return collect_named_outputs(outputs_collections, name, _flatten(inputs))


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """One-hot vectors of integer labels.

    Args:
        labels: [batch] integers.
        num_classes: The size of the vectors.
        on_value: The value at the label.
        off_value: The value elsewhere.
        outputs_collections: Collections for the result.
        scope: The name scope.
    """
    with tf.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as name:
        labels = tf.convert_to_tensor(labels)
        if labels.dtype == tf.int32:
            labels = tf.cast(labels, tf.int64)
        outputs = tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return collect_named_outputs(outputs_collections, name, outputs)


@add_arg_scope
def softmax(logits: Any, scope: Any = None) -> Any:
    """Softmax over the last dimension."""
    with tf.variable_scope(scope, "softmax", [logits]):
        return tf.nn.softmax(logits)


@add_arg_scope
def repeat(
    inputs: Any, repetitions: int, layer: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """The same layer several times, one after another, in scopes `conv_1`, `conv_2`, ...

    Args:
        inputs: The first one's.
        repetitions: How many times.
        layer: A function of a tensor with an argument `scope`.
        args: Passed to each.
        kwargs: Passed to each; `scope` names the scopes.
    """
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Repeat", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        scope = scope or _name(layer, "repeat")
        outputs = inputs
        for index in range(repetitions):
            outputs = layer(outputs, *args, **{**kwargs, "scope": f"{scope}_{index + 1}"})
        return outputs


@add_arg_scope
def stack(inputs: Any, layer: Callable[..., Any], stack_args: Sequence[Any], **kwargs: Any) -> Any:
    """A layer several times with other arguments, one after another.

    Args:
        inputs: The first one's.
        layer: A function of a tensor with an argument `scope`.
        stack_args: The arguments of each.
        kwargs: Passed to each; `scope` names the scopes.
    """
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Stack", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        scope = scope or _name(layer, "stack")
        outputs = inputs
        for index, given in enumerate(stack_args):
            own = given if isinstance(given, list | tuple) else [given]
            outputs = layer(outputs, *own, **{**kwargs, "scope": f"{scope}_{index + 1}"})
        return outputs


def _name(layer: Callable[..., Any], default: str) -> str:
    function = getattr(layer, "func", layer)
    return str(getattr(function, "__name__", default))


@add_arg_scope
def maxout(inputs: Any, num_units: int, axis: int = -1, scope: str | None = None) -> Any:
    """The maxima of groups of channels (Goodfellow et al. 2013).

    Raises:
        ValueError: The number of channels is no multiple of `num_units`.
    """
    with tf.name_scope(scope, "MaxOut", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        sizes = inputs.shape.as_list()
        axis %= len(sizes)
        if sizes[axis] % num_units:
            raise ValueError(
                f"number of features({sizes[axis]}) is not a multiple of num_units({num_units})"
            )
        dims = tf.shape(inputs)
        grouped = tf.concat(
            [dims[:axis], [num_units, sizes[axis] // num_units], dims[axis + 1 :]], 0
        )
        outputs = tf.reduce_max(tf.reshape(inputs, grouped), axis + 1)
        outputs.set_shape([*sizes[:axis], num_units, *sizes[axis + 1 :]])
        return outputs


@add_arg_scope
def dense_to_sparse(
    tensor: Any, eos_token: Any = 0, outputs_collections: Any = None, scope: Any = None
) -> Any:
    """The elements other than `eos_token` as a sparse tensor."""
    with tf.variable_scope(scope, "dense_to_sparse", [tensor]) as opened:
        tensor = tf.convert_to_tensor(tensor)
        indices = tf.where(tf.not_equal(tensor, tf.constant(eos_token, tensor.dtype)))
        shape = tf.cast(tf.shape(tensor), tf.int64)
        outputs = tf.SparseTensor(indices, tf.gather_nd(tensor, indices), shape)
        return collect_named_outputs(outputs_collections, opened.name, outputs)


@add_arg_scope
def spatial_softmax(
    features: Any,
    temperature: Any = None,
    name: str | None = None,
    variables_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
) -> Any:
    """The expected position, from -1 to 1, of each channel's activation.

    Args:
        features: [batch, height, width, channels].
        temperature: Divides the features; a variable that starts at 1 when None.
        name: The variable scope.
        variables_collections: Collections for the temperature.
        trainable: Whether optimizers change the temperature.
        data_format: `NHWC` or `NCHW`.

    Returns:
        [batch, 2 * channels]: x and y of each channel.

    Raises:
        ValueError: Another data format, or an unknown size.
    """
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with tf.variable_scope(name, "spatial_softmax"):
        features = tf.convert_to_tensor(features)
        if data_format == "NHWC":
            features = tf.transpose(features, [0, 3, 1, 2])
        _, channels, height, width = features.shape.as_list()
        if None in (channels, height, width):
            raise ValueError(f"spatial_softmax needs known sizes, not {features.shape}")
        if temperature is None:
            temperature = model_variable(
                "temperature",
                shape=(),
                dtype=tf.float32,
                initializer=tf.ones_initializer(),
                collections=collections_of(variables_collections, "temperature"),
                trainable=trainable,
            )
        flat = tf.reshape(features, [-1, height * width])
        attention = tf.nn.softmax(flat / temperature)
        ys, xs = tf.meshgrid(
            tf.linspace(-1.0, 1.0, height), tf.linspace(-1.0, 1.0, width), indexing="ij"
        )
        expected = [
            tf.reduce_sum(tf.reshape(each, [-1]) * attention, [1], keepdims=True)
            for each in (xs, ys)
        ]
        outputs = tf.reshape(tf.concat(expected, 1), [-1, channels * 2])
        outputs.set_shape([None, channels * 2])
        return outputs
