"""Convolution over two and three dimensions and its gradients; the arithmetic is in `convolution`.

Images are [batch, ..., channels] or, for the formats NCHW and NCDHW, [batch, channels, ...];
filters are [..., depth, outputs], where the depth is that of the images or divides it
(then channels are convolved in groups). float16 is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import FLOATING, INDEX, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.convolution.conv_arithmetic import (
    convolve,
    filter_gradient,
    input_gradient,
)
from sparkflow_runtime.ops.convolution.conv_base import BackpropFilter, BackpropInput, Forward
from sparkflow_runtime.ops.convolution.conv_native import Geometry
from sparkflow_runtime.ops.images import Images
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import Attr, bool_attr, list_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import (
    bracketed,
    checked_dims,
    constant_shape,
    vector,
)
from sparkflow_runtime.ops.windows import (
    Layout,
    Windows,
    as_channels_last,
    channels_last,
    in_format,
    static_channels_last,
)
from sparkflow_runtime.shapes import Shape

_FLAT: Mapping[str, Attr] = {
    "strides": list_attr("int"),
    "use_cudnn_on_gpu": bool_attr(True),
    "padding": string_attr(allowed=frozenset({"SAME", "VALID", "EXPLICIT"})),
    "explicit_paddings": list_attr("int", []),
    "data_format": string_attr("NHWC", frozenset({"NHWC", "NCHW"})),
    "dilations": list_attr("int", [1, 1, 1, 1]),
}
_SOLID: Mapping[str, Attr] = {
    "strides": list_attr("int", minimum=5),
    "padding": string_attr(allowed=frozenset({"SAME", "VALID"})),
    "data_format": string_attr("NDHWC", frozenset({"NDHWC", "NCDHW"})),
    "dilations": list_attr("int", [1, 1, 1, 1, 1]),
}


def _check_groups(images: Shape, filters: Shape) -> None:
    """Checks that the channels equal the filters' depth or are a multiple of it (groups).

    Raises:
        InvalidArgumentError: They are not, or the outputs cannot be divided among the groups.
    """
    assert images is not None
    assert filters is not None
    channels, (depth, outputs) = images[-1], filters[-2:]
    if channels is None or depth is None or channels == depth:
        return
    if not depth or channels % depth:
        raise InvalidArgumentError(
            message=f"Depth of input ({channels}) is not a multiple of input depth of filter "
            f"({depth}): input shape {bracketed(images)} with channels last, filter shape "
            f"{bracketed(filters)}"
        )
    if outputs is not None and outputs % (channels // depth):
        raise InvalidArgumentError(
            message=f"Depth of output ({outputs}) is not a multiple of the number of groups "
            f"({channels // depth})"
        )


def _windows(layout: Layout, images: Sequence[int], filters: Sequence[int]) -> Windows:
    """The windows of filters [..., depth, outputs] over images with channels last."""
    if len(filters) != len(layout.data_format):
        raise InvalidArgumentError(
            message=f"filter must be {len(layout.data_format)}-dimensional: {bracketed(filters)}"
        )
    _check_groups(tuple(images), tuple(filters))
    return layout.windows(images[1:-1], filters[:-2])


def _check_gradient_shape(
    dy: Array, windows: Windows, images: Sequence[int], filters: Sequence[int]
) -> None:
    expected = (images[0], *(window.count for window in windows), filters[-1])
    if dy.shape != expected:
        raise InvalidArgumentError(
            message=f"out_backprop must have the shape of the convolution's output, "
            f"{bracketed(expected)} with channels last, but has {bracketed(dy.shape)}"
        )


def _sizes(array: Array, name: str, rank: int) -> tuple[int, ...]:
    dims = checked_dims(vector(array, name), name)
    if len(dims) != rank:
        raise InvalidArgumentError(
            message=f"{name} must have {rank} elements, got {bracketed(dims)}"
        )
    return dims


class _Forward(Forward):
    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, windows over each spatial dimension, outputs)."""
        layout = Layout.of(node.attrs)
        rank = len(layout.data_format)
        images, filters = node.with_rank(0, rank, "input"), node.with_rank(1, rank, "filter")
        batch, *dims, channels = static_channels_last(images, layout.data_format)
        *sizes, _, outputs = filters
        _check_groups((batch, *dims, channels), filters)
        counts = [
            layout.count(dim, axis, size)
            for axis, (dim, size) in enumerate(zip(dims, sizes, strict=True))
        ]
        return [in_format((batch, *counts, outputs), layout.data_format)]

    @staticmethod
    def geometry(layout: Layout, images: Array, filters: Array) -> Geometry:
        """What the inputs describe.

        Raises:
            InvalidArgumentError: The depths differ, or a window does not fit.
        """
        shape = as_channels_last(images, layout.data_format, "input").shape
        return Geometry(shape, filters.shape, _windows(layout, shape, filters.shape))

    @staticmethod
    def run(xp: Any, layout: Layout, images: Array, filters: Array) -> Array:
        """The convolution, with channels last; raises as `geometry` does."""
        geometry = _Forward.geometry(layout, images, filters)
        images = as_channels_last(images, layout.data_format, "input")
        return convolve(xp, images, filters, geometry.windows, geometry.groups)

    def float_operations(self, node: Inference, outputs: Sequence[Shape]) -> int:
        """A multiplication and an addition per filter weight and output element."""
        return 2 * math.prod(shapes.sizes(node.shapes[1])[:-1]) * shapes.size(outputs[0])


