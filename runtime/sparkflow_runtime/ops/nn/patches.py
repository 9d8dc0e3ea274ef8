"""Patches of images and volumes, each flattened to a vector of channels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.dtypes import int32
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import list_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import shape_tensor
from sparkflow_runtime.ops.windows import Layout, as_channels_last, pad_images, spatial, window_view
from sparkflow_runtime.shapes import Shape

_PADDING = string_attr(allowed=frozenset({"SAME", "VALID"}))


class _Extract(Op):
    """Windows of [batch, ..., channels] as [batch, counts..., elements of a window · channels].

    Attributes:
        layout: The order of the images' dimensions.
        backprop: The gradient op that scatters windows back, from shape, filter and windows.
    """

    outputs = "patches: T"
    layout: ClassVar[str]
    backprop: ClassVar[str]

    def geometry(self, attrs: Mapping[str, Any]) -> tuple[Layout, tuple[int, ...]]:
        """The layout of the windows, and their sizes."""
        rates = attrs.get("rates", [1] * len(self.layout))
        layout = Layout.of({**attrs, "dilations": rates, "data_format": self.layout})
        return layout, spatial(attrs["ksizes"], self.layout, "ksizes")

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, counts of windows..., elements of a window · channels)."""
        layout, sizes = self.geometry(node.attrs)
        batch, *dims, channels = node.with_rank(0, len(self.layout), "images")
        counts = [
            layout.count(dim, axis, size)
            for axis, (dim, size) in enumerate(zip(dims, sizes, strict=True))
        ]
        depth = None if channels is None else channels * math.prod(sizes)
        return [(batch, *counts, depth)]

    def extracted(self, xp: Any, images: Array, attrs: Mapping[str, Any]) -> Array:
        """The windows."""
        layout, sizes = self.geometry(attrs)
        images = as_channels_last(images, self.layout, "images")
        windows = layout.windows(images.shape[1:-1], sizes)
        view = window_view(xp, pad_images(xp, images, windows), windows)
        outer = view.shape[: 1 + len(sizes)]
        depth = math.prod(sizes) * images.shape[-1]
        return xp.ascontiguousarray(view).reshape(*outer, depth)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """Extraction is, per channel, a convolution with a filter per element of the window."""
        images = op.inputs[0]
        rank = len(self.layout)
        sizes = spatial(op.attr("ksizes"), self.layout, "ksizes")
        count = math.prod(sizes)
        kind = images.dtype.base
        filters = g.const(np.eye(count, dtype=kind.as_numpy_dtype).reshape(*sizes, 1, count), kind)
        # [batch, ..., window · channels] as [batch · channels, ..., window]
        shape = shape_tensor(g, images)
        channels = g.StridedSlice(
            shape,
            np.array([-1], np.int32),
            np.array([0], np.int32),
            np.array([1], np.int32),
            end_mask=1,
        )
        batch = g.StridedSlice(
            shape, np.array([0], np.int32), np.array([1], np.int32), np.array([1], np.int32)
        )
        inner = g.StridedSlice(
            shape, np.array([1], np.int32), np.array([-1], np.int32), np.array([1], np.int32)
        )
        zero = g.const(np.int32(0), int32)
        outer = g.StridedSlice(
            shape_tensor(g, dy),
            np.array([0], np.int32),
            np.array([-1], np.int32),
            np.array([1], np.int32),
        )
        each = g.const(np.array([count], np.int32), int32)
        split = g.Reshape(dy, g.ConcatV2([outer, each, channels], zero))
        by_channel = g.Transpose(split, np.array([0, rank, *range(1, rank)], np.int32))
        flat = g.Mul(batch, channels)
        counts = g.StridedSlice(
            outer,
            np.array([1], np.int32),
            np.array([0], np.int32),
            np.array([1], np.int32),
            end_mask=1,
        )
        windows = g.Reshape(by_channel, g.ConcatV2([flat, counts, each], zero))
        one = g.const(np.array([1], np.int32), int32)
        target = g.ConcatV2([flat, inner, one], zero)
        attrs: dict[str, Any] = {
            "strides": op.attr("strides"),
            "padding": op.attr("padding"),
        }
        if "rates" in self.attrs:
            attrs["dilations"] = op.attr("rates")
        back = getattr(g, self.backprop)(target, filters, windows, **attrs)
        parted = g.Reshape(back, g.ConcatV2([batch, channels, inner], zero))
        return (g.Transpose(parted, np.array([0, *range(2, rank), 1], np.int32)),)


@register
class ExtractImagePatches(_Extract):
    """Windows of images."""

    inputs = "images: T"
    layout = "NHWC"
    backprop = "Conv2DBackpropInput"
    attrs = {
        "ksizes": list_attr("int", minimum=4),
        "strides": list_attr("int", minimum=4),
        "rates": list_attr("int", minimum=4),
        "T": type_attr(),
        "padding": _PADDING,
    }

    def compute(
        self,
        xp: Any,
        images: Array,
        *,
        ksizes: list[int],
        strides: list[int],
        rates: list[int],
        padding: str,
    ) -> Array:
        """The windows."""
        attrs = {"ksizes": ksizes, "strides": strides, "rates": rates, "padding": padding}
        return self.extracted(xp, images, attrs)


@register
class ExtractVolumePatches(_Extract):
    """Windows of volumes."""

    inputs = "input: T"
    aliases = frozenset({"input"})
    is_view = True
    layout = "NDHWC"
    backprop = "Conv3DBackpropInputV2"
    attrs = {
        "ksizes": list_attr("int", minimum=5),
        "strides": list_attr("int", minimum=5),
        "T": type_attr(),
        "padding": _PADDING,
    }

    def compute(
        self, xp: Any, images: Array, *, ksizes: list[int], strides: list[int], padding: str
    ) -> Array:
        """The windows."""
        return self.extracted(
            xp, images, {"ksizes": ksizes, "strides": strides, "padding": padding}
        )
