"""Boxes in images: cropping with resizing, and non-maximum suppression.

A box is [y1, x1, y2, x2] as fractions of the image's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.images.cropping import Places, crop, spread
from sparkflow_runtime.dtypes import FLOATING, REAL, float32
from sparkflow_runtime.errors import InvalidArgumentError, OutOfRangeError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.image.suppression import (
    check_boxes,
    suppressed,
    suppressed_by_matrix,
)
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, float_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import (
    bracketed,
    constant_scalar,
    constant_shape,
    known_sizes,
    scalar,
    shape_tensor,
    vector,
)
from sparkflow_runtime.shapes import Shape

HostArray = np.ndarray[Any, Any]

_MOST_CONVERTED = 4
"""Samples the pixels of the images for each crop."""
_METHOD = string_attr("bilinear", frozenset({"bilinear", "nearest"}))


def _places(boxes: HostArray, first: int, size: int, wanted: int) -> HostArray:
    """Returns the pixels' positions along one dimension: [boxes, size] float32."""
    low, high = boxes[:, first], boxes[:, first + 2]
    if wanted > 1:
        step = (high - low) * np.float32(size - 1) / np.float32(wanted - 1)
        at = low[:, None] * np.float32(size - 1)
        return at + np.arange(wanted, dtype=np.float32) * step[:, None]
    return np.float32(0.5) * (low + high)[:, None] * np.float32(size - 1)


def _check(boxes: HostArray, numbers: HostArray, batch: int) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise InvalidArgumentError(
            message=f"boxes must have 4 columns, got shape {bracketed(boxes.shape)}"
        )
    if numbers.shape != boxes.shape[:1]:
        raise InvalidArgumentError(
            message=f"box_ind must have one element per box: {bracketed(numbers.shape)}"
        )
    if numbers.size and (numbers.min() < 0 or numbers.max() >= batch):
        raise OutOfRangeError(message=f"box_index has values outside [0, {batch})")


def _pixels(places: HostArray, size: int) -> HostArray:
    """Returns the nearest valid indices; the first for NaN positions."""
    inside = np.fmin(np.fmax(places, np.float32(0)), np.float32(size - 1))
    return np.asarray(inside, np.int64)


def _fraction(places: HostArray) -> HostArray:
    """Returns the fractional parts, with an axis for the channels; 0 for NaN and infinite ones."""
    return np.asarray(np.fmax(places - np.floor(places), np.float32(0)))[..., None]


class _Crops:
    """The sources of the pixels of all crops."""

    def __init__(self, boxes: HostArray, dims: Sequence[int], size: Sequence[int]) -> None:
        self.y = _places(boxes, 0, dims[0], size[0])[:, :, None]
        self.x = _places(boxes, 1, dims[1], size[1])[:, None, :]
        self.dims = rows, columns = dims[0], dims[1]
        self.in_rows = (self.y >= 0) & (self.y <= rows - 1)
        self.in_columns = (self.x >= 0) & (self.x <= columns - 1)

    @cached_property
    def down(self) -> HostArray:
        """Returns how far each position is below the upper of its pixels."""
        return _fraction(self.y)

    @cached_property
    def across(self) -> HostArray:
        """Returns how far each position is beyond the left one of its pixels."""
        return _fraction(self.x)

    def rows_around(self) -> tuple[HostArray, HostArray]:
        """Returns the rows above and below each position."""
        return _pixels(np.floor(self.y), self.dims[0]), _pixels(np.ceil(self.y), self.dims[0])

    def columns_around(self) -> tuple[HostArray, HostArray]:
        """Returns the columns to the left and to the right of each position."""
        return _pixels(np.floor(self.x), self.dims[1]), _pixels(np.ceil(self.x), self.dims[1])

    @property
    def inside(self) -> HostArray:
        """Returns which positions are inside the images, with an axis for the channels."""
        return (self.in_rows & self.in_columns)[..., None]

    def corners(self) -> list[tuple[HostArray, HostArray, HostArray]]:
        """Yields (row, column, weight) of the four pixels around each position."""
        up, back = 1 - self.down, 1 - self.across
        (top, bottom), (left, right) = self.rows_around(), self.columns_around()
        return [
            (top, left, up * back),
            (top, right, up * self.across),
            (bottom, left, self.down * back),
            (bottom, right, self.down * self.across),
        ]

    def tables(self, method: str) -> tuple[Places, Places]:
        """Returns the same for the rows, and for the columns, for machine code."""
        in_rows, in_columns = self.in_rows[:, :, 0], self.in_columns[:, 0]
        if method == "nearest":
            near = self.nearest()
            return (
                Places(near[0][:, :, 0], None, None, in_rows),
                Places(near[1][:, 0], None, None, in_columns),
            )
        (top, bottom), (left, right) = self.rows_around(), self.columns_around()
        return (
            Places(top[:, :, 0], bottom[:, :, 0], self.down[:, :, 0, 0], in_rows),
            Places(left[:, 0], right[:, 0], self.across[:, 0, :, 0], in_columns),
        )

    def nearest(self) -> tuple[HostArray, HostArray]:
        """Returns the pixels nearest to each position."""
        rows, columns = self.dims
        half = np.float32(0.5)
        return _pixels(np.floor(self.y + half), rows), _pixels(np.floor(self.x + half), columns)