class _BackpropInput(BackpropInput):
    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape `input_sizes` gives."""
        rank = len(node.attrs["data_format"])
        node.with_rank(1, rank, "filter")
        node.with_rank(2, rank, "out_backprop")
        shape = constant_shape(node, 0, "input_sizes")
        return [(None,) * rank if shape is None else shape]

    @staticmethod
    def geometry(layout: Layout, input_sizes: Array, filters: Array, dy: Array) -> Geometry:
        """What the inputs describe.

        Raises:
            InvalidArgumentError: The shapes do not belong to one convolution.
        """
        sizes = _sizes(input_sizes, "input_sizes", len(layout.data_format))
        images = channels_last(sizes, layout.data_format)
        windows = _windows(layout, images, filters.shape)
        dy = as_channels_last(dy, layout.data_format, "out_backprop")
        _check_gradient_shape(dy, windows, images, filters.shape)
        return Geometry(images, filters.shape, windows)

    @staticmethod
    def run(xp: Any, layout: Layout, input_sizes: Array, filters: Array, dy: Array) -> Array:
        """The gradient, with channels last; raises as `geometry` does."""
        geometry = _BackpropInput.geometry(layout, input_sizes, filters, dy)
        dy = as_channels_last(dy, layout.data_format, "out_backprop")
        size = geometry.images[1:-1]
        return input_gradient(xp, dy, filters, geometry.windows, size, geometry.groups)


class _BackpropFilter(BackpropFilter):
    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape `filter_sizes` gives."""
        rank = len(node.attrs["data_format"])
        node.with_rank(0, rank, "input")
        node.with_rank(2, rank, "out_backprop")
        shape = constant_shape(node, 1, "filter_sizes")
        return [(None,) * rank if shape is None else shape]

    @staticmethod
    def geometry(layout: Layout, images: Array, filter_sizes: Array, dy: Array) -> Geometry:
        """What the inputs describe.

        Raises:
            InvalidArgumentError: The shapes do not belong to one convolution.
        """
        images = as_channels_last(images, layout.data_format, "input")
        filters = _sizes(filter_sizes, "filter_sizes", len(layout.data_format))
        windows = _windows(layout, images.shape, filters)
        dy = as_channels_last(dy, layout.data_format, "out_backprop")
        _check_gradient_shape(dy, windows, images.shape, filters)
        return Geometry(images.shape, filters, windows)

    @staticmethod
    def run(xp: Any, layout: Layout, images: Array, filter_sizes: Array, dy: Array) -> Array:
        """The gradient; raises as `geometry` does."""
        geometry = _BackpropFilter.geometry(layout, images, filter_sizes, dy)
        images = as_channels_last(images, layout.data_format, "input")
        dy = as_channels_last(dy, layout.data_format, "out_backprop")
        return filter_gradient(xp, images, dy, geometry.windows, geometry.groups)


_FLAT_FAMILY = ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
_SOLID_FAMILY = ("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2")


@register
class Conv2D(_Forward):
    """Every output is the dot product of a filter and the image window under it.

    out[b, i, j, k] = Σ over y, x, c of input[b, i·stride + y, j·stride + x, c] · f[y, x, c, k]

    If filters are less deep than the images, channels are divided into groups, each with an equal
    share of the outputs.
    """

    capturable = True
    images = Images((0,), is_convolution=True)
    family = _FLAT_FAMILY
    attrs = {"T": type_attr(FLOATING | {int32}), **_FLAT}


@register
class Conv2DBackpropInput(_BackpropInput):
    """The gradient of a convolution with respect to its images, whose shape is `input_sizes`."""

    capturable = True
    host_inputs = frozenset({"input_sizes"})
    images = Images((2,), sizes=0)
    family = _FLAT_FAMILY
    attrs = {"T": type_attr(FLOATING | {int32}), **_FLAT}

    def float_operations(self, node: Inference, outputs: Sequence[Shape]) -> int:
        """As many as the convolution itself."""
        return 2 * math.prod(shapes.sizes(node.shapes[1])[:-1]) * shapes.size(node.shapes[2])


@register
class Conv2DBackpropFilter(_BackpropFilter):
    """The gradient of a convolution with respect to its filter, whose shape is `filter_sizes`."""

    capturable = True
    host_inputs = frozenset({"filter_sizes"})
    images = Images((0, 2), is_output=False)
    family = _FLAT_FAMILY
    attrs = {"T": type_attr(FLOATING), **_FLAT}

    def float_operations(self, node: Inference, outputs: Sequence[Shape]) -> int:
        """As many as the convolution itself."""
        return 2 * math.prod(shapes.sizes(outputs[0])[:-1]) * shapes.size(node.shapes[2])


@register
class Conv3D(_Forward):
    """As `Conv2D`, over depth, height and width."""

    capturable = True
    family = _SOLID_FAMILY
    attrs = {"T": type_attr(FLOATING), **_SOLID}


@register
class Conv3DBackpropInputV2(_BackpropInput):
    """As `Conv2DBackpropInput`, over depth, height and width."""

    capturable = True
    host_inputs = frozenset({"input_sizes"})
    inputs = "input_sizes: Tshape, filter: T, out_backprop: T"
    family = _SOLID_FAMILY
    attrs = {"T": type_attr(FLOATING), **_SOLID, "Tshape": type_attr(INDEX, int32)}


@register
class Conv3DBackpropFilterV2(_BackpropFilter):
    """As `Conv2DBackpropFilter`, over depth, height and width."""

    capturable = True
    host_inputs = frozenset({"filter_sizes"})
    family = _SOLID_FAMILY
    attrs = {"T": type_attr(FLOATING), **_SOLID}
