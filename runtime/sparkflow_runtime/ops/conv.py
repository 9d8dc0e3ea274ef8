"""Two-dimensional convolution and its gradients as ops; the arithmetic is in `convolution`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sparkflow_runtime.dtypes import FLOATING, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.convolution import convolve, filter_gradient, input_gradient
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, list_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import (
    bracketed,
    checked_dims,
    constant_shape,
    shape_tensor,
    vector,
)
from sparkflow_runtime.ops.windows import (
    Layout,
    Window,
    as_nhwc,
    from_nhwc,
    in_format,
    nhwc,
    static_nhwc,
)
from sparkflow_runtime.shapes import Shape

_GEOMETRY = {
    "strides": list_attr("int"),
    "use_cudnn_on_gpu": bool_attr(True),
    "padding": string_attr(allowed=frozenset({"SAME", "VALID", "EXPLICIT"})),
    "explicit_paddings": list_attr("int", []),
    "data_format": string_attr("NHWC", frozenset({"NHWC", "NCHW"})),
    "dilations": list_attr("int", [1, 1, 1, 1]),
}


class _Convolution(Op):
    """What the three ops share: geometry, and float16 computed in float32.

    Images are [batch, height, width, channels] (NHWC) or [batch, channels, height, width] (NCHW),
    filters [height, width, channels, outputs].
    """

    outputs = "output: T"
    run: ClassVar[Callable[..., Array]]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """The kernel with its geometry read from the attributes once."""
        xp, layout, run = context.xp, Layout.of(node.attrs), self.run

        def kernel(*inputs: Array) -> Array:
            if inputs[-1].dtype != xp.float16:
                return from_nhwc(xp, run(xp, layout, *inputs), layout.data_format)
            wide = [x.astype(xp.float32) if x.dtype == xp.float16 else x for x in inputs]
            result = run(xp, layout, *wide).astype(xp.float16)
            return from_nhwc(xp, result, layout.data_format)

        return kernel


def _geometry(op: OperationView) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in _GEOMETRY}


def _static_shape(layout: Layout, images: Shape, filters: Shape) -> Shape:
    """The static shape of the convolution of the two."""
    batch, height, width, channels = static_nhwc(images, layout.data_format)
    rows, columns, depth, outputs = static_nhwc(filters, "NHWC")
    if None not in (channels, depth) and channels != depth:
        raise InvalidArgumentError(message=_depth_text(images, filters))
    return in_format(
        batch,
        layout.count(height, 0, rows),
        layout.count(width, 1, columns),
        outputs,
        layout.data_format,
    )


def _depth_text(images: Shape, filters: Shape) -> str:
    return (
        f"input and filter must have the same depth: input shape {bracketed(images)}, "
        f"filter shape {bracketed(filters)}"
    )


def _windows(
    layout: Layout, images: Sequence[int], filters: Sequence[int]
) -> tuple[Window, Window]:
    """The windows of filters [rows, columns, channels, outputs] over images in NHWC."""
    if len(filters) != 4 or images[3] != filters[2]:
        raise InvalidArgumentError(message=_depth_text(tuple(images), tuple(filters)))
    return layout.windows(images[1], images[2], (filters[0], filters[1]))


def _check_gradient_shape(
    dy: Array, windows: tuple[Window, Window], images: Sequence[int], filters: Sequence[int]
) -> None:
    expected = (images[0], windows[0].count, windows[1].count, filters[3])
    if dy.shape != expected:
        raise InvalidArgumentError(
            message=f"out_backprop must have the shape of the convolution's output, "
            f"{bracketed(expected)} as NHWC, but has {bracketed(dy.shape)}"
        )


def _sizes(array: Array, name: str) -> tuple[int, ...]:
    dims = checked_dims(vector(array, name), name)
    if len(dims) != 4:
        raise InvalidArgumentError(message=f"{name} must have 4 elements, got {bracketed(dims)}")
    return dims


@register
class Conv2D(_Convolution):
    """Every output is the product sum of a filter and the window of the image below it.

    out[b, i, j, k] = Σ over y, x, c of input[b, i·stride + y, j·stride + x, c] · f[y, x, c, k]
    """

    inputs = "input: T, filter: T"
    attrs = {"T": type_attr(FLOATING | {int32}), **_GEOMETRY}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, windows over height, windows over width, outputs)."""
        images = node.with_rank(0, 4, "input")
        filters = node.with_rank(1, 4, "filter")
        return [_static_shape(Layout.of(node.attrs), images, filters)]

    @staticmethod
    def run(xp: Any, layout: Layout, images: Array, filters: Array) -> Array:
        """The convolution, as NHWC.

        Raises:
            InvalidArgumentError: The depths differ, or a window does not fit.
        """
        images = as_nhwc(images, layout.data_format, "input")
        return convolve(xp, images, filters, _windows(layout, images.shape, filters.shape))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """The two ops below."""
        images, filters = op.inputs
        attrs = _geometry(op)
        return (
            g.Conv2DBackpropInput(shape_tensor(g, images), filters, dy, **attrs),
            g.Conv2DBackpropFilter(images, shape_tensor(g, filters), dy, **attrs),
        )


