"""Convolution over one, two and three dimensions, plain, depthwise and separable.

Transposed convolutions are in `transposed_convolution`, pooling in `pooling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.convolution.convolution import *  # noqa: F403
from sparkflow._generated.ops.convolution.convolution import conv3d_backprop_filter
from sparkflow.graph.scopes import convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.convolution.window_arguments import (
    is_channels_first,
    padding_attrs,
    per_dimension,
    spatial_format,
)
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays


@export("nn.conv1d")
def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The convolution of sequences with filters.

    Args:
        value: [batch, width, channels], or `NCW` as `data_format` says.
        filters: [width, in channels, out channels].
        stride: A number.
        padding: `SAME` or `VALID`.
        use_cudnn_on_gpu: Accepted for TensorFlow's sake.
        data_format: `NWC` or `NCW`.
        name: Name of the scope.
        input: The newer name of `value`.
        dilations: The distance of the filter's elements.

    Raises:
        ValueError: The data format is another; channels or sizes do not fit.
    """
    value = either("input", input, "value", value)
    if data_format not in (None, "NHWC", "NWC", "NCHW", "NCW"):
        raise ValueError(f'data_format must be "NWC" or "NCW", got {data_format!r}')
    first = is_channels_first(data_format)
    layout, axis = ("NCHW", 2) if first else ("NHWC", 1)
    graph = graph_of((value, filters))
    with graph.as_default(), graph.name_scope(name or "conv1d"):
        images = arrays.expand_dims(convert_to_tensor(value), axis)
        wide = arrays.expand_dims(convert_to_tensor(filters), 0)
        steps = per_dimension(stride, 1, "NCW" if first else "NWC", "stride")
        spread = per_dimension(dilations, 1, "NCW" if first else "NWC", "dilations")
        steps.insert(axis, 1)
        spread.insert(axis, 1)
        result = conv2d(images, wide, steps, padding, data_format=layout, dilations=spread)
        return arrays.squeeze(result, [axis])


@export("nn.conv2d")
def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """The convolution of images with filters.

    Args:
        input: [batch, height, width, channels], or `NCHW` as `data_format` says.
        filter: [height, width, in channels, out channels].
        filters: [height, width, in channels, out channels].
        strides: One per dimension of `input`; or one or two for height and width.
        padding: `SAME` (zeros around, output of size ceil(size / stride)), `VALID` (none), or a
            pair (before, after) per dimension.
        use_cudnn_on_gpu: Accepted for TensorFlow's sake.
        data_format: `NHWC` or `NCHW`.
        dilations: The distance of the filter's elements, one per dimension.
        name: Name of the node.

    Returns:
        [batch, out height, out width, out channels], or `NCHW`.

    Raises:
        ValueError: Channels or sizes do not fit.
    """
    data_format = data_format or "NHWC"
    return output_of(
        "Conv2D",
        input,
        either("filters", filters, "filter", filter),
        strides=per_dimension(strides, 2, data_format, "strides"),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        **padding_attrs(padding),
        data_format=data_format,
        dilations=per_dimension(dilations, 2, data_format, "dilations"),
        name=name,
    )


@export("nn.conv2d_backprop_input")
def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """The gradient of `conv2d` with respect to its images, of the shape `input_sizes`."""
    return output_of(
        "Conv2DBackpropInput",
        input_sizes,
        either("filters", filters, "filter", filter),
        out_backprop,
        strides=per_dimension(strides, 2, data_format, "strides"),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        **padding_attrs(padding),
        data_format=data_format,
        dilations=per_dimension(dilations, 2, data_format, "dilations"),
        name=name,
    )


