"""Drawing boxes on images, random boxes, glimpses, non-maximum suppression by class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import (
    FLOATING,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.image.image_boxes import padded
from sparkflow_runtime.ops.image.suppression import (
    check_boxes,
    soft_suppressed,
    suppressed_by_class,
)
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.ordering import descending
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.random.random import RandomStream, stream_of
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    bool_attr,
    int_attr,
    list_attr,
    string_attr,
    type_attr,
)
from sparkflow_runtime.ops.static import bracketed, constant_scalar, known_sizes
from sparkflow_runtime.shapes import Shape

HostArray = np.ndarray[Any, Any]

_COLORS = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ],
    np.float32,
)
"""Yellow, blue, red, lime, purple, olive, maroon, navy, aqua, fuchsia: of boxes, cyclically."""


@register
class DrawBoundingBoxesV2(Op):
    """Draws the borders of boxes on images, in the given colours or in ten default ones."""

    inputs = "images: T, boxes: float32, colors: float32"
    outputs = "output: T"
    attrs = {"T": type_attr(frozenset({float16, float32}), float32)}
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the images."""
        images = node.with_rank(0, 4, "images")
        node.with_rank(1, 3, "boxes")
        return [images]

    def compute(self, xp: Any, images: Array, boxes: Array, colors: Array) -> Array:
        """[batch, height, width, channels].

        Raises:
            InvalidArgumentError: The boxes do not match the images, or there are too many channels.
        """
        batch, height, width, channels = images.shape
        if boxes.shape[0] != batch or boxes.shape[2] != 4:
            raise InvalidArgumentError(
                message=f"boxes must be [{batch}, boxes, 4], got {bracketed(boxes.shape)}"
            )
        if channels not in (1, 3, 4):
            raise InvalidArgumentError(message=f"Channel depth should be 1, 3 or 4, got {channels}")
        palette = colors if colors.size else _COLORS
        if channels == 1 and not colors.size:
            palette = np.ones((1, 1), np.float32)
        result = images.copy()
        for image, its_boxes in zip(result, boxes, strict=True):
            for index, (top, left, bottom, right) in enumerate(its_boxes):
                first, last = int(top * (height - 1)), int(bottom * (height - 1))
                begin, end = int(left * (width - 1)), int(right * (width - 1))
                outside = first >= height or last < 0 or begin >= width or end < 0
                if first > last or begin > end or outside:
                    continue
                color = palette[index % len(palette), :channels]
                rows = slice(max(first, 0), min(last, height - 1) + 1)
                columns = slice(max(begin, 0), min(end, width - 1) + 1)
                for row in (first, last):
                    if 0 <= row < height:
                        image[row, columns] = color
                for column in (begin, end):
                    if 0 <= column < width:
                        image[rows, column] = color
        return result


@register
class DrawBoundingBoxes(DrawBoundingBoxesV2):
    """Like `DrawBoundingBoxesV2`, in the default colours."""

    inputs = "images: T, boxes: float32"

    def compute(  # type: ignore[override]  # one input less
        self, xp: Any, images: Array, boxes: Array
    ) -> Array:
        """[batch, height, width, channels]."""
        return super().compute(xp, images, boxes, np.empty((0, 4), np.float32))


@register
class ExtractGlimpse(Op):
    """Extracts a window of each image around an offset; noise or zeros outside of the image."""

    inputs = "input: float32, size: int32, offsets: float32"
    outputs = "glimpse: float32"
    attrs = {
        "centered": bool_attr(True),
        "normalized": bool_attr(True),
        "uniform_noise": bool_attr(True),
        "noise": string_attr("uniform"),
    }
    kernels = {"CPU": None}
    stateful = True
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """[batch, height, width, channels]."""
        batch, _, _, channels = node.with_rank(0, 4, "input")
        batch = shapes.merge_dims(batch, node.with_rank(2, 2, "offsets")[0])
        size = known_sizes(node, 1, "size") or (None, None)
        return [(batch, *size, channels)]

    def compute(
        self,
        xp: Any,
        images: Array,
        size: Array,
        offsets: Array,
        *,
        centered: bool,
        normalized: bool,
        uniform_noise: bool,
        noise: str,
    ) -> Array:
        """The windows."""
        height, width = (int(n) for n in size)
        shape = len(images), height, width, images.shape[3]
        generator = np.random.default_rng()
        if noise == "zero":
            result = np.zeros(shape, np.float32)
        elif noise == "gaussian" or not uniform_noise:
            spread, mean = np.std(images), np.mean(images)
            result = generator.normal(mean, spread, shape).astype(np.float32)
        else:
            low, high = (images.min(), images.max()) if images.size else (0, 1)
            result = generator.uniform(low, high, shape).astype(np.float32)
        sizes = np.array(images.shape[1:3], np.float32)
        wanted = np.array([height, width], np.float32)
        places = offsets * sizes if normalized else offsets.copy()
        if centered:
            places = (places / 2 if normalized else places) + sizes / 2 - wanted / 2
        for image, window, (y, x) in zip(images, result, places.astype(int), strict=True):
            rows = slice(max(y, 0), min(y + height, image.shape[0]))
            columns = slice(max(x, 0), min(x + width, image.shape[1]))
            if rows.start < rows.stop and columns.start < columns.stop:
                window[rows.start - y : rows.stop - y, columns.start - x : columns.stop - x] = (
                    image[rows, columns]
                )
        return result


