"""Resizing of images [batch, height, width, channels], and the gradients.

All but the nearest neighbour are linear and separable: a matrix from input to output rows, another
for columns, which the gradient uses transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.dtypes import FLOATING, REAL, float32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.kernels.combining import combine_at, elements_of_rows
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.static import bracketed, known_sizes, vector
from sparkflow_runtime.shapes import Shape

HostArray = np.ndarray[Any, Any]
Weights = Callable[[int, int, bool, bool], HostArray]
"""From input size, output size and the two modes to a matrix [output, input]."""

_MODES = {"align_corners": bool_attr(False), "half_pixel_centers": bool_attr(False)}
_CUBIC_STEPS = 1024
"""TensorFlow looks cubic weights up at so many places between two pixels."""


def _scale(size: int, wanted: int, corners: bool) -> np.float32:
    if corners and wanted > 1:
        return np.float32((size - 1) / np.float32(wanted - 1))
    return np.float32(np.float32(size) / np.float32(wanted))


def _sources(size: int, wanted: int, corners: bool, centers: bool) -> HostArray:
    """Where in the input each output lies, in float32."""
    scale = _scale(size, wanted, corners)
    places = np.arange(wanted, dtype=np.float32)
    if centers:
        return (places + np.float32(0.5)) * scale - np.float32(0.5)
    return places * scale


def _linear(size: int, wanted: int, corners: bool, centers: bool) -> HostArray:
    """[wanted, size] weights of the two pixels around each place."""
    places = _sources(size, wanted, corners, centers)
    floor = np.floor(places)
    low = np.maximum(floor, 0).astype(np.int64)
    high = np.minimum(np.ceil(places), size - 1).astype(np.int64)
    share = places - floor
    weights = np.zeros((wanted, size), np.float32)
    rows = np.arange(wanted)
    np.add.at(weights, (rows, low), 1 - share)
    np.add.at(weights, (rows, high), share)
    return weights


def _cubic(size: int, wanted: int, corners: bool, centers: bool) -> HostArray:
    """[wanted, size] weights of four pixels; those outside are left out for centers, else moved."""
    a = -0.5 if centers else -0.75
    places = _sources(size, wanted, corners, centers)
    floor = np.floor(places)
    steps = np.rint((places - floor) * _CUBIC_STEPS)
    x = steps / _CUBIC_STEPS

    def near(d: HostArray) -> HostArray:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: HostArray) -> HostArray:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = np.zeros((wanted, size), np.float64)
    rows = np.arange(wanted)
    for offset, values in ((-1, far(x + 1)), (0, near(x)), (1, near(1 - x)), (2, far(2 - x))):
        at = floor.astype(np.int64) + offset
        inside = np.clip(at, 0, size - 1)
        kept = np.where(at == inside, values, 0.0) if centers else values
        np.add.at(weights, (rows, inside), kept)
    if centers:
        sums = weights.sum(axis=1, keepdims=True)
        weights = np.where(np.abs(sums) >= 1000 * np.finfo(np.float32).tiny, weights / sums, 0)
    return weights.astype(np.float32)


def _area(size: int, wanted: int, corners: bool, centers: bool) -> HostArray:
    """[wanted, size] shares of each output's stretch that lie in each pixel."""
    scale = _scale(size, wanted, corners)
    starts = np.arange(wanted, dtype=np.float32) * scale
    ends = np.arange(1, wanted + 1, dtype=np.float32) * scale
    weights = np.zeros((wanted, size), np.float32)
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        pixels = np.arange(int(np.floor(start)), int(np.ceil(end)))
        parts = np.minimum(pixels + 1, end) - np.maximum(pixels, start)
        np.add.at(weights[row], np.minimum(pixels, size - 1), parts / scale)
    return weights