@register
class Conv2DBackpropInput(_Convolution):
    """The gradient of a convolution with respect to its images, whose shape is `input_sizes`."""

    inputs = "input_sizes: int32, filter: T, out_backprop: T"
    attrs = {"T": type_attr(FLOATING | {int32}), **_GEOMETRY}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape `input_sizes` gives."""
        node.with_rank(1, 4, "filter")
        node.with_rank(2, 4, "out_backprop")
        shape = constant_shape(node, 0, "input_sizes")
        return [(None,) * 4 if shape is None else shape]

    @staticmethod
    def run(xp: Any, layout: Layout, input_sizes: Array, filters: Array, dy: Array) -> Array:
        """The gradient, as NHWC.

        Raises:
            InvalidArgumentError: The shapes do not belong to one convolution.
        """
        sizes = _sizes(input_sizes, "input_sizes")
        images = nhwc(sizes, layout.data_format)
        windows = _windows(layout, images, filters.shape)
        dy = as_nhwc(dy, layout.data_format, "out_backprop")
        _check_gradient_shape(dy, windows, images, filters.shape)
        return input_gradient(xp, dy, filters, windows, images[1:3])

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Linear in the filter and in out_backprop."""
        _, filters, out_backprop = op.inputs
        attrs = _geometry(op)
        return (
            None,
            g.Conv2DBackpropFilter(dy, shape_tensor(g, filters), out_backprop, **attrs),
            g.Conv2D(dy, filters, **attrs),
        )


@register
class Conv2DBackpropFilter(_Convolution):
    """The gradient of a convolution with respect to its filter, whose shape is `filter_sizes`."""

    inputs = "input: T, filter_sizes: int32, out_backprop: T"
    attrs = {"T": type_attr(FLOATING), **_GEOMETRY}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape `filter_sizes` gives."""
        node.with_rank(0, 4, "input")
        node.with_rank(2, 4, "out_backprop")
        shape = constant_shape(node, 1, "filter_sizes")
        return [(None,) * 4 if shape is None else shape]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """The kernel; a filter has no data format."""
        xp, layout = context.xp, Layout.of(node.attrs)

        def kernel(images: Array, filter_sizes: Array, dy: Array) -> Array:
            if dy.dtype == xp.float16:
                wide = self.run(
                    xp, layout, images.astype(xp.float32), filter_sizes, dy.astype(xp.float32)
                )
                return wide.astype(xp.float16)
            return self.run(xp, layout, images, filter_sizes, dy)

        return kernel

    @staticmethod
    def run(xp: Any, layout: Layout, images: Array, filter_sizes: Array, dy: Array) -> Array:
        """The gradient.

        Raises:
            InvalidArgumentError: The shapes do not belong to one convolution.
        """
        images = as_nhwc(images, layout.data_format, "input")
        filters = _sizes(filter_sizes, "filter_sizes")
        windows = _windows(layout, images.shape, filters)
        dy = as_nhwc(dy, layout.data_format, "out_backprop")
        _check_gradient_shape(dy, windows, images.shape, filters)
        return filter_gradient(xp, images, dy, windows)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Linear in the input and in out_backprop."""
        images, _, out_backprop = op.inputs
        attrs = _geometry(op)
        return (
            g.Conv2DBackpropInput(shape_tensor(g, images), dy, out_backprop, **attrs),
            None,
            g.Conv2D(images, dy, **attrs),
        )