@register
class SampleDistortedBoundingBoxV2(Op):
    """Samples a random window of an image that covers enough of at least one box."""

    inputs = "image_size: T, bounding_boxes: float32, min_object_covered: float32"
    outputs = "begin: T, size: T, bboxes: float32"
    attrs = {
        "T": type_attr(frozenset({uint8, int8, int16, int32, int64})),
        "seed": int_attr(0),
        "seed2": int_attr(0),
        "aspect_ratio_range": list_attr("float", [0.75, 1.33]),
        "area_range": list_attr("float", [0.05, 1.0]),
        "max_attempts": int_attr(100),
        "use_image_if_no_bounding_boxes": bool_attr(False),
    }
    stateful = True
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """[3], [3] and [1, 1, 4]."""
        node.with_rank(0, 1, "image_size")
        node.with_rank(1, 3, "bounding_boxes")
        return [(3,), (3,), (1, 1, 4)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, which draws from the node's own stream."""
        attrs = node.attrs
        seeds = attrs["seed"], attrs["seed2"]
        stream = stream_of(context.session, node.name, RandomStream, lambda: RandomStream(*seeds))

        def kernel(size: Array, boxes: Array, covered: Array) -> tuple[Array, ...]:
            height, width = int(size[0]), int(size[1])
            given = boxes.reshape(-1, 4)
            if not given.size:
                if not attrs["use_image_if_no_bounding_boxes"]:
                    raise InvalidArgumentError(
                        message="No bounding boxes provided as input. One must enable "
                        "use_image_if_no_bounding_boxes if you wish to not provide any bounding "
                        "boxes."
                    )
                given = np.array([[0, 0, 1, 1]], np.float32)
            scale = np.array([height, width, height, width], np.float32)
            pixels = given * scale
            with stream.lock:
                top, left, rows, columns = _window(
                    stream.generator, attrs, height, width, pixels, float(covered)
                )
            begin = np.array([top, left, 0], size.dtype)
            extent = np.array([rows, columns, -1], size.dtype)
            box = np.array([top, left, top + rows, left + columns], np.float32) / scale
            return begin, extent, box.reshape(1, 1, 4)

        return kernel


def _window(
    generator: np.random.Generator,
    attrs: Any,
    height: int,
    width: int,
    boxes: HostArray,
    covered: float,
) -> tuple[int, int, int, int]:
    """Returns (top, left, rows, columns) of the first suitable window; of the image if none."""
    area = height * width
    smallest, largest = (share * area for share in attrs["area_range"])
    for _ in range(attrs["max_attempts"]):
        ratio = generator.uniform(*attrs["aspect_ratio_range"])
        most = min(largest, (width / ratio) ** 2 * ratio, height**2 * ratio)
        if most < smallest:
            continue
        rows = round(np.sqrt(generator.uniform(smallest, most) / ratio))
        columns = round(rows * ratio)
        if not (0 < rows <= height and 0 < columns <= width):
            continue
        if not smallest <= rows * columns <= largest:
            continue
        top = int(generator.integers(height - rows + 1))
        left = int(generator.integers(width - columns + 1))
        corners = np.array([top, left, top + rows, left + columns])
        low, high = np.maximum(boxes[:, :2], corners[:2]), np.minimum(boxes[:, 2:], corners[2:])
        common = np.prod(np.maximum(high - low, 0), axis=1)
        sizes = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
        if (common >= covered * sizes).any():
            return top, left, rows, columns
    return 0, 0, height, width


@register
class NonMaxSuppressionV5(Op):
    """Like `NonMaxSuppressionV4`, with reduced scores for overlapping boxes."""

    inputs = (
        "boxes: T, scores: T, max_output_size: int32, iou_threshold: T, score_threshold: T, "
        "soft_nms_sigma: T"
    )
    outputs = "selected_indices: int32, selected_scores: T, valid_outputs: int32"
    attrs = {
        "T": type_attr(FLOATING, float32),
        "pad_to_max_output_size": bool_attr(False),
    }
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(selected,) twice, and ()."""
        node.with_rank(0, 2, "boxes")
        node.with_rank(1, 1, "scores")
        size = constant_scalar(node, 2, "max_output_size")
        size = size if node.attrs["pad_to_max_output_size"] else None
        return [(size,), (size,), ()]

    def compute(
        self,
        xp: Any,
        boxes: Array,
        scores: Array,
        limit: Array,
        threshold: Array,
        least: Array,
        sigma: Array,
        *,
        pad_to_max_output_size: bool,
    ) -> tuple[Array, ...]:
        """The indices, their scores, and their number."""
        check_boxes(boxes, scores)
        chosen, values = soft_suppressed(
            boxes, scores, int(limit), float(threshold), float(least), float(sigma)
        )
        count = len(chosen)
        if pad_to_max_output_size:
            chosen, values = padded(chosen, int(limit)), padded(values, int(limit))
        return chosen, values, np.array(count, np.int32)


@register
class CombinedNonMaxSuppression(Op):
    """Selects boxes class by class, and keeps the best over all classes of each image."""

    inputs = (
        "boxes: float32, scores: float32, max_output_size_per_class: int32, max_total_size: int32, "
        "iou_threshold: float32, score_threshold: float32"
    )
    outputs = (
        "nmsed_boxes: float32, nmsed_scores: float32, nmsed_classes: float32, "
        "valid_detections: int32"
    )
    attrs = {"pad_per_class": bool_attr(False), "clip_boxes": bool_attr(True)}
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """[batch, maximum, 4], [batch, maximum] twice, [batch]."""
        batch = node.with_rank(0, 4, "boxes")[0]
        classes = node.with_rank(1, 3, "scores")[2]
        size = constant_scalar(node, 3, "max_total_size")
        if node.attrs["pad_per_class"]:
            each = constant_scalar(node, 2, "max_output_size_per_class")
            known = None not in (size, each, classes)
            size = min(size, each * classes) if known else None
        return [(batch, size, 4), (batch, size), (batch, size), (batch,)]

    def compute(
        self,
        xp: Any,
        boxes: Array,
        scores: Array,
        per_class: Array,
        total: Array,
        threshold: Array,
        least: Array,
        *,
        pad_per_class: bool,
        clip_boxes: bool,
    ) -> tuple[Array, ...]:
        """Boxes, scores, classes, counts; zero-padded."""
        _check_classes(boxes, scores)
        batch, _, classes = scores.shape
        size = min(int(total), int(per_class) * classes) if pad_per_class else int(total)
        found_boxes = np.zeros((batch, size, 4), np.float32)
        found_scores, found_classes = (np.zeros((batch, size), np.float32) for _ in range(2))
        numbers, _, counts = suppressed_by_class(
            boxes, scores, int(per_class), float(threshold), float(least)
        )
        limit = numbers.shape[2]
        is_found = np.arange(limit) < counts[:, :, None]
        numbers = np.where(is_found, numbers, 0).reshape(batch, classes * limit)
        labels = np.repeat(np.arange(classes), limit)
        images = np.arange(batch)[:, None]
        values = scores[images, numbers, labels]
        # Less than all scores that were found, which are not NaN and greater than the threshold.
        values[~is_found.reshape(values.shape)] = -np.inf
        order = descending(values)[:, :size]
        kept = order.shape[1]
        valid = np.minimum(counts.sum(axis=1, dtype=np.int32), size)
        is_valid = np.arange(kept) < valid[:, None]
        number, label = numbers[images, order], labels[order]
        chosen = boxes[images, number, label if boxes.shape[2] > 1 else 0]
        if clip_boxes:
            chosen = np.clip(chosen, 0, 1)
        for target, each in (
            (found_boxes, chosen),
            (found_scores, values[images, order]),
            (found_classes, label),
        ):
            target[:, :kept][is_valid] = each[is_valid]
        return found_boxes, found_scores, found_classes, valid


def _check_classes(boxes: HostArray, scores: HostArray) -> None:
    if boxes.ndim != 4 or boxes.shape[3] != 4:
        raise InvalidArgumentError(
            message=f"boxes must be [batch, boxes, classes, 4]: {bracketed(boxes.shape)}"
        )
    if scores.shape[:2] != boxes.shape[:2] or scores.ndim != 3:
        raise InvalidArgumentError(
            message=f"scores has incompatible shape: {bracketed(scores.shape)} for boxes of shape "
            f"{bracketed(boxes.shape)}"
        )
    if boxes.shape[2] not in (1, scores.shape[2]):
        raise InvalidArgumentError(
            message=f"boxes must have 1 or {scores.shape[2]} classes: {bracketed(boxes.shape)}"
        )
