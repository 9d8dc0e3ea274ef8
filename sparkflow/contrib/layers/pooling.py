"""Poolings of `tf.contrib.layers`."""

from __future__ import annotations

from typing import Any

import sparkflow as tf
from sparkflow.contrib.framework.scoped_arguments import add_arg_scope
from sparkflow.contrib.layers.convolution import channels_format
from sparkflow.contrib.layers.variables import collect_named_outputs
from sparkflow.layers.pooling import (
    AveragePooling2D,
    AveragePooling3D,
    MaxPooling2D,
    MaxPooling3D,
)


def _pooled(kind: Any, default: str, formats: tuple[str, str], given: dict[str, Any]) -> Any:
    if given["data_format"] not in formats:
        raise ValueError(f"data_format has to be either {formats[1]} or {formats[0]}.")
    with tf.name_scope(given["scope"], default, [given["inputs"]]) as name:
        layer = kind(
            pool_size=given["kernel_size"],
            strides=given["stride"],
            padding=given["padding"],
            data_format=channels_format(given["data_format"]),
            _scope=name,
        )
        outputs = layer(tf.convert_to_tensor(given["inputs"]))
        return collect_named_outputs(given["outputs_collections"], name, outputs)


@add_arg_scope
def max_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """The maxima of windows over two dimensions.

    Args:
        inputs: [batch, height, width, channels].
        kernel_size: A number or two.
        stride: A number or two.
        padding: `SAME` or `VALID`.
        data_format: `NHWC` or `NCHW`.
        outputs_collections: Collections for the result.
        scope: The name scope; `MaxPool2D` when None.

    Raises:
        ValueError: Another data format.
    """
    return _pooled(MaxPooling2D, "MaxPool2D", ("NHWC", "NCHW"), locals())


@add_arg_scope
def avg_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """The means of windows over two dimensions; arguments as for `max_pool2d`.

    Raises:
        ValueError: Another data format.
    """
    return _pooled(AveragePooling2D, "AvgPool2D", ("NHWC", "NCHW"), locals())


@add_arg_scope
def max_pool3d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NDHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """The maxima of windows over three dimensions; arguments as for `max_pool2d`.

    Raises:
        ValueError: Another data format.
    """
    return _pooled(MaxPooling3D, "MaxPool3D", ("NDHWC", "NCDHW"), locals())


@add_arg_scope
def avg_pool3d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NDHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """The means of windows over three dimensions; arguments as for `max_pool2d`.

    Raises:
        ValueError: Another data format.
    """
    return _pooled(AveragePooling3D, "AvgPool3D", ("NDHWC", "NCDHW"), locals())


@add_arg_scope
def pool(
    inputs: Any,
    kernel_size: Any,
    pooling_type: str,
    padding: str = "VALID",
    data_format: str | None = None,
    dilation_rate: Any = 1,
    stride: Any = 1,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """Like `tf.nn.pool`; one number sets the window in all dimensions.

    Raises:
        ValueError: The rank of the inputs is not known or less than 3.
    """
    with tf.name_scope(scope, f"{pooling_type.lower()}_pool", [inputs]) as name:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError("Rank of inputs must be known")
        if rank < 3:
            raise ValueError("Rank of inputs must be >= 3")
        dims = rank - 2

        def each(given: Any) -> list[int]:
            return [given] * dims if isinstance(given, int) else list(given)

        outputs = tf.nn.pool(
            inputs,
            window_shape=each(kernel_size),
            pooling_type=pooling_type,
            padding=padding,
            data_format=data_format,
            dilation_rate=each(dilation_rate),
            strides=each(stride),
        )
        return collect_named_outputs(outputs_collections, name, outputs)
