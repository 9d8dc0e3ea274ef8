"""Convolutions turned round: from the size of outputs back to that of images."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
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


@export("nn.conv1d_transpose")
def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv1d` used as a layer, see `conv2d_transpose`."""
    first = is_channels_first(data_format)
    layout, axis = ("NCHW", 2) if first else ("NHWC", 1)
    narrow = spatial_format(1, first)
    graph = graph_of((input, filters, output_shape))
    with graph.as_default(), graph.name_scope(name or "conv1d_transpose") as scope:
        steps = per_dimension(strides, 1, narrow, "strides")
        spread = per_dimension(dilations, 1, narrow, "dilations")
        steps.insert(axis, 1)
        spread.insert(axis, 1)
        sizes = convert_to_tensor(output_shape, name="output_shape")
        wide = arrays.concat([sizes[:axis], [1], sizes[axis:]], 0)
        result = conv2d_transpose(
            arrays.expand_dims(convert_to_tensor(input), axis),
            arrays.expand_dims(convert_to_tensor(filters), 0),
            wide,
            steps,
            padding,
            layout,
            dilations=spread,
        )
        return arrays.squeeze(result, [axis], name=scope)


@export("nn.conv2d_transpose")
def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The gradient of `conv2d` with respect to its images, used as a layer.

    Args:
        value: [batch, height, width, in channels], or `NCHW`.
        filter: [height, width, out channels, in channels].
        output_shape: The shape of the result.
        strides: One per dimension, or one or two for height and width.
        padding: `SAME`, `VALID` or pairs.
        data_format: `NHWC` or `NCHW`.
        name: Name of the node.
        input: The newer name of `value`.
        filters: The newer name of `filter`.
        dilations: The distance of the filter's elements.

    Raises:
        ValueError: The sizes do not belong to one convolution.
    """
    value = either("input", input, "value", value)
    kernel = either("filters", filters, "filter", filter)
    graph = graph_of((value, kernel, output_shape))
    with graph.as_default(), graph.name_scope(name or "conv2d_transpose") as scope:
        return _transposed(
            "Conv2DBackpropInput", value, kernel, output_shape, strides, padding, data_format,
            dilations, scope,
        )  # fmt: skip


@export("nn.conv3d_transpose")
def conv3d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: str = "SAME",
    data_format: str = "NDHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The gradient of `conv3d` used as a layer, see `conv2d_transpose`."""
    value = either("input", input, "value", value)
    kernel = either("filters", filters, "filter", filter)
    graph = graph_of((value, kernel, output_shape))
    with graph.as_default(), graph.name_scope(name or "conv3d_transpose") as scope:
        return _transposed(
            "Conv3DBackpropInputV2", value, kernel, output_shape, strides, padding, data_format,
            dilations, scope,
        )  # fmt: skip


def _transposed(
    op_type: str,
    value: Any,
    kernel: Any,
    output_shape: Any,
    strides: Any,
    padding: Any,
    data_format: str,
    dilations: Any,
    scope: str,
) -> Tensor:
    spatial = len(data_format) - 2
    values = convert_to_tensor(value, name="value")
    filters = convert_to_tensor(kernel, name="filter")
    axis = 1 if data_format.startswith("NC") else spatial + 1
    if values._shape is not None and filters._shape is not None:
        given, wanted = values.shape[axis], filters.shape[-1]
        if not given.is_compatible_with(wanted):
            raise ValueError(
                f"input channels does not match filter's input channels, {given} != {wanted}"
            )
    return output_of(
        op_type,
        convert_to_tensor(output_shape, name="output_shape", preferred_dtype="int32"),
        filters,
        values,
        strides=per_dimension(strides, spatial, data_format, "strides"),
        **padding_attrs(padding),
        data_format=data_format,
        dilations=per_dimension(dilations, spatial, data_format, "dilations"),
        name=scope,
    )


@export("nn.conv_transpose")
def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transposed convolution over as many dimensions as `output_shape` has.

    Raises:
        ValueError: The number of dimensions is not known, or none of 3 to 5.
    """
    graph = graph_of((input, filters, output_shape))
    with graph.as_default(), graph.name_scope(name or "conv_transpose") as scope:
        sizes = convert_to_tensor(output_shape, name="output_shape")
        spatial = sizes.shape.with_rank(1)[0].value
        if spatial is None:
            raise ValueError("output_shape must have a known length")
        spatial -= 2
        if spatial not in (1, 2, 3):
            raise ValueError(
                f"output_shape must be of length 3, 4 or 5 but was of length {spatial + 2}"
            )
        layout = spatial_format(spatial, is_channels_first(data_format))
        function: Any = (conv1d_transpose, conv2d_transpose, conv3d_transpose)[spatial - 1]
        result: Tensor = function(
            input, filters, sizes, strides, padding, layout, dilations=dilations, name=scope
        )
        return result


@export("nn.atrous_conv2d_transpose")
def atrous_conv2d_transpose(
    value: Any,
    filters: Any,
    output_shape: Any,
    rate: int,
    padding: str,
    name: str | None = None,
) -> Tensor:
    """The gradient of `atrous_conv2d` used as a layer.

    Raises:
        ValueError: The rate is not positive, or the padding none.
    """
    if rate < 1:
        raise ValueError(f"rate {rate} cannot be less than one")
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding must be either VALID or SAME, got {padding!r}")
    return conv2d_transpose(
        value,
        filters,
        output_shape,
        [1, 1, 1, 1],
        padding,
        name=name or "atrous_conv2d_transpose",
        dilations=[1, rate, rate, 1],
    )
