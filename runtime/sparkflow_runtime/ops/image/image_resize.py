"""Resizing of images [batch, height, width, channels], and the gradients.

All methods but nearest neighbour are linear and separable: each output row is a weighted sum of a
few input rows (taps), and so is each column; the gradient is the transpose. On CPUs this is machine
code, elsewhere matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.codegen.images.resampling import Taps, bind_choice, bind_sums
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.dtypes import FLOATING, REAL, DType, float32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.by_shape import ByShape, Chosen
from sparkflow_runtime.ops.kernels.combining import combine_at, elements_of_rows
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.static import bracketed, known_sizes, vector
from sparkflow_runtime.shapes import Shape

HostArray = np.ndarray[Any, Any]
Weights = Callable[[int, int, bool, bool], Taps]
"""Maps input size, output size and the two modes to the taps of each output."""

_MODES = {"align_corners": bool_attr(False), "half_pixel_centers": bool_attr(False)}
_CUBIC_STEPS = 1024
"""Size of TensorFlow's table of cubic weights between two pixels."""


def _scale(size: int, wanted: int, corners: bool) -> np.float32:
    if corners and wanted > 1:
        return np.float32((size - 1) / np.float32(wanted - 1))
    return np.float32(np.float32(size) / np.float32(wanted))


def _sources(size: int, wanted: int, corners: bool, centers: bool) -> HostArray:
    """Returns the input position of each output, in float32."""
    scale = _scale(size, wanted, corners)
    places = np.arange(wanted, dtype=np.float32)
    if centers:
        return (places + np.float32(0.5)) * scale - np.float32(0.5)
    return places * scale


def _even(sources: HostArray, weights: HostArray, size: int) -> Taps:
    """Taps in equal number for all results: [results, taps]."""
    wanted, each = sources.shape
    starts = np.arange(wanted + 1, dtype=np.int64) * each
    return Taps(starts, sources.reshape(-1), weights.reshape(-1), size)


def _linear(size: int, wanted: int, corners: bool, centers: bool) -> Taps:
    """Returns the two pixels around each position."""
    places = _sources(size, wanted, corners, centers)
    floor = np.floor(places)
    low = np.maximum(floor, 0).astype(np.int64)
    high = np.minimum(np.ceil(places), size - 1).astype(np.int64)
    share = places - floor
    return _even(np.stack([low, high], 1), np.stack([1 - share, share], 1), size)


def _cubic(size: int, wanted: int, corners: bool, centers: bool) -> Taps:
    """Returns four pixels per position; those outside are dropped for centers, else clipped."""
    a = -0.5 if centers else -0.75
    places = _sources(size, wanted, corners, centers)
    floor = np.floor(places)
    steps = np.rint((places - floor) * _CUBIC_STEPS)
    x = steps / _CUBIC_STEPS

    def near(d: HostArray) -> HostArray:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: HostArray) -> HostArray:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    at = floor.astype(np.int64)[:, None] + np.arange(-1, 3)
    inside = np.clip(at, 0, size - 1)
    weights = np.stack([far(x + 1), near(x), near(1 - x), far(2 - x)], 1).astype(np.float64)
    if centers:
        weights = np.where(at == inside, weights, 0.0)
        sums = weights.sum(axis=1, keepdims=True)
        weights = np.where(np.abs(sums) >= 1000 * np.finfo(np.float32).tiny, weights / sums, 0)
    return _even(inside, weights, size)


def _area(size: int, wanted: int, corners: bool, centers: bool) -> Taps:
    """Returns the fractions of each output's extent that are in each pixel."""
    scale = _scale(size, wanted, corners)
    starts = np.arange(wanted, dtype=np.float32) * scale
    ends = np.arange(1, wanted + 1, dtype=np.float32) * scale
    first, last = np.floor(starts).astype(np.int64), np.ceil(ends).astype(np.int64)
    counts = np.maximum(last - first, 0)
    begins = np.concatenate([[0], np.cumsum(counts)])
    rows = np.repeat(np.arange(wanted), counts)
    pixels = np.arange(begins[-1]) - begins[rows] + first[rows]
    parts = np.minimum(pixels + 1, ends[rows]) - np.maximum(pixels, starts[rows])
    return Taps(begins, np.minimum(pixels, size - 1), parts / scale, size)


def _nearest(size: int, wanted: int, corners: bool, centers: bool) -> HostArray:
    """Returns the input's pixel for each output."""
    scale = _scale(size, wanted, corners)
    places = np.arange(wanted, dtype=np.float32)
    if centers:
        found = np.floor((places + np.float32(0.5)) * scale)
    elif corners:
        found = np.floor(places * scale + np.float32(0.5))
    else:
        found = np.floor(places * scale)
    return np.asarray(np.clip(found, 0, size - 1), np.int64)


