"""Drawing boxes on images, random boxes, glimpses, non-maximum suppression by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sparkflow._api import export
from sparkflow._generated.ops.image.sampling import *  # noqa: F403
from sparkflow.graph.scopes import apply_op, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.random.random import op_seeds


class SampleDistortedBoundingBox(NamedTuple):
    """A random window: arguments for `tf.slice`, and the window as a box."""

    begin: Tensor
    size: Tensor
    bboxes: Tensor


class CombinedNonMaxSuppression(NamedTuple):
    """The selected boxes of each image, [batch, maximum, ...], and their number, [batch]."""

    nmsed_boxes: Tensor
    nmsed_scores: Tensor
    nmsed_classes: Tensor
    valid_detections: Tensor


@export("image.draw_bounding_boxes")
def draw_bounding_boxes(
    images: Any, boxes: Any, name: str | None = None, colors: Any = None
) -> Tensor:
    """Draws the borders of boxes on images.

    Args:
        images: [batch, height, width, channels] float16 or float32.
        boxes: [batch, boxes, 4] float32: y1, x1, y2, x2 as fractions of the image's size.
        name: Name of the node.
        colors: [colours, channels] float32, used cyclically; ten default colours if None.

    Returns:
        As `images`.
    """
    given = (images, boxes) if colors is None else (images, boxes, colors)
    kind = "DrawBoundingBoxes" if colors is None else "DrawBoundingBoxesV2"
    return output_of(kind, *given, name=name)


@export("image.sample_distorted_bounding_box")
def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Sequence[float] | None = None,
    area_range: Sequence[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> SampleDistortedBoundingBox:
    """Samples a random window of an image that covers enough of at least one box.

    Args:
        image_size: [height, width, channels] integers.
        bounding_boxes: [batch, boxes, 4] float32: y1, x1, y2, x2 as fractions of the size.
        seed: For the same windows in every run.
        seed2: A second seed.
        min_object_covered: The minimum fraction of a box that a window must cover.
        aspect_ratio_range: The range of width / height; 0.75 to 1.33 by default.
        area_range: The range of the fraction of the image's area; 0.05 to 1 by default.
        max_attempts: After this many attempts the window is the whole image; 100 by default.
        use_image_if_no_bounding_boxes: Use the whole image as the box if there is none.
        name: Name of the node.
    """
    first, second = (seed or 0, seed2 or 0) if seed or seed2 else op_seeds(None)
    begin, size, boxes = apply_op(
        "SampleDistortedBoundingBoxV2",
        image_size,
        bounding_boxes,
        min_object_covered,
        seed=first,
        seed2=second,
        aspect_ratio_range=list(aspect_ratio_range or (0.75, 1.33)),
        area_range=list(area_range or (0.05, 1.0)),
        max_attempts=100 if max_attempts is None else max_attempts,
        use_image_if_no_bounding_boxes=bool(use_image_if_no_bounding_boxes),
        name=name or "sample_distorted_bounding_box",
    )
    return SampleDistortedBoundingBox(begin, size, boxes)


@export("image.non_max_suppression_with_scores")
def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    soft_nms_sigma: Any = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Like `tf.image.non_max_suppression`, with scores reduced for overlapping boxes.

    Returns:
        The indices of the selected boxes, and their reduced scores.
    """
    chosen, values, _ = apply_op(
        "NonMaxSuppressionV5",
        boxes,
        scores,
        max_output_size,
        iou_threshold,
        score_threshold,
        soft_nms_sigma,
        name=name or "non_max_suppression_with_scores",
    )
    return chosen, values


@export("image.combined_non_max_suppression")
def combined_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> CombinedNonMaxSuppression:
    """Selects boxes class by class, and keeps the best over all classes of each image.

    Args:
        boxes: [batch, boxes, classes or 1, 4] float32.
        scores: [batch, boxes, classes] float32.
        max_output_size_per_class: The maximum number of boxes per class.
        max_total_size: The maximum number of boxes per image.
        iou_threshold: Boxes overlap if intersection over union is larger.
        score_threshold: Boxes with at most this score are not selected.
        pad_per_class: Whether results are padded to the maximum over all classes.
        clip_boxes: Whether boxes are clipped to [0, 1].
        name: Name of the node.
    """
    results = apply_op(
        "CombinedNonMaxSuppression",
        boxes,
        scores,
        max_output_size_per_class,
        max_total_size,
        iou_threshold,
        score_threshold,
        pad_per_class=pad_per_class,
        clip_boxes=clip_boxes,
        name=name or "combined_non_max_suppression",
    )
    return CombinedNonMaxSuppression(*results)
