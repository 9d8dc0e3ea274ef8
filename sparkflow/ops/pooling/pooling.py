"""Maxima and means over windows, and windows spread out by space to batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.convolution.window_arguments import (
    is_channels_first,
    padding_attrs,
    per_dimension,
    spatial_format,
)
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays, blocks
from sparkflow_runtime.dtypes import as_dtype, int64


@export("nn.max_pool")
def max_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The largest element of every window; arguments as for `conv2d`."""
    given = either("input", input, "value", value)
    return _pool2d("MaxPool", given, ksize, strides, padding, data_format, name or "MaxPool")


@export("nn.max_pool2d")
def max_pool2d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Tensor:
    """The largest element of every window of images."""
    return _pool2d("MaxPool", input, ksize, strides, padding, data_format, name or "max_pool2d")


@export("nn.avg_pool", "nn.avg_pool2d")
def avg_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The mean of every window, without the padding; arguments as for `conv2d`."""
    given = either("input", input, "value", value)
    return _pool2d("AvgPool", given, ksize, strides, padding, data_format, name or "AvgPool")


avg_pool2d = avg_pool


def _pool2d(
    op_type: str,
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str,
    name: str,
) -> Tensor:
    return output_of(
        op_type,
        value,
        ksize=per_dimension(ksize, 2, data_format, "ksize"),
        strides=per_dimension(strides, 2, data_format, "strides"),
        **padding_attrs(padding),
        data_format=data_format,
        name=name,
    )


@export("nn.max_pool1d")
def max_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NWC",
    name: str | None = None,
) -> Tensor:
    """The largest element of every window of sequences [batch, width, channels]."""
    return _pool1d("MaxPool", input, ksize, strides, padding, data_format, name or "MaxPool1d")


@export("nn.avg_pool1d")
def avg_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NWC",
    name: str | None = None,
) -> Tensor:
    """The mean of every window of sequences [batch, width, channels]."""
    return _pool1d("AvgPool", input, ksize, strides, padding, data_format, name or "AvgPool1D")


def _pool1d(
    op_type: str,
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str,
    name: str,
) -> Tensor:
    first = is_channels_first(data_format)
    layout, axis = ("NCHW", 2) if first else ("NHWC", 1)
    graph = graph_of((input,))
    with graph.as_default(), graph.name_scope(name) as scope:
        sizes = per_dimension(ksize, 1, data_format, "ksize")
        steps = per_dimension(strides, 1, data_format, "strides")
        sizes.insert(axis, 1)
        steps.insert(axis, 1)
        images = arrays.expand_dims(convert_to_tensor(input), axis)
        pooled = _pool2d(op_type, images, sizes, steps, padding, layout, op_type)
        return arrays.squeeze(pooled, [axis], name=scope)


@export("nn.max_pool3d")
def max_pool3d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """The largest element of every window of volumes [batch, depth, height, width, channels]."""
    return _pool3d("MaxPool3D", input, ksize, strides, padding, data_format, name or "MaxPool3D")


@export("nn.avg_pool3d")
def avg_pool3d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """The mean of every window of volumes [batch, depth, height, width, channels]."""
    return _pool3d("AvgPool3D", input, ksize, strides, padding, data_format, name or "AvgPool3D")


def _pool3d(
    op_type: str,
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str,
    name: str,
) -> Tensor:
    data_format = data_format or "NDHWC"
    return output_of(
        op_type,
        input,
        ksize=per_dimension(ksize, 3, data_format, "ksize"),
        strides=per_dimension(strides, 3, data_format, "strides"),
        padding=padding,
        data_format=data_format,
        name=name,
    )


@export("nn.max_pool_v2")
def max_pool_v2(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The largest element of every window over as many dimensions as the input has."""
    return _pool_of_rank("max", input, ksize, strides, padding, data_format, name)