def _nearest(size: int, wanted: int, corners: bool, centers: bool) -> HostArray:
    """The input's pixel for each output."""
    scale = _scale(size, wanted, corners)
    places = np.arange(wanted, dtype=np.float32)
    if centers:
        found = np.floor((places + np.float32(0.5)) * scale)
    elif corners:
        found = np.floor(places * scale + np.float32(0.5))
    else:
        found = np.floor(places * scale)
    return np.asarray(np.clip(found, 0, size - 1), np.int64)


def _applied(xp: Any, images: Array, rows: HostArray, columns: HostArray) -> Array:
    """Rows and columns of images replaced by their combinations."""
    kind = images.dtype
    first = xp.tensordot(images, xp.asarray(columns.astype(kind)), axes=([2], [1]))
    second = xp.tensordot(first, xp.asarray(rows.astype(kind)), axes=([1], [1]))
    return xp.ascontiguousarray(second.transpose(0, 3, 2, 1))


def _wanted(images: Array, size: Array) -> tuple[int, int]:
    if images.ndim != 4:
        raise InvalidArgumentError(message=f"input must be 4-dimensional{bracketed(images.shape)}")
    dims = vector(size, "size")
    if len(dims) != 2:
        raise InvalidArgumentError(message=f"size must have two elements{bracketed(dims)}")
    if min(dims) <= 0:
        raise InvalidArgumentError(message="output dimensions must be positive")
    if min(images.shape[1:3], default=0) <= 0:
        raise InvalidArgumentError(message="input image must be of non-zero size")
    return dims[0], dims[1]


class _Resize(Op):
    inputs = "images: T, size: int32"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, the size asked for, channels)."""
        batch, _, _, channels = node.with_rank(0, 4, "images")
        size = known_sizes(node, 1, "size")
        if size is None:
            return [(batch, None, None, channels)]
        if len(size) != 2:
            raise InvalidArgumentError(message=f"size must have two elements, got {list(size)}")
        return [(batch, *size, channels)]


class _Smooth(_Resize):
    """Resizing by matrices.

    Attributes:
        weights: The matrix over one dimension.
        backward: The type of the gradient's op.
    """

    outputs = "resized_images: float32"
    attrs = {"T": type_attr(REAL), **_MODES}
    weights: ClassVar[Weights]
    backward: ClassVar[str]

    def compute(
        self,
        xp: Any,
        images: Array,
        size: Array,
        *,
        align_corners: bool,
        half_pixel_centers: bool,
    ) -> Array:
        """The resized images.

        Raises:
            InvalidArgumentError: Nothing to resize from or to.
        """
        height, width = _wanted(images, size)
        modes = align_corners, half_pixel_centers
        make = type(self).weights
        rows = make(images.shape[1], height, *modes)
        columns = make(images.shape[2], width, *modes)
        return _applied(xp, images.astype(xp.float32, copy=False), rows, columns)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The transposed matrices, for images of floating point."""
        images = op.inputs[0]
        if not images.dtype.is_floating:
            return None, None
        attrs = {name: op.attr(name) for name in _MODES}
        return getattr(g, self.backward)(dy, images, **attrs), None