def _applied(xp: Any, images: Array, taps: Sequence[Taps]) -> Array:
    """Replaces rows and columns of images by their combinations, by matrix products."""
    kind = images.dtype
    rows, columns = (each.matrix() for each in taps)
    first = xp.tensordot(images, xp.asarray(columns.astype(kind)), axes=([2], [1]))
    second = xp.tensordot(first, xp.asarray(rows.astype(kind)), axes=([1], [1]))
    return xp.ascontiguousarray(second.transpose(0, 3, 2, 1))


def _gradient_taps(
    make: Weights, images: Array, grads: Array, corners: bool, centers: bool
) -> list[Taps]:
    """The taps from gradients to images: of the rows, and of the columns."""
    sizes = zip(images.shape[1:3], grads.shape[1:3], strict=True)
    return [make(*each, corners, centers).transposed() for each in sizes]


def _sums(taps: Sequence[Taps], kind: np.dtype[Any], given: Sequence[int]) -> Chosen | None:
    """Returns the kernel for images of that shape."""
    rows, columns = taps
    fill = bind_sums(kind, given[0], given[3], rows, columns)
    shape = (given[0], rows.count, columns.count, given[3])
    return None if fill is None else Chosen(shape, lambda inputs, out: fill(inputs[0], out))


@dataclass(frozen=True, slots=True)
class _Machine:
    """How a node is computed in machine code.

    Attributes:
        choose: Returns the machine code for inputs, the first of which are images.
        sizes: See `ByShape`.
        kind: The dtype of the computation.
        result: The dtype of the result.
    """

    choose: Callable[..., Chosen | None]
    sizes: int | None
    kind: np.dtype[Any]
    result: DType

    def kernel(self, plain: Callable[..., Array]) -> Callable[..., Array]:
        """Returns the kernel of `Op.bind`; `plain` is the fallback, and reports errors."""
        known = ByShape(self.choose, self.sizes)
        wanted = self.result.as_numpy_dtype

        def kernel(*inputs: Array) -> Array:
            chosen = self._chosen(known, inputs)
            if chosen is not None:
                out = np.empty(chosen.shape, self.kind)
                if chosen.fill((np.ascontiguousarray(inputs[0], self.kind),), out):
                    return out.astype(wanted, copy=False)
            return plain(*inputs)

        return kernel

    def kernel_out(self, plain: Callable[..., Array]) -> Callable[..., None]:
        """Returns the kernel of `Op.bind_out`."""
        known = ByShape(self.choose, self.sizes)
        computed = self.kernel(plain)

        def kernel(*arrays: Array) -> None:
            *inputs, out = arrays
            chosen = self._chosen(known, inputs) if out.dtype == self.kind else None
            if chosen is None or not chosen.fill(
                (np.ascontiguousarray(inputs[0], self.kind),), out
            ):
                np.copyto(out, computed(*inputs))

        return kernel

    @staticmethod
    def _chosen(known: ByShape, inputs: Sequence[Array]) -> Chosen | None:
        if inputs[0].ndim != 4 or inputs[1].ndim not in (1, 4):
            return None
        return known.chosen(inputs)


class _ImageOp(Op):
    """An op that is machine code on CPUs."""

    def machine(self, node: NodeView) -> _Machine:
        """Returns how a node is computed there."""
        raise NotImplementedError

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """`compute`, or machine code that does the same."""
        plain = super().bind(node, context)
        return self.machine(node).kernel(plain) if context.xp is np else plain

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., None] | None:
        """The same, into an array."""
        if context.xp is not np or not native.available():
            return None
        return self.machine(node).kernel_out(super().bind(node, context))


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