@export("nn.avg_pool_v2")
def avg_pool_v2(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The mean of every window over as many dimensions as the input has."""
    return _pool_of_rank("avg", input, ksize, strides, padding, data_format, name)


def _pool_of_rank(
    kind: str,
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    name: str | None,
) -> Tensor:
    values = convert_to_tensor(input)
    rank = len(data_format) if data_format is not None else values.shape.ndims
    if rank not in (3, 4, 5):
        raise ValueError(f"The rank of the input must be 3, 4 or 5, got {values.shape}")
    functions: dict[str, Any] = {
        "max": (max_pool1d, max_pool, max_pool3d),
        "avg": (avg_pool1d, avg_pool, avg_pool3d),
    }
    layout = data_format or spatial_format(rank - 2)
    result: Tensor = functions[kind][rank - 3](values, ksize, strides, padding, layout, name)
    return result


class MaxPoolWithArgmax(NamedTuple):
    """The largest elements and where they were."""

    output: Tensor
    argmax: Tensor


@export("nn.max_pool_with_argmax")
def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    Targmax: Any = None,
    name: str | None = None,
    output_dtype: Any = None,
    include_batch_in_index: bool = False,
) -> MaxPoolWithArgmax:
    """The largest element of every window, and where it was.

    Returns:
        The maxima, and their index (y · width + x) · channels + channel in their image.

    Raises:
        ValueError: The data format is not `NHWC`.
    """
    if data_format != "NHWC":
        raise ValueError("Data formats other than 'NHWC' are not yet supported")
    kind = either("output_dtype", output_dtype, "Targmax", Targmax)
    values, places = apply_op(
        "MaxPoolWithArgmax",
        input,
        ksize=per_dimension(ksize, 2, "NHWC", "ksize"),
        strides=per_dimension(strides, 2, "NHWC", "strides"),
        padding=padding,
        Targmax=int64 if kind is None else as_dtype(kind),
        include_batch_in_index=include_batch_in_index,
        name=name,
    )
    return MaxPoolWithArgmax(values, places)


@export("nn.pool")
def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    padding: str,
    dilation_rate: Any = None,
    strides: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Pooling over as many dimensions as `window_shape` has.

    Args:
        input: [batch, ..., channels], or channels second for a `data_format` that starts with NC.
        window_shape: One number per spatial dimension.
        pooling_type: `MAX` or `AVG`.
        padding: `SAME` or `VALID`.
        dilation_rate: One number per spatial dimension.
        strides: One number per spatial dimension.
        name: Name of the scope.
        data_format: None for channels last.
        dilations: The newer name of `dilation_rate`.

    Raises:
        ValueError: An argument outside those; strides together with dilation.
    """
    rates = either("dilations", dilations, "dilation_rate", dilation_rate)
    sizes = [int(each) for each in window_shape]
    spatial = len(sizes)
    if spatial not in (1, 2, 3):
        raise ValueError(f"`window_shape` must have 1, 2 or 3 elements, got {window_shape!r}")
    graph = graph_of((input,))
    with graph.as_default(), graph.name_scope(name or f"{pooling_type.lower()}_pool") as scope:
        values = convert_to_tensor(input, name="input")
        steps = [1] * spatial if strides is None else [int(each) for each in strides]
        spread = [1] * spatial if rates is None else [int(each) for each in rates]
        if len(steps) != spatial or len(spread) != spatial or min(*steps, *spread, 1) < 1:
            raise ValueError(
                f"strides and dilations must be positive, one per window dimension: got "
                f"{steps} and {spread} for {sizes}"
            )
        if max(steps) > 1 and max(spread) > 1:
            raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
        if max(spread) > 1 and padding == "SAME":
            raise ValueError(
                "pooling with 'SAME' padding is not implemented for `dilation_rate` > 1. "
                f"Received: padding={padding} and dilation_rate={spread}"
            )
        if any(step > size for step, size in zip(steps, sizes, strict=True)):
            raise ValueError(
                f"strides > window_shape not supported due to inconsistency between CPU and GPU "
                f"implementations: {steps} > {sizes}"
            )
        if pooling_type not in ("MAX", "AVG"):
            raise ValueError(f"pooling_type must be MAX or AVG, got {pooling_type!r}")
        first = is_channels_first(data_format)
        layout = spatial_format(spatial, first)
        functions: dict[str, Any] = {
            "MAX": (max_pool1d, max_pool, max_pool3d),
            "AVG": (avg_pool1d, avg_pool, avg_pool3d),
        }
        function = functions[pooling_type][spatial - 1]

        def pooled(converted: Tensor, inner_padding: str, inner_name: str | None = None) -> Tensor:
            result: Tensor = function(converted, sizes, steps, inner_padding, layout, inner_name)
            return result

        if max(spread) == 1:
            return pooled(values, padding, scope)
        return with_space_to_batch(
            values,
            spread,
            padding,
            lambda converted, num_spatial_dims, padding: pooled(converted, padding),
            spatial_dims=list(range(2, spatial + 2) if first else range(1, spatial + 1)),
            data_format=data_format,
        )


@export("nn.with_space_to_batch")
def with_space_to_batch(
    input: Any,
    dilation_rate: Any,
    padding: str,
    op: Callable[..., Tensor],
    filter_shape: Any = None,
    spatial_dims: Any = None,
    data_format: str | None = None,
) -> Tensor:
    """`op` on interleaved parts of the input, as if its windows had gaps.

    Args:
        input: A tensor of known rank.
        dilation_rate: The gaps plus one, per spatial dimension.
        padding: `SAME` or `VALID`.
        op: Called as `op(input, num_spatial_dims, padding)`.
        filter_shape: The spatial size of the op's windows, needed for `SAME`.
        spatial_dims: The dimensions meant, 1, 2, ... when None.
        data_format: With channels second when it starts with NC.

    Raises:
        ValueError: An argument outside those.
    """
    values = convert_to_tensor(input, name="input")
    constant = constant_value(convert_to_tensor(dilation_rate, "int32", name="dilation_rate"))
    if constant is None or constant.ndim != 1 or (constant < 1).any():
        raise ValueError(f"dilation_rate must be positive known numbers, got {dilation_rate!r}")
    rates = [int(each) for each in constant]
    if spatial_dims is None:
        start = 2 if is_channels_first(data_format) else 1
        spatial_dims = range(start, start + len(rates))
    dims = sorted({int(each) for each in spatial_dims})
    if len(dims) != len(rates) or dims[0] < 1:
        raise ValueError(f"spatial_dims {list(spatial_dims)!r} do not fit the rates {rates}")
    if max(rates) == 1:
        return op(values, num_spatial_dims=len(rates), padding=padding)
    # Blocks must begin at dimension 1; dimensions between that are not spatial have rate 1.
    last = dims[-1]
    block = [rates[dims.index(dim)] if dim in dims else 1 for dim in range(1, last + 1)]
    base = np.zeros((last, 2), np.int32)
    if padding == "SAME":
        if filter_shape is None:
            raise ValueError("filter_shape must be specified for SAME padding")
        for dim, rate, size in zip(dims, rates, filter_shape, strict=True):
            extra = (int(size) - 1) * rate
            base[dim - 1] = extra // 2, extra - extra // 2
    elif padding != "VALID":
        raise ValueError(f"Invalid padding method {padding!r}")
    known = values.shape[1 : last + 1]
    shape = known.as_list() if known.is_fully_defined() else arrays.shape(values)[1 : last + 1]
    paddings, crops = blocks.required_space_to_batch_paddings(shape, block, base)
    spread = blocks.space_to_batch_nd(values, block, paddings)
    result = op(spread, num_spatial_dims=len(rates), padding="VALID")
    return blocks.batch_to_space_nd(result, block, crops)
