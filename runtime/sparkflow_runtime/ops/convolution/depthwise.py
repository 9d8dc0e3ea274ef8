"""Depthwise convolution, in which every channel has its own filters, and its gradients.

out[b, i, j, c·m + q] = Σ over y, x of input[b, i·stride + y, j·stride + x, c] · f[y, x, c, q]

The kernels loop over the few positions within a filter and handle all windows and channels at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import FLOATING
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.convolution.conv_arithmetic import covering
from sparkflow_runtime.ops.convolution.conv_base import (
    BackpropFilter,
    BackpropInput,
    ConvolutionOp,
    Forward,
)
from sparkflow_runtime.ops.convolution.conv_native import Geometry
from sparkflow_runtime.ops.images import Images
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import list_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import bracketed, constant_shape, vector
from sparkflow_runtime.ops.windows import (
    Layout,
    Windows,
    as_channels_last,
    channels_last,
    in_format,
    offsets,
    pad_images,
    static_channels_last,
    within,
)
from sparkflow_runtime.shapes import Shape

_ATTRS = {
    "T": type_attr(FLOATING),
    "strides": list_attr("int"),
    "padding": string_attr(allowed=frozenset({"SAME", "VALID", "EXPLICIT"})),
    "explicit_paddings": list_attr("int", []),
    "data_format": string_attr("NHWC", frozenset({"NHWC", "NCHW"})),
    "dilations": list_attr("int", [1, 1, 1, 1]),
}


class _Depthwise(ConvolutionOp):
    attrs = _ATTRS
    depthwise = True
    family = (
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropInput",
        "DepthwiseConv2dNativeBackpropFilter",
    )


def _windows(layout: Layout, images: Sequence[int], filters: Sequence[int]) -> Windows:
    if len(filters) != 4 or images[3] != filters[2]:
        raise InvalidArgumentError(
            message=f"input and filter must have the same depth: input shape {bracketed(images)}, "
            f"filter shape {bracketed(filters)}"
        )
    return layout.windows(images[1:3], filters[:2])


@register
class DepthwiseConv2dNative(_Depthwise, Forward):
    """Convolves each channel with `multiplier` filters and concatenates the results."""

    capturable = True
    images = Images((0,), is_convolution=True)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, rows, columns, channels · multiplier)."""
        layout = Layout.of(node.attrs)
        images, filters = node.with_rank(0, 4, "input"), node.with_rank(1, 4, "filter")
        batch, height, width, channels = static_channels_last(images, layout.data_format)
        rows, columns, depth, multiplier = filters
        if None not in (channels, depth) and channels != depth:
            raise InvalidArgumentError(
                message=f"Dimensions must be equal, but are {channels} and {depth} for "
                f"input shape {bracketed(images)} and filter shape {bracketed(filters)}"
            )
        known = depth if channels is None else channels
        outputs = None if known is None or multiplier is None else known * multiplier
        counts = (layout.count(height, 0, rows), layout.count(width, 1, columns))
        return [in_format((batch, *counts, outputs), layout.data_format)]

    @staticmethod
    def geometry(layout: Layout, images: Array, filters: Array) -> Geometry:
        """What the inputs describe."""
        shape = as_channels_last(images, layout.data_format, "input").shape
        return Geometry(shape, filters.shape, _windows(layout, shape, filters.shape))

    @staticmethod
    def run(xp: Any, layout: Layout, images: Array, filters: Array) -> Array:
        """The convolution, with channels last."""
        windows = DepthwiseConv2dNative.geometry(layout, images, filters).windows
        images = as_channels_last(images, layout.data_format, "input")
        padded = pad_images(xp, images, windows)
        counts = tuple(window.count for window in windows)
        depth, multiplier = filters.shape[2:]
        result = xp.zeros((images.shape[0], *counts, depth, multiplier), images.dtype)
        for place, index in offsets(windows):
            result += padded[index][..., None] * filters[place]
        return result.reshape(*result.shape[:3], depth * multiplier)

    def float_operations(self, node: Inference, outputs: Sequence[Shape]) -> int:
        """A multiplication and an addition per filter weight and output element."""
        return 2 * math.prod(shapes.sizes(node.shapes[1])[:-2]) * shapes.size(outputs[0])


