"""Fully connected layers, biases and dropout of `tf.contrib.layers`."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable
from typing import Any

import sparkflow as tf
from sparkflow.contrib.framework.scoped_arguments import add_arg_scope
from sparkflow.contrib.framework.variables import model_variable
from sparkflow.contrib.layers.initializers import xavier_initializer
from sparkflow.contrib.layers.variables import (
    collect_named_outputs,
    collections_of,
    finished,
    list_variable,
    variable_getter,
)
from sparkflow.layers.core import Dense, Dropout


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = xavier_initializer(),  # noqa: B008  (stateless)
    weights_regularizer: Any = None,
    biases_initializer: Any = tf.zeros_initializer(),  # noqa: B008  (stateless)
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """activation_fn(inputs · weights + biases).

    Args:
        inputs: [..., features].
        num_outputs: The size of the last dimension of the result.
        activation_fn: A function of a tensor, None for none.
        normalizer_fn: Used in place of the biases, such as `batch_norm`.
        normalizer_params: Its arguments.
        weights_initializer: As for `tf.get_variable`, as are the next three.
        weights_regularizer: See there.
        biases_initializer: See there; None for no biases.
        biases_regularizer: See there.
        reuse: Whether to use the variables that exist in `scope`.
        variables_collections: Collections for the variables: a list, or lists by variable name.
        outputs_collections: Collections for the result.
        trainable: Whether optimizers change the variables.
        scope: The variable scope; `fully_connected`, made unique, when None.

    Raises:
        ValueError: `num_outputs` is no integer, or the inputs have less than two dimensions.
    """
    if not isinstance(num_outputs, numbers.Integral):
        raise ValueError(
            "num_outputs type should be one of <class 'int'>, got "
            f"{type(num_outputs).__name__}: {num_outputs!r}."
        )
    getter = variable_getter({"bias": "biases", "kernel": "weights"})
    with tf.variable_scope(
        scope, "fully_connected", [inputs], reuse=reuse, custom_getter=getter
    ) as opened:
        inputs = tf.convert_to_tensor(inputs)
        layer = Dense(
            units=num_outputs,
            use_bias=not normalizer_fn and biases_initializer is not None,
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            trainable=trainable,
            name=opened.name,
            dtype=inputs.dtype.base_dtype,
            _scope=opened,
            _reuse=reuse,
        )
        outputs = layer(inputs)
        list_variable(layer.kernel, variables_collections, "weights")
        if layer.bias is not None:
            list_variable(layer.bias, variables_collections, "biases")
        return finished(
            outputs,
            normalizer_fn,
            normalizer_params,
            activation_fn,
            outputs_collections,
            opened.name,
        )


linear = functools.partial(fully_connected, activation_fn=None)
relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=tf.nn.relu6)


@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Any = None,
    initializer: Any = tf.zeros_initializer(),  # noqa: B008  (stateless)
    regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Any:
    """The inputs plus a bias per channel; arguments as for `fully_connected`.

    Raises:
        ValueError: Another data format, or the number of channels is not known.
    """
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with tf.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError("Dims of shape must be known but is None")
        if rank != 4 and data_format == "NCHW":
            raise ValueError("Data format NCHW only supports 4D Tensor")
        channels = inputs.shape.dims[1 if data_format == "NCHW" else -1].value
        if channels is None:
            raise ValueError("`C` dimension must be known but is None")
        biases = model_variable(
            "biases",
            shape=[channels],
            dtype=inputs.dtype.base_dtype,
            initializer=initializer,
            regularizer=regularizer,
            collections=collections_of(variables_collections, "biases"),
            trainable=trainable,
        )
        outputs = tf.nn.bias_add(inputs, biases, data_format=data_format)
        return finished(outputs, None, None, activation_fn, outputs_collections, opened.name)


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: Any = None,
    seed: int | None = None,
) -> Any:
    """In training the inputs with a share of 1 - `keep_prob` set to 0 and the others scaled up.

    Args:
        inputs: A tensor.
        keep_prob: The share that is kept.
        noise_shape: As for `tf.nn.dropout`.
        is_training: A flag or a boolean tensor.
        outputs_collections: Collections for the result.
        scope: The variable scope; `Dropout` when None.
        seed: As for `tf.nn.dropout`.
    """
    with tf.variable_scope(scope, "Dropout", [inputs], custom_getter=variable_getter()) as opened:
        inputs = tf.convert_to_tensor(inputs)
        layer = Dropout(
            rate=1 - keep_prob,
            noise_shape=noise_shape,
            seed=seed,
            name=opened.name,
            _scope=opened,
        )
        outputs = layer(inputs, training=is_training)
        return collect_named_outputs(outputs_collections, opened.name, outputs)


@add_arg_scope
def legacy_fully_connected(
    x: Any,
    num_output_units: int,
    activation_fn: Callable[[Any], Any] | None = None,
    weight_init: Any = xavier_initializer(),  # noqa: B008  (stateless)
    bias_init: Any = tf.zeros_initializer(),  # noqa: B008  (stateless)
    name: str | None = None,
    weight_collections: Any = (tf.GraphKeys.WEIGHTS,),
    bias_collections: Any = (tf.GraphKeys.BIASES,),
    output_collections: Any = (tf.GraphKeys.ACTIVATIONS,),
    trainable: bool = True,
    weight_regularizer: Any = None,
    bias_regularizer: Any = None,
) -> Any:
    """The first form of `fully_connected`, with variables `weights` and `bias`.

    Raises:
        ValueError: The rank or the number of features of `x` is not known.
    """
    with tf.variable_scope(name, "fully_connected", [x]):
        x = tf.convert_to_tensor(x)
        rank = x.shape.ndims
        if rank is None or rank < 2:
            raise ValueError(f"rank of x must be at least 2 not: {rank}")
        features = x.shape.dims[-1].value
        if features is None:
            raise ValueError("last dimension of x must be known but is None")
        dtype = x.dtype.base_dtype
        weights = tf.get_variable(
            "weights",
            [features, num_output_units],
            dtype,
            weight_init,
            collections=[*(weight_collections or ()), tf.GraphKeys.GLOBAL_VARIABLES],
            regularizer=weight_regularizer,
            trainable=trainable,
        )
        outputs = (
            tf.matmul(tf.reshape(x, [-1, features]), weights)
            if rank > 2
            else (tf.matmul(x, weights))
        )
        if bias_init is not None:
            bias = tf.get_variable(
                "bias",
                [num_output_units],
                dtype,
                bias_init,
                collections=[*(bias_collections or ()), tf.GraphKeys.GLOBAL_VARIABLES],
                regularizer=bias_regularizer,
                trainable=trainable,
            )
            outputs = tf.nn.bias_add(outputs, bias)
        if rank > 2:
            outputs = tf.reshape(outputs, tf.concat([tf.shape(x)[:-1], [num_output_units]], 0))
            outputs.set_shape([*x.shape.as_list()[:-1], num_output_units])
        return finished(
            outputs, None, None, activation_fn, list(output_collections or ()), name or ""
        )


legacy_linear = functools.partial(legacy_fully_connected, activation_fn=None)
legacy_relu = functools.partial(legacy_fully_connected, activation_fn=tf.nn.relu)
