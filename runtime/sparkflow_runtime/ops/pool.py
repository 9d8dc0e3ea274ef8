"""Maximum and average over windows of height and width, and their gradients.

Instead of one large array of windows, each kernel walks over the few offsets within a window and
handles all windows at once, so that it needs no memory beyond its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.dtypes import FLOATING, REAL, as_dtype, float32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import list_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import (
    bracketed,
    checked_dims,
    constant_shape,
    shape_tensor,
    vector,
)
from sparkflow_runtime.ops.windows import (
    Layout,
    Pair,
    Window,
    as_nhwc,
    from_nhwc,
    in_format,
    nhwc,
    pad_images,
    spatial,
    static_nhwc,
)
from sparkflow_runtime.shapes import Shape

Windows = tuple[Window, Window]

_SIZES = list_attr("int", minimum=4)
_FORMAT = string_attr("NHWC", frozenset({"NHWC", "NCHW"}))
_PADDING = string_attr(allowed=frozenset({"SAME", "VALID"}))
_MAX_ATTRS = {
    "ksize": _SIZES,
    "strides": _SIZES,
    "padding": string_attr(allowed=frozenset({"SAME", "VALID", "EXPLICIT"})),
    "explicit_paddings": list_attr("int", []),
    "data_format": _FORMAT,
}
_PLAIN_ATTRS = {"ksize": _SIZES, "strides": _SIZES, "padding": _PADDING, "data_format": _FORMAT}


@dataclass(frozen=True, slots=True)
class Pooling:
    """The geometry of one pooling node.

    Attributes:
        layout: How windows slide.
        size: Height and width of a window.
    """

    layout: Layout
    size: Pair

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Pooling:
        """Reads an op's attributes.

        Raises:
            InvalidArgumentError: Windows or strides over batch or channels, or wrong paddings.
        """
        return cls(Layout.of(attrs), spatial(attrs["ksize"], attrs["data_format"], "ksize"))

    def static_shape(self, shape: Shape) -> Shape:
        """The static shape of the pooled images."""
        data_format = self.layout.data_format
        batch, height, width, channels = static_nhwc(shape, data_format)
        rows, columns = (
            self.layout.count(dim, axis, self.size[axis])
            for axis, dim in enumerate((height, width))
        )
        return in_format(batch, rows, columns, channels, data_format)

    def nhwc(self, images: Array, name: str) -> Array:
        """The images with channels last."""
        return as_nhwc(images, self.layout.data_format, name)

    def windows(self, shape: Sequence[int]) -> Windows:
        """The windows over NHWC images of this shape."""
        return self.layout.windows(shape[1], shape[2], self.size)

    def check(self, shape: Sequence[int], **pooled: Array) -> Windows:
        """The windows over images of this shape, once `pooled` are found to be of their result's.

        Raises:
            InvalidArgumentError: One of `pooled` has another shape.
        """
        windows = self.windows(shape)
        expected = (shape[0], windows[0].count, windows[1].count, shape[3])
        for name, array in pooled.items():
            _check_like(name, array, expected)
        return windows

    def result(self, xp: Any, images: Array) -> Array:
        """NHWC images in the node's data format."""
        return from_nhwc(xp, images, self.layout.data_format)


def _offsets(windows: Windows) -> Iterator[tuple[slice, ...]]:
    """For each place in a window, row by row, the index of that element of all windows."""
    rows, columns = windows
    for y in range(rows.size):
        for x in range(columns.size):
            yield slice(None), rows.taken(y), columns.taken(x)


def _lowest(xp: Any, dtype: Any) -> Any:
    return -xp.inf if dtype.kind == "f" else as_dtype(dtype).min


def _maximum(xp: Any, images: Array, windows: Windows) -> Array:
    padded = pad_images(xp, images, windows, _lowest(xp, images.dtype))
    parts = (padded[index] for index in _offsets(windows))
    result = next(parts).copy()
    for part in parts:
        xp.maximum(result, part, out=result)
    return result


def _check_like(name: str, given: Array, expected: Sequence[int]) -> None:
    if given.shape != tuple(expected):
        raise InvalidArgumentError(
            message=f"{name} must have shape {bracketed(expected)} as NHWC, "
            f"but has {bracketed(given.shape)}"
        )