@register
class CropAndResize(Op):
    """Crops boxes from images and resizes each to `crop_size`."""

    inputs = "image: T, boxes: float32, box_ind: int32, crop_size: int32"
    outputs = "crops: float32"
    attrs = {"T": type_attr(REAL), "method": _METHOD, "extrapolation_value": float_attr(0.0)}
    kernels = {"CPU": None}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(boxes, crop height, crop width, depth)."""
        image, boxes = node.with_rank(0, 4, "image"), node.with_rank(1, 2, "boxes")
        size = known_sizes(node, 3, "crop_size")
        return [(boxes[0], *((None, None) if size is None else size), image[3])]

    def compute(
        self,
        xp: Any,
        image: Array,
        boxes: Array,
        numbers: Array,
        size: Array,
        *,
        method: str,
        extrapolation_value: float,
    ) -> Array:
        """The crops.

        Raises:
            InvalidArgumentError: The shapes do not match, a box belongs to no image, or the size is
                0.
        """
        _check(boxes, numbers, len(image))
        wanted = vector(size, "crop_size")
        if len(wanted) != 2 or min(wanted) <= 0:
            raise InvalidArgumentError(
                message=f"crop dimensions must be positive, got {list(wanted)}"
            )
        crops = _Crops(boxes, image.shape[1:3], wanted)
        count = len(boxes) * wanted[0] * wanted[1] * image.shape[3]
        # Not if all pixels would be converted for the sake of a few.
        if image.dtype == np.float32 or image.size <= _MOST_CONVERTED * count:
            pixels = np.ascontiguousarray(image, np.float32)
            made = crop(pixels, numbers, *crops.tables(method), extrapolation_value)
            if made is not None:
                return made
        of = numbers[:, None, None]
        if method == "nearest":
            rows, columns = crops.nearest()
            found = image[of, rows, columns].astype(np.float32)
        else:
            found = np.zeros((len(boxes), *wanted, image.shape[3]), np.float32)
            for row, column, weight in crops.corners():
                found += image[of, row, column] * weight
        outside = np.float32(extrapolation_value)
        return np.where(crops.inside, found, outside).astype(np.float32, copy=False)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """With respect to images and boxes."""
        image, boxes, numbers, _ = op.inputs
        method = op.attr("method")
        by_image = by_boxes = None
        if image.dtype.is_floating:
            by_image = g.CropAndResizeGradImage(
                dy, boxes, numbers, shape_tensor(g, image), T=image.dtype.base, method=method
            )
        if method == "bilinear":
            by_boxes = g.CropAndResizeGradBoxes(dy, image, boxes, numbers, method=method)
        return by_image, by_boxes, None, None


@register
class CropAndResizeGradImage(Op):
    """The gradient of `CropAndResize` with respect to the images."""

    inputs = "grads: float32, boxes: float32, box_ind: int32, image_size: int32"
    outputs = "output: T"
    attrs = {"T": type_attr(FLOATING), "method": _METHOD}
    kernels = {"CPU": None}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The given shape."""
        shape = constant_shape(node, 3, "image_size")
        return [(None,) * 4 if shape is None else shape]

    def compute(
        self,
        xp: Any,
        grads: Array,
        boxes: Array,
        numbers: Array,
        size: Array,
        *,
        T: Any,
        method: str,
    ) -> Array:
        """The gradient."""
        shape = vector(size, "image_size")
        _check(boxes, numbers, shape[0])
        crops = _Crops(boxes, shape[1:3], grads.shape[1:3])
        result = np.zeros(shape, np.float32)
        if spread(np.ascontiguousarray(grads), numbers, *crops.tables(method), result):
            return result.astype(T.as_numpy_dtype, copy=False)
        given = grads * crops.inside
        of = numbers[:, None, None]
        if method == "nearest":
            rows, columns = crops.nearest()
            np.add.at(result, (of, rows, columns), given)
        else:
            for row, column, weight in crops.corners():
                np.add.at(result, (of, row, column), given * weight)
        return result.astype(T.as_numpy_dtype, copy=False)


