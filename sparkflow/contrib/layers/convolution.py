"""Convolutions of `tf.contrib.layers`.

Arguments that are not described have the meaning they have for `fully_connected`; `stride`, `rate`
and `kernel_size` are a number or one per spatial dimension.
"""

from __future__ import annotations

import functools
from typing import Any

import sparkflow as tf
from sparkflow.contrib.framework.scoped_arguments import add_arg_scope
from sparkflow.contrib.framework.variables import model_variable
from sparkflow.contrib.layers.initializers import xavier_initializer
from sparkflow.contrib.layers.variables import (
    collections_of,
    finished,
    list_variable,
    variable_getter,
)
from sparkflow.layers.convolutional import Conv1D, Conv2D, Conv3D
from sparkflow.layers.input_spec import normalized_tuple
from sparkflow.layers.separable import SeparableConv2D
from sparkflow.layers.transposed import Conv2DTranspose, Conv3DTranspose

_FORMATS = (None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW")
_NAMES = {"bias": "biases", "kernel": "weights"}
_xavier = xavier_initializer()
_zeros = tf.zeros_initializer()


def channels_format(data_format: str | None) -> str:
    """`channels_first` or `channels_last`."""
    return "channels_first" if data_format and data_format.startswith("NC") else "channels_last"


@add_arg_scope
def convolution(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = _xavier,
    weights_regularizer: Any = None,
    biases_initializer: Any = _zeros,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    conv_dims: int | None = None,
) -> Any:
    """activation_fn(inputs convolved with `weights` + `biases`).

    Args:
        inputs: [batch, ..., channels], or with the channels after the batch, see `data_format`.
        num_outputs: The number of output channels.
        kernel_size: The size of the window.
        stride: The step of the window.
        padding: `SAME` or `VALID`.
        data_format: `NHWC` or `NCHW`, and alike for other ranks.
        rate: The dilation of the window.
        activation_fn: See `fully_connected`, as for the others.
        normalizer_fn: See there.
        normalizer_params: See there.
        weights_initializer: See there.
        weights_regularizer: See there.
        biases_initializer: See there.
        biases_regularizer: See there.
        reuse: See there.
        variables_collections: See there.
        outputs_collections: See there.
        trainable: See there.
        scope: The variable scope; `Conv`, made unique, when None.
        conv_dims: The number of spatial dimensions, checked.

    Raises:
        ValueError: Another data format or rank.
    """
    if data_format not in _FORMATS:
        raise ValueError(f"Invalid data_format: {data_format!r}")
    getter = variable_getter(_NAMES)
    with tf.variable_scope(scope, "Conv", [inputs], reuse=reuse, custom_getter=getter) as opened:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if conv_dims is not None and conv_dims + 2 != rank:
            raise ValueError(f"Convolution expects input with rank {conv_dims + 2}, got {rank}")
        layers: dict[Any, Any] = {3: Conv1D, 4: Conv2D, 5: Conv3D}
        if rank not in layers:
            raise ValueError(f"Convolution not supported for input with rank {rank}")
        layer = layers[rank](
            filters=num_outputs,
            kernel_size=kernel_size,
            strides=stride,
            padding=padding,
            data_format=channels_format(data_format),
            dilation_rate=rate,
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


def _of_rank(dims: int) -> Any:
    @functools.wraps(convolution.__wrapped__)  # type: ignore[attr-defined]
    def of_rank(inputs: Any, num_outputs: int, kernel_size: Any, *args: Any, **kwargs: Any) -> Any:
        return convolution(inputs, num_outputs, kernel_size, *args, conv_dims=dims, **kwargs)

    of_rank.__name__ = of_rank.__qualname__ = f"convolution{dims}d"
    return add_arg_scope(of_rank)


convolution1d, convolution2d, convolution3d = (_of_rank(dims) for dims in (1, 2, 3))
conv1d, conv2d, conv3d = convolution1d, convolution2d, convolution3d


@add_arg_scope
def convolution2d_in_plane(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = _xavier,
    weights_regularizer: Any = None,
    biases_initializer: Any = _zeros,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """The same window [height, width, 1, 1] over every channel; arguments as for `convolution`."""
    with tf.variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        dtype = inputs.dtype.base_dtype
        height, width = normalized_tuple(kernel_size, 2, "kernel_size")
        down, right = normalized_tuple(stride, 2, "stride")
        channels = inputs.shape.dims[-1].value
        weights = model_variable(
            "weights",
            shape=[height, width, 1, 1],
            dtype=dtype,
            initializer=weights_initializer,
            regularizer=weights_regularizer,
            collections=collections_of(variables_collections, "weights"),
            trainable=trainable,
        )
        outputs = tf.nn.depthwise_conv2d(
            inputs, tf.tile(weights, [1, 1, channels, 1]), [1, down, right, 1], padding
        )
        if normalizer_fn is None and biases_initializer is not None:
            biases = model_variable(
                "biases",
                shape=[channels],
                dtype=dtype,
                initializer=biases_initializer,
                regularizer=biases_regularizer,
                collections=collections_of(variables_collections, "biases"),
                trainable=trainable,
            )
            outputs = tf.nn.bias_add(outputs, biases)
        return finished(
            outputs,
            normalizer_fn,
            normalizer_params,
            activation_fn,
            outputs_collections,
            opened.name,
        )


conv2d_in_plane = convolution2d_in_plane


def _transposed(kind: Any, default: str, inputs: Any, scope: Any, given: dict[str, Any]) -> Any:
    getter = variable_getter(_NAMES)
    with tf.variable_scope(
        scope, default, [inputs], reuse=given["reuse"], custom_getter=getter
    ) as opened:
        if given["data_format"] not in _FORMATS:
            raise ValueError(
                f"data_format has to be either NCHW or NHWC, not {given['data_format']}"
            )
        inputs = tf.convert_to_tensor(inputs)
        layer = kind(
            filters=given["num_outputs"],
            kernel_size=given["kernel_size"],
            strides=given["stride"],
            padding=given["padding"],
            data_format=channels_format(given["data_format"]),
            use_bias=not given["normalizer_fn"] and given["biases_initializer"] is not None,
            kernel_initializer=given["weights_initializer"],
            bias_initializer=given["biases_initializer"],
            kernel_regularizer=given["weights_regularizer"],
            bias_regularizer=given["biases_regularizer"],
            trainable=given["trainable"],
            name=opened.name,
            dtype=inputs.dtype.base_dtype,
            _scope=opened,
            _reuse=given["reuse"],
        )
        outputs = layer(inputs)
        list_variable(layer.kernel, given["variables_collections"], "weights")
        if layer.bias is not None:
            list_variable(layer.bias, given["variables_collections"], "biases")
        return finished(
            outputs,
            given["normalizer_fn"],
            given["normalizer_params"],
            given["activation_fn"],
            given["outputs_collections"],
            opened.name,
        )


@add_arg_scope
def convolution2d_transpose(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = _xavier,
    weights_regularizer: Any = None,
    biases_initializer: Any = _zeros,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """The transpose of a convolution over two dimensions; arguments as for `convolution`.

    Raises:
        ValueError: Another data format.
    """
    given = {k: v for k, v in locals().items() if k not in ("inputs", "scope")}
    return _transposed(Conv2DTranspose, "Conv2d_transpose", inputs, scope, given)


@add_arg_scope
def convolution3d_transpose(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NDHWC",
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = _xavier,
    weights_regularizer: Any = None,
    biases_initializer: Any = _zeros,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """The transpose of a convolution over three dimensions; arguments as for `convolution`.

    Raises:
        ValueError: Another data format.
    """
    given = {k: v for k, v in locals().items() if k not in ("inputs", "scope")}
    return _transposed(Conv3DTranspose, "Conv3d_transpose", inputs, scope, given)


conv2d_transpose, conv3d_transpose = convolution2d_transpose, convolution3d_transpose


@add_arg_scope
def separable_convolution2d(
    inputs: Any,
    num_outputs: int | None,
    kernel_size: Any,
    depth_multiplier: int = 1,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = _xavier,
    pointwise_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = _zeros,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """A convolution per channel, then one that mixes channels; arguments as for `convolution`.

    Args:
        inputs: [batch, height, width, channels].
        num_outputs: The number of output channels; None to leave out the mixing.
        kernel_size: The size of the window.
        depth_multiplier: The number of results per channel before the mixing.
        stride: The step of the window.
        padding: `SAME` or `VALID`.
        data_format: `NHWC` or `NCHW`.
        rate: The dilation of the window.
        activation_fn: See `fully_connected`, as for the others.
        normalizer_fn: See there.
        normalizer_params: See there.
        weights_initializer: For `depthwise_weights`.
        pointwise_initializer: For `pointwise_weights`; as the other one when None.
        weights_regularizer: For both.
        biases_initializer: See `fully_connected`.
        biases_regularizer: See there.
        reuse: See there.
        variables_collections: See there.
        outputs_collections: See there.
        trainable: See there.
        scope: The variable scope; `SeparableConv2d` when None.

    Raises:
        ValueError: Another data format.
    """
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    pointwise_initializer = pointwise_initializer or weights_initializer
    names = {
        "bias": "biases",
        "depthwise_kernel": "depthwise_weights",
        "pointwise_kernel": "pointwise_weights",
    }
    with tf.variable_scope(
        scope, "SeparableConv2d", [inputs], reuse=reuse, custom_getter=variable_getter(names)
    ) as opened:
        inputs = tf.convert_to_tensor(inputs)
        if num_outputs is not None:
            layer = SeparableConv2D(
                filters=num_outputs,
                kernel_size=kernel_size,
                strides=stride,
                padding=padding,
                data_format=channels_format(data_format),
                dilation_rate=normalized_tuple(rate, 2, "rate"),
                depth_multiplier=depth_multiplier,
                use_bias=not normalizer_fn and biases_initializer is not None,
                depthwise_initializer=weights_initializer,
                pointwise_initializer=pointwise_initializer,
                bias_initializer=biases_initializer,
                depthwise_regularizer=weights_regularizer,
                pointwise_regularizer=weights_regularizer,
                bias_regularizer=biases_regularizer,
                trainable=trainable,
                name=opened.name,
                dtype=inputs.dtype.base_dtype,
                _scope=opened,
                _reuse=reuse,
            )
            outputs = layer(inputs)
            list_variable(layer.depthwise_kernel, variables_collections, "weights")
            list_variable(layer.pointwise_kernel, variables_collections, "weights")
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
        first = data_format == "NCHW"
        channels = inputs.shape.dims[1 if first else 3].value
        height, width = normalized_tuple(kernel_size, 2, "kernel_size")
        down, right = normalized_tuple(stride, 2, "stride")
        depthwise = model_variable(
            "depthwise_weights",
            shape=[height, width, channels, depth_multiplier],
            dtype=inputs.dtype.base_dtype,
            initializer=weights_initializer,
            regularizer=weights_regularizer,
            trainable=trainable,
            collections=collections_of(variables_collections, "weights"),
        )
        outputs = tf.nn.depthwise_conv2d(
            inputs,
            depthwise,
            [1, 1, down, right] if first else [1, down, right, 1],
            padding,
            rate=normalized_tuple(rate, 2, "rate"),
            data_format=data_format,
        )
        if normalizer_fn is None and biases_initializer is not None:
            biases = model_variable(
                "biases",
                shape=[channels * depth_multiplier],
                dtype=inputs.dtype.base_dtype,
                initializer=biases_initializer,
                regularizer=biases_regularizer,
                trainable=trainable,
                collections=collections_of(variables_collections, "biases"),
            )
            outputs = tf.nn.bias_add(outputs, biases, data_format=data_format)
        return finished(
            outputs,
            normalizer_fn,
            normalizer_params,
            activation_fn,
            outputs_collections,
            opened.name,
        )


separable_conv2d = separable_convolution2d