class _Resize(_ImageOp):
    inputs = "images: T, size: int32"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, the requested size, channels)."""
        batch, _, _, channels = node.with_rank(0, 4, "images")
        size = known_sizes(node, 1, "size")
        if size is None:
            return [(batch, None, None, channels)]
        if len(size) != 2:
            raise InvalidArgumentError(message=f"size must have two elements, got {list(size)}")
        return [(batch, *size, channels)]


class _Weighted(_Resize):
    """Resizing by sums of taps.

    Attributes:
        weights: The taps along one dimension.
    """

    outputs = "resized_images: float32"
    weights: ClassVar[Weights]

    def _taps(
        self, shape: Sequence[int], size: Sequence[int], corners: bool, centers: bool
    ) -> list[Taps]:
        """Returns the taps of the rows, and of the columns."""
        make = type(self).weights
        return [make(*each, corners, centers) for each in zip(shape[1:3], size, strict=True)]

    def compute(
        self,
        xp: Any,
        images: Array,
        size: Array,
        *,
        align_corners: bool,
        half_pixel_centers: bool = False,
    ) -> Array:
        """The resized images.

        Raises:
            InvalidArgumentError: An input or output size is 0.
        """
        height, width = _wanted(images, size)
        taps = self._taps(images.shape, (height, width), align_corners, half_pixel_centers)
        return _applied(xp, images.astype(xp.float32, copy=False), taps)

    def machine(self, node: NodeView) -> _Machine:
        """Returns its machine code."""
        corners, centers = (bool(node.attrs.get(name)) for name in _MODES)

        def choose(images: Array, size: Array) -> Chosen | None:
            taps = self._taps(images.shape, _wanted(images, size), corners, centers)
            return _sums(taps, np.dtype(np.float32), images.shape)

        return _Machine(choose, 1, np.dtype(np.float32), float32)


class _Smooth(_Weighted):
    """Resizing with a gradient.

    Attributes:
        backward: The type of the gradient's op.
    """

    attrs = {"T": type_attr(REAL), **_MODES}
    backward: ClassVar[str]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The transposed matrices, for floating-point images."""
        images = op.inputs[0]
        if not images.dtype.is_floating:
            return None, None
        attrs = {name: op.attr(name) for name in _MODES}
        return getattr(g, self.backward)(dy, images, **attrs), None


class _SmoothGrad(_ImageOp):
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
        taps = _gradient_taps(type(self).weights, images, grads, align_corners, half_pixel_centers)
        return _applied(xp, grads, taps).astype(images.dtype, copy=False)

    def machine(self, node: NodeView) -> _Machine:
        """Returns its machine code."""
        modes = [bool(node.attrs[name]) for name in _MODES]

        def choose(grads: Array, images: Array) -> Chosen | None:
            taps = _gradient_taps(type(self).weights, images, grads, *modes)
            return _sums(taps, grads.dtype, grads.shape)

        return _Machine(choose, None, np.dtype(np.float32), node.attrs["T"])


@register
class ResizeBilinear(_Smooth):
    """Bilinear interpolation: each pixel is a weighted mean of four."""

    weights: ClassVar[Weights] = staticmethod(_linear)
    backward = "ResizeBilinearGrad"


@register
class ResizeBicubic(_Smooth):
    """Bicubic interpolation: each pixel is a weighted sum of sixteen."""

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
class ResizeArea(_Weighted):
    """Each pixel is the mean of the area that it covers; there is no gradient."""

    weights: ClassVar[Weights] = staticmethod(_area)
    attrs = {"T": type_attr(REAL), "align_corners": bool_attr(False)}


@register
class ResizeNearestNeighbor(_Resize):
    """Each pixel is the nearest of the input."""

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
            InvalidArgumentError: An input or output size is 0.
        """
        height, width = _wanted(images, size)
        modes = align_corners, half_pixel_centers
        rows = xp.asarray(_nearest(images.shape[1], height, *modes))
        columns = xp.asarray(_nearest(images.shape[2], width, *modes))
        return images[:, rows[:, None], columns[None, :]]

    def machine(self, node: NodeView) -> _Machine:
        """Returns its machine code."""
        modes = [bool(node.attrs[name]) for name in _MODES]
        kind = np.dtype(node.attrs["T"].as_numpy_dtype)

        def choose(images: Array, size: Array) -> Chosen | None:
            sizes = zip(images.shape[1:3], _wanted(images, size), strict=True)
            rows, columns = (_nearest(*each, *modes) for each in sizes)
            fill = bind_choice(kind, images.shape, rows, columns)
            shape = (len(images), len(rows), len(columns), images.shape[3])
            return None if fill is None else Chosen(shape, lambda given, out: fill(given[0], out))

        return _Machine(choose, 1, kind, node.attrs["T"])

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients, added at their pixels."""
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
class ResizeNearestNeighborGrad(_ImageOp):
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

    def machine(self, node: NodeView) -> _Machine:
        """Returns its machine code."""
        modes = [bool(node.attrs[name]) for name in _MODES]
        kind = np.dtype(node.attrs["T"].as_numpy_dtype)

        def choose(grads: Array, size: Array) -> Chosen | None:
            sizes = zip(vector(size, "size"), grads.shape[1:3], strict=True)
            taps = [
                _even(each[:, None], np.ones((len(each), 1)), dim).transposed()
                for dim, each in ((dim, _nearest(dim, of, *modes)) for dim, of in sizes)
            ]
            return _sums(taps, kind, grads.shape)

        return _Machine(choose, 1, kind, node.attrs["T"])