def _winners(
    xp: Any, images: Array, pooled: Array, windows: Windows
) -> Iterator[tuple[tuple[slice, ...], Array]]:
    """(index, mask) per offset: where this element of the window is its first maximum."""
    padded = pad_images(xp, images, windows, _lowest(xp, images.dtype))
    free = xp.ones(pooled.shape, xp.bool_)
    for index in _offsets(windows):
        mask = padded[index] == pooled
        mask &= free
        free ^= mask
        yield index, mask


def _masked(values: Array, mask: Array) -> Array:
    """`values` where `mask` holds, else 0.

    A product of bit patterns: exact for infinities too, 9 times as fast as `where` (2026-11-21).
    """
    bits = values.view(f"i{values.dtype.itemsize}")
    return (bits * mask).view(values.dtype)


def _inside(images: Array, windows: Windows, shape: Sequence[int]) -> Array:
    """Padded images without their padding."""
    rows, columns = windows
    return images[
        :, rows.before : rows.before + shape[1], columns.before : columns.before + shape[2]
    ]


def _padded_zeros(xp: Any, shape: Sequence[int], windows: Windows, dtype: Any) -> Array:
    batch, height, width, channels = shape
    rows, columns = windows
    return xp.zeros(
        (
            batch,
            height + rows.before + rows.after,
            width + columns.before + columns.after,
            channels,
        ),
        dtype,
    )


class _PoolOp(Op):
    """What the ops share: their geometry, read from the attributes once per node."""

    outputs = "output: T"
    run: ClassVar[Callable[..., Array]]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """`run` with the array module and the geometry."""
        return partial(self.run, context.xp, Pooling.of(node.attrs))

    def same_attrs(self, op: OperationView) -> dict[str, Any]:
        """The geometry attributes of a node, for its gradient's nodes."""
        return {name: op.get_attr(name) for name in self.attrs if name != "T"}


@register
class MaxPool(_PoolOp):
    """The largest element of every window, per channel; padding never wins."""

    inputs = "input: T"
    attrs = {"T": type_attr(REAL, float32), **_MAX_ATTRS}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, windows over height, windows over width, channels)."""
        return [Pooling.of(node.attrs).static_shape(node.with_rank(0, 4, "input"))]

    @staticmethod
    def run(xp: Any, pooling: Pooling, images: Array) -> Array:
        """The maxima.

        Raises:
            InvalidArgumentError: A window does not fit, or the input is not of rank 4.
        """
        images = pooling.nhwc(images, "input")
        return pooling.result(xp, _maximum(xp, images, pooling.windows(images.shape)))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """Each window's gradient goes to its first maximum."""
        return (g.MaxPoolGrad(op.inputs[0], op.outputs[0], dy, **self.same_attrs(op)),)