class _SmoothGrad(Op):
    inputs = "grads: float32, original_image: T"
    outputs = "output: T"
    attrs = {"T": type_attr(FLOATING), **_MODES}
    weights: ClassVar[Weights]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the images."""
        node.with_rank(0, 4, "grads")
        return [node.with_rank(1, 4, "original_image")]

    def compute(
        self,
        xp: Any,
        grads: Array,
        images: Array,
        *,
        align_corners: bool,
        half_pixel_centers: bool,
    ) -> Array:
        """The gradient of the images."""
        modes = align_corners, half_pixel_centers
        make = type(self).weights
        rows = make(images.shape[1], grads.shape[1], *modes).T
        columns = make(images.shape[2], grads.shape[2], *modes).T
        return _applied(xp, grads, rows, columns).astype(images.dtype, copy=False)


@register
class ResizeBilinear(_Smooth):
    """Each pixel a mean of the four around its place."""

    weights: ClassVar[Weights] = staticmethod(_linear)
    backward = "ResizeBilinearGrad"


@register
class ResizeBicubic(_Smooth):
    """Each pixel a cubic interpolation of the sixteen around its place."""

    weights: ClassVar[Weights] = staticmethod(_cubic)
    backward = "ResizeBicubicGrad"


@register
class ResizeBilinearGrad(_SmoothGrad):
    """The gradient of `ResizeBilinear`."""

    weights: ClassVar[Weights] = staticmethod(_linear)


@register
class ResizeBicubicGrad(_SmoothGrad):
    """The gradient of `ResizeBicubic`."""

    weights: ClassVar[Weights] = staticmethod(_cubic)


@register
class ResizeArea(_Resize):
    """Each pixel the mean of the area it covers; there is no gradient."""

    outputs = "resized_images: float32"
    attrs = {"T": type_attr(REAL), "align_corners": bool_attr(False)}

    def compute(self, xp: Any, images: Array, size: Array, *, align_corners: bool) -> Array:
        """The resized images.

        Raises:
            InvalidArgumentError: Nothing to resize from or to.
        """
        height, width = _wanted(images, size)
        rows = _area(images.shape[1], height, align_corners, False)
        columns = _area(images.shape[2], width, align_corners, False)
        return _applied(xp, images.astype(xp.float32, copy=False), rows, columns)


@register
class ResizeNearestNeighbor(_Resize):
    """Each pixel one of the input's."""

    outputs = "resized_images: T"
    attrs = {"T": type_attr(REAL), **_MODES}

    def compute(
        self,
        xp: Any,
        images: Array,
        size: Array,
        *,
        align_corners: bool,
        half_pixel_centers: bool,
    ) -> Array:
        """The resized images.

        Raises:
            InvalidArgumentError: Nothing to resize from or to.
        """
        height, width = _wanted(images, size)
        modes = align_corners, half_pixel_centers
        rows = xp.asarray(_nearest(images.shape[1], height, *modes))
        columns = xp.asarray(_nearest(images.shape[2], width, *modes))
        return images[:, rows[:, None], columns[None, :]]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Each output's gradient at its pixel."""
        shape = g.shape(op.inputs[0])
        if shape is not None and None not in shape[1:3]:
            size: Any = np.array(shape[1:3], np.int32)
        else:
            size = g.StridedSlice(
                g.Shape(op.inputs[0]),
                np.array([1], np.int32),
                np.array([3], np.int32),
                np.array([1], np.int32),
            )
        attrs = {name: op.attr(name) for name in _MODES}
        return g.ResizeNearestNeighborGrad(dy, size, **attrs), None


@register
class ResizeNearestNeighborGrad(Op):
    """The gradient of `ResizeNearestNeighbor`."""

    inputs = "grads: T, size: int32"
    outputs = "output: T"
    attrs = {"T": type_attr(REAL, float32), **_MODES}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, the size of the images, channels)."""
        batch, _, _, channels = node.with_rank(0, 4, "grads")
        size = known_sizes(node, 1, "size")
        return [(batch, *((None, None) if size is None else size), channels)]

    def compute(
        self,
        xp: Any,
        grads: Array,
        size: Array,
        *,
        align_corners: bool,
        half_pixel_centers: bool,
    ) -> Array:
        """The gradient of the images."""
        height, width = vector(size, "size")
        modes = align_corners, half_pixel_centers
        rows = xp.asarray(_nearest(height, grads.shape[1], *modes))
        columns = xp.asarray(_nearest(width, grads.shape[2], *modes))
        result = xp.zeros((height, width, len(grads), grads.shape[3]), grads.dtype)
        places = elements_of_rows(xp, rows[:, None] * width + columns, result[:1, :1].size)
        values = xp.ascontiguousarray(grads.transpose(1, 2, 0, 3))
        combine_at(xp, "add", result.reshape(-1), places, values.reshape(-1))
        return xp.ascontiguousarray(result.transpose(2, 0, 1, 3))