@register
class CropAndResizeGradBoxes(Op):
    """The gradient of `CropAndResize` with respect to the boxes."""

    inputs = "grads: float32, image: T, boxes: float32, box_ind: int32"
    outputs = "output: float32"
    attrs = {"T": type_attr(REAL), "method": string_attr("bilinear", frozenset({"bilinear"}))}
    kernels = {"CPU": None}
    infer = same_as(2, 2, "boxes")

    def compute(self, xp: Any, grads: Array, image: Array, boxes: Array, numbers: Array) -> Array:
        """The gradient."""
        _check(boxes, numbers, len(image))
        wanted = grads.shape[1:3]
        crops = _Crops(boxes, image.shape[1:3], wanted)
        of = numbers[:, None, None]
        (tl, tr, bl, br) = (
            image[of, row, column].astype(np.float32) for row, column, _ in crops.corners()
        )
        by_y = (1 - crops.across) * (bl - tl) + crops.across * (br - tr)
        by_x = (1 - crops.down) * (tr - tl) + crops.down * (br - bl)
        given = grads * crops.inside
        result = np.zeros(boxes.shape, np.float32)
        for first, slopes, axis in ((0, by_y, 1), (1, by_x, 2)):
            scale = image.shape[axis] - 1
            each = (given * slopes).sum(axis=3)
            if wanted[axis - 1] > 1:
                share = np.arange(wanted[axis - 1]) / (wanted[axis - 1] - 1)
                share = share[:, None] if axis == 1 else share[None, :]
            else:
                share = np.full((1, 1), 0.5)
            result[:, first] = (each * (1 - share) * scale).sum(axis=(1, 2))
            result[:, first + 2] = (each * share * scale).sum(axis=(1, 2))
        return result


def _chosen_boxes(
    boxes: HostArray, scores: HostArray, limit: HostArray, threshold: HostArray, least: float
) -> HostArray:
    check_boxes(boxes, scores)
    bound = float(threshold)
    if not 0 <= bound <= 1:
        raise InvalidArgumentError(message="iou_threshold must be in [0, 1]")
    return suppressed(boxes, scores, scalar(limit, "max_output_size"), bound, least)


def padded(values: HostArray, size: int) -> HostArray:
    """Returns a vector with zeros behind it if it has fewer elements than `size`."""
    result = np.zeros(max(size, len(values)), values.dtype)
    result[: len(values)] = values
    return result


@register
class NonMaxSuppressionV3(Op):
    """Returns the indices of boxes by descending score that overlap none selected before."""

    inputs = (
        "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold, "
        "score_threshold: T_threshold"
    )
    outputs = "selected_indices: int32"
    attrs = {"T": type_attr(FLOATING, float32), "T_threshold": type_attr(FLOATING, float32)}
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(selected,)."""
        ((boxes, _), (scores,)) = node.with_rank(0, 2, "boxes"), node.with_rank(1, 1, "scores")
        if None not in (boxes, scores) and boxes != scores:
            raise InvalidArgumentError(
                message=f"Dimensions must be equal, but are {boxes} and {scores}"
            )
        return [(None,)]

    def compute(
        self, xp: Any, boxes: Array, scores: Array, limit: Array, threshold: Array, least: Array
    ) -> Array:
        """The indices."""
        return _chosen_boxes(boxes, scores, limit, threshold, float(least))


@register
class NonMaxSuppressionV4(NonMaxSuppressionV3):
    """Like `NonMaxSuppressionV3`, optionally zero-padded; also returns the number selected."""

    outputs = "selected_indices: int32, valid_outputs: int32"
    attrs = {**NonMaxSuppressionV3.attrs, "pad_to_max_output_size": bool_attr(False)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(selected,) or (maximum,), and ()."""
        size = constant_scalar(node, 2, "max_output_size")
        return [(size if node.attrs["pad_to_max_output_size"] else None,), ()]

    def compute(  # type: ignore[override]  # one attribute more
        self,
        xp: Any,
        boxes: Array,
        scores: Array,
        limit: Array,
        threshold: Array,
        least: Array,
        *,
        pad_to_max_output_size: bool,
    ) -> tuple[Array, Array]:
        """The indices, and their number."""
        chosen = _chosen_boxes(boxes, scores, limit, threshold, float(least))
        count = len(chosen)
        if pad_to_max_output_size:
            chosen = padded(chosen, int(limit))
        return chosen, np.array(count, np.int32)


@register
class NonMaxSuppressionWithOverlaps(Op):
    """Like `NonMaxSuppressionV3`, with given overlaps."""

    inputs = (
        "overlaps: float32, scores: float32, max_output_size: int32, overlap_threshold: float32, "
        "score_threshold: float32"
    )
    outputs = "selected_indices: int32"
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(selected,)."""
        node.with_rank(0, 2, "overlaps")
        node.with_rank(1, 1, "scores")
        return [(None,)]

    def compute(
        self, xp: Any, overlaps: Array, scores: Array, limit: Array, threshold: Array, least: Array
    ) -> Array:
        """The indices."""
        return suppressed_by_matrix(
            overlaps, scores, scalar(limit, "max_output_size"), float(threshold), float(least)
        )