@export("nn.conv2d_backprop_filter")
def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv2d` with respect to its filter, of the shape `filter_sizes`."""
    return output_of(
        "Conv2DBackpropFilter",
        input,
        filter_sizes,
        out_backprop,
        strides=per_dimension(strides, 2, data_format, "strides"),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        **padding_attrs(padding),
        data_format=data_format,
        dilations=per_dimension(dilations, 2, data_format, "dilations"),
        name=name,
    )


@export("nn.conv3d")
def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: Sequence[int] = (1, 1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """The convolution of volumes [batch, depth, height, width, channels] with filters.

    Arguments as for `conv2d`, the filters [depth, height, width, in channels, out channels].
    """
    return output_of(
        "Conv3D",
        input,
        either("filters", filters, "filter", filter),
        strides=list(strides),
        padding=padding,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
    )


conv3d_backprop_filter_v2 = conv3d_backprop_filter


@export("nn.convolution")
def convolution(
    input: Any,
    filter: Any = None,
    padding: Any = None,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The convolution over as many dimensions as the filter has.

    Args:
        input: [batch, ..., channels], or channels second for a `data_format` that starts with NC.
        filter: [..., in channels, out channels].
        padding: `SAME` or `VALID`.
        strides: One per spatial dimension.
        dilation_rate: One per spatial dimension.
        name: Name of the scope.
        data_format: None for channels last.
        filters: The newer name of `filter`.
        dilations: The newer name of `dilation_rate`.

    Raises:
        ValueError: The rank is not known or none of 3 to 5; sizes do not fit.
    """
    kernel = convert_to_tensor(either("filters", filters, "filter", filter), name="filter")
    rates = either("dilations", dilations, "dilation_rate", dilation_rate)
    graph = graph_of((input, kernel))
    with graph.as_default(), graph.name_scope(name or "convolution") as scope:
        values = convert_to_tensor(input, name="input")
        ranks = [len(t._shape) for t in (kernel, values) if t._shape is not None]
        if not ranks:
            raise ValueError("rank of input or filter must be known")
        if len(set(ranks)) != 1 or ranks[0] not in (3, 4, 5):
            raise ValueError(
                f"input and filter must have the same rank of 3, 4 or 5, but have shapes "
                f"{values.shape} and {kernel.shape}"
            )
        spatial = ranks[0] - 2
        layout = spatial_format(spatial, is_channels_first(data_format))
        if spatial == 1:
            return conv1d(
                values, kernel, strides, padding, data_format=layout, name=scope, dilations=rates
            )
        steps = per_dimension(strides, spatial, layout, "strides")
        spread = per_dimension(rates, spatial, layout, "dilation_rate")
        function: Any = conv2d if spatial == 2 else conv3d
        result: Tensor = function(
            values, kernel, steps, padding, data_format=layout, dilations=spread, name=scope
        )
        return result


@export("nn.atrous_conv2d")
def atrous_conv2d(
    value: Any, filters: Any, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """`conv2d` with `rate` - 1 zeros between the filter's elements, stride 1, channels last.

    Raises:
        ValueError: The rate is not positive.
    """
    if rate < 1:
        raise ValueError(f"rate {rate} cannot be less than one")
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


@export("nn.depthwise_conv2d_native")
def depthwise_conv2d_native(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Each channel convolved with filters of its own, see `depthwise_conv2d`."""
    return output_of(
        "DepthwiseConv2dNative",
        input,
        filter,
        strides=list(strides),
        **padding_attrs(padding),
        data_format=data_format,
        dilations=list(dilations),
        name=name,
    )


@export("nn.depthwise_conv2d_native_backprop_input", "nn.depthwise_conv2d_backprop_input")
def depthwise_conv2d_native_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `depthwise_conv2d_native` with respect to its images."""
    return output_of(
        "DepthwiseConv2dNativeBackpropInput",
        input_sizes,
        filter,
        out_backprop,
        strides=list(strides),
        **padding_attrs(padding),
        data_format=data_format,
        dilations=list(dilations),
        name=name,
    )


@export("nn.depthwise_conv2d_native_backprop_filter", "nn.depthwise_conv2d_backprop_filter")
def depthwise_conv2d_native_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `depthwise_conv2d_native` with respect to its filter."""
    return output_of(
        "DepthwiseConv2dNativeBackpropFilter",
        input,
        filter_sizes,
        out_backprop,
        strides=list(strides),
        **padding_attrs(padding),
        data_format=data_format,
        dilations=list(dilations),
        name=name,
    )


depthwise_conv2d_backprop_input = depthwise_conv2d_native_backprop_input
depthwise_conv2d_backprop_filter = depthwise_conv2d_native_backprop_filter


@export("nn.depthwise_conv2d")
def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Each channel convolved with filters of its own, the results side by side.

    Args:
        input: [batch, height, width, channels], or `NCHW`.
        filter: [height, width, channels, multiplier].
        strides: Four numbers.
        padding: `SAME`, `VALID` or pairs.
        rate: Two numbers, the distance of the filter's elements.
        name: Name of the scope.
        data_format: `NHWC` or `NCHW`.
        dilations: The newer name of `rate`.

    Returns:
        [batch, out height, out width, channels · multiplier].
    """
    rate = either("dilations", dilations, "rate", rate)
    graph = graph_of((input, filter))
    with graph.as_default(), graph.name_scope(name or "depthwise") as scope:
        images = convert_to_tensor(input, name="tensor_in")
        kernel = convert_to_tensor(filter, name="filter_in")
        layout = data_format or "NHWC"
        spread = per_dimension(rate, 2, layout, "rate")
        return depthwise_conv2d_native(images, kernel, strides, padding, layout, spread, name=scope)


@export("nn.separable_conv2d")
def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """`depthwise_conv2d`, then a convolution of 1 x 1 that mixes the channels.

    Args:
        input: As for `depthwise_conv2d`.
        depthwise_filter: [height, width, channels, multiplier].
        pointwise_filter: [1, 1, channels · multiplier, out channels].
        strides: As for `depthwise_conv2d`.
        padding: As for `depthwise_conv2d`.
        rate: As for `depthwise_conv2d`.
        name: Name of the scope.
        data_format: `NHWC` or `NCHW`.
        dilations: The newer name of `rate`.

    Raises:
        ValueError: The pointwise filter is not 1 x 1.
    """
    rate = either("dilations", dilations, "rate", rate)
    graph = graph_of((input, depthwise_filter, pointwise_filter))
    with graph.as_default(), graph.name_scope(name or "separable_conv2d") as scope:
        images = convert_to_tensor(input, name="tensor_in")
        deep = convert_to_tensor(depthwise_filter, name="depthwise_filter")
        point = convert_to_tensor(pointwise_filter, name="pointwise_filter")
        shape = point.shape.with_rank(4)
        shape[0].assert_is_compatible_with(1)
        shape[1].assert_is_compatible_with(1)
        layout = data_format or "NHWC"
        spread = per_dimension(rate, 2, layout, "rate")
        each = depthwise_conv2d_native(
            images, deep, strides, padding, layout, spread, name="depthwise"
        )
        return conv2d(each, point, [1, 1, 1, 1], "VALID", data_format=layout, name=scope)