@register
class DepthwiseConv2dNativeBackpropInput(_Depthwise, BackpropInput):
    """The gradient with respect to the images, whose shape is `input_sizes`."""

    capturable = True
    host_inputs = frozenset({"input_sizes"})
    images = Images((2,), sizes=0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape `input_sizes` gives."""
        shape = constant_shape(node, 0, "input_sizes")
        return [(None,) * 4 if shape is None else shape]

    @staticmethod
    def geometry(layout: Layout, input_sizes: Array, filters: Array, dy: Array) -> Geometry:
        """What the inputs describe."""
        images = channels_last(vector(input_sizes, "input_sizes"), layout.data_format)
        windows = _windows(layout, images, filters.shape)
        _outputs(as_channels_last(dy, layout.data_format, "out_backprop"), filters.shape)
        return Geometry(images, filters.shape, windows)

    @staticmethod
    def run(xp: Any, layout: Layout, input_sizes: Array, filters: Array, dy: Array) -> Array:
        """The gradient, with channels last."""
        geometry = DepthwiseConv2dNativeBackpropInput.geometry(layout, input_sizes, filters, dy)
        images, windows = geometry.images, geometry.windows
        dy = _outputs(as_channels_last(dy, layout.data_format, "out_backprop"), filters.shape)
        padded = xp.zeros((images[0], *covering(windows, images[1:3]), images[3]), dy.dtype)
        for place, index in offsets(windows):
            padded[index] += (dy * filters[place]).sum(axis=-1)
        return padded[within(windows, images[1:3])]


@register
class DepthwiseConv2dNativeBackpropFilter(_Depthwise, BackpropFilter):
    """The gradient with respect to the filter, whose shape is `filter_sizes`."""

    capturable = True
    host_inputs = frozenset({"filter_sizes"})
    images = Images((0, 2), is_output=False)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape `filter_sizes` gives."""
        shape = constant_shape(node, 1, "filter_sizes")
        return [(None,) * 4 if shape is None else shape]

    @staticmethod
    def geometry(layout: Layout, images: Array, filter_sizes: Array, dy: Array) -> Geometry:
        """What the inputs describe."""
        shape = as_channels_last(images, layout.data_format, "input").shape
        filters = vector(filter_sizes, "filter_sizes")
        windows = _windows(layout, shape, filters)
        _outputs(as_channels_last(dy, layout.data_format, "out_backprop"), filters)
        return Geometry(shape, filters, windows)

    @staticmethod
    def run(xp: Any, layout: Layout, images: Array, filter_sizes: Array, dy: Array) -> Array:
        """The gradient."""
        geometry = DepthwiseConv2dNativeBackpropFilter.geometry(layout, images, filter_sizes, dy)
        filters, windows = geometry.filters, geometry.windows
        images = as_channels_last(images, layout.data_format, "input")
        dy = _outputs(as_channels_last(dy, layout.data_format, "out_backprop"), filters)
        padded = pad_images(xp, images, windows)
        result = xp.zeros(filters, dy.dtype)
        for place, index in offsets(windows):
            result[place] = (padded[index][..., None] * dy).sum(axis=(0, 1, 2))
        return result


def _outputs(dy: Array, filters: Sequence[int]) -> Array:
    """[..., channels · multiplier] as [..., channels, multiplier]."""
    depth, multiplier = filters[2:]
    if dy.shape[-1] != depth * multiplier:
        raise InvalidArgumentError(
            message=f"out_backprop must have {depth * multiplier} channels, "
            f"got {bracketed(dy.shape)}"
        )
    return dy.reshape(*dy.shape[:-1], depth, multiplier)