@register
class MaxPoolGrad(_PoolOp):
    """The gradient of `MaxPool`: each window's `grad` at its first maximum, added up."""

    inputs = "orig_input: T, orig_output: T, grad: T"
    attrs = {**_MAX_ATTRS, "T": type_attr(REAL, float32)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the images."""
        node.with_rank(1, 4, "orig_output")
        node.with_rank(2, 4, "grad")
        return [node.with_rank(0, 4, "orig_input")]

    @staticmethod
    def run(xp: Any, pooling: Pooling, images: Array, pooled: Array, grad: Array) -> Array:
        """The gradient.

        Raises:
            InvalidArgumentError: The shapes do not belong to one pooling.
        """
        images, pooled = pooling.nhwc(images, "orig_input"), pooling.nhwc(pooled, "orig_output")
        grad = pooling.nhwc(grad, "grad")
        windows = pooling.check(images.shape, orig_output=pooled, grad=grad)
        result = _padded_zeros(xp, images.shape, windows, grad.dtype)
        for index, mask in _winners(xp, images, pooled, windows):
            result[index] += _masked(grad, mask)
        return pooling.result(xp, _inside(result, windows, images.shape))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Linear in `grad` only."""
        images, pooled, _ = op.inputs
        attrs = self.same_attrs(op)
        del attrs["explicit_paddings"]  # TensorFlow's op has none: refused where they are used
        return None, None, g.MaxPoolGradGrad(images, pooled, dy, **attrs)


@register
class MaxPoolGradGrad(_PoolOp):
    """For every window the element of `grad` at the place of its first maximum."""

    inputs = "orig_input: T, orig_output: T, grad: T"
    attrs = {**_PLAIN_ATTRS, "T": type_attr(REAL)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the pooled images."""
        node.with_rank(0, 4, "orig_input")
        node.with_rank(2, 4, "grad")
        return [node.with_rank(1, 4, "orig_output")]

    @staticmethod
    def run(xp: Any, pooling: Pooling, images: Array, pooled: Array, grad: Array) -> Array:
        """The gradient.

        Raises:
            InvalidArgumentError: The shapes do not belong to one pooling.
        """
        images, pooled = pooling.nhwc(images, "orig_input"), pooling.nhwc(pooled, "orig_output")
        grad = pooling.nhwc(grad, "grad")
        windows = pooling.check(images.shape, orig_output=pooled)
        _check_like("grad", grad, images.shape)
        padded = pad_images(xp, grad, windows)
        result = xp.zeros(pooled.shape, grad.dtype)
        for index, mask in _winners(xp, images, pooled, windows):
            xp.copyto(result, padded[index], where=mask)
        return pooling.result(xp, result)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Linear in `grad` only."""
        images, pooled, _ = op.inputs
        return None, None, g.MaxPoolGrad(images, pooled, dy, **self.same_attrs(op))


@register
class AvgPool(_PoolOp):
    """The mean of every window, per channel; padding does not count."""

    inputs = "value: T"
    attrs = {**_PLAIN_ATTRS, "T": type_attr(FLOATING)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, windows over height, windows over width, channels)."""
        return [Pooling.of(node.attrs).static_shape(node.with_rank(0, 4, "value"))]

    @staticmethod
    def run(xp: Any, pooling: Pooling, images: Array) -> Array:
        """The means.

        Raises:
            InvalidArgumentError: A window does not fit, or the input is not of rank 4.
        """
        images = pooling.nhwc(images, "value")
        windows = pooling.windows(images.shape)
        wide = images.astype(xp.float32) if images.dtype == xp.float16 else images
        padded = pad_images(xp, wide, windows)
        parts = (padded[index] for index in _offsets(windows))
        total = next(parts).copy()
        for part in parts:
            total += part
        total /= _window_sizes(xp, windows, images.shape, wide.dtype)
        return pooling.result(xp, total.astype(images.dtype, copy=False))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """Each window's gradient in equal parts."""
        return (g.AvgPoolGrad(shape_tensor(g, op.inputs[0]), dy, **self.same_attrs(op)),)


@register
class AvgPoolGrad(_PoolOp):
    """The gradient of `AvgPool`: each window's `grad` in equal parts over its elements."""

    inputs = "orig_input_shape: int32, grad: T"
    attrs = {**_PLAIN_ATTRS, "T": type_attr(FLOATING)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape given."""
        node.with_rank(1, 4, "grad")
        shape = constant_shape(node, 0, "orig_input_shape")
        return [(None,) * 4 if shape is None else shape]

    @staticmethod
    def run(xp: Any, pooling: Pooling, orig_input_shape: Array, grad: Array) -> Array:
        """The gradient.

        Raises:
            InvalidArgumentError: The shapes do not belong to one pooling.
        """
        dims = checked_dims(vector(orig_input_shape, "orig_input_shape"), "orig_input_shape")
        if len(dims) != 4:
            raise InvalidArgumentError(
                message=f"orig_input_shape must have 4 elements, got {bracketed(dims)}"
            )
        shape = nhwc(dims, pooling.layout.data_format)
        grad = pooling.nhwc(grad, "grad")
        windows = pooling.check(shape, grad=grad)
        wide = grad.astype(xp.float32) if grad.dtype == xp.float16 else grad
        share = wide / _window_sizes(xp, windows, shape, wide.dtype)
        result = _padded_zeros(xp, shape, windows, share.dtype)
        for index in _offsets(windows):
            result[index] += share
        inside = _inside(result, windows, shape)
        return pooling.result(xp, inside.astype(grad.dtype, copy=False))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The means of the gradient."""
        return None, g.AvgPool(dy, **self.same_attrs(op))


def _window_sizes(xp: Any, windows: Windows, shape: Sequence[int], dtype: Any) -> Array:
    """[rows, columns, 1]: how many elements of each window lie inside the image."""
    counts = []
    for window, dim in zip(windows, shape[1:3], strict=True):
        starts = np.arange(window.count) * window.stride - window.before
        counts.append(np.minimum(starts + window.size, dim) - np.maximum(starts, 0))
    return xp.asarray(np.multiply.outer(*counts)[:, :, None].astype(dtype))
