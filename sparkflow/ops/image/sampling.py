"""Boxes drawn into images and drawn at random, glimpses of images, boxes chosen by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sparkflow._api import export
from sparkflow._generated.ops.image.sampling import *  # noqa: F403
from sparkflow.graph.scopes import apply_op, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.random.random import op_seeds


class SampleDistortedBoundingBox(NamedTuple):
    """A window drawn at random: arguments for `tf.slice`, and the window as a box."""

    begin: Tensor
    size: Tensor
    bboxes: Tensor


class CombinedNonMaxSuppression(NamedTuple):
    """The boxes chosen of each image, [batch, most, ...], and their number, [batch]."""

    nmsed_boxes: Tensor
    nmsed_scores: Tensor
    nmsed_classes: Tensor
    valid_detections: Tensor


@export("image.draw_bounding_boxes")
def draw_bounding_boxes(
    images: Any, boxes: Any, name: str | None = None, colors: Any = None
) -> Tensor:
    """The images with the borders of boxes drawn on them.

    Args:
        images: [batch, height, width, channels] float16 or float32.
        boxes: [batch, boxes, 4] float32: y1, x1, y2, x2 in parts of the image's size.
        name: Name of the node.
        colors: [colours, channels] float32, used in turn; ten of its own where None.

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
    """A window of an image, drawn at random, that covers enough of at least one box.

    Args:
        image_size: [height, width, channels] integers.
        bounding_boxes: [batch, boxes, 4] float32: y1, x1, y2, x2 in parts of the size.
        seed: For the same windows in every run.
        seed2: A second one.
        min_object_covered: The least part of a box that a window must cover.
        aspect_ratio_range: Of width to height; from 0.75 to 1.33 if not given.
        area_range: In parts of the image's area; from 0.05 to 1 if not given.
        max_attempts: After so many the window is the image; 100 if not given.
        use_image_if_no_bounding_boxes: Takes the image for a box where there is none.
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
        The numbers of the boxes chosen, and their scores by then.
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
    """Boxes chosen class by class, and the best of all classes of each image.

    Args:
        boxes: [batch, boxes, classes or 1, 4] float32.
        scores: [batch, boxes, classes] float32.
        max_output_size_per_class: The most boxes to choose of a class.
        max_total_size: The most to keep of an image.
        iou_threshold: Boxes overlap whose intersection is a larger share of their union.
        score_threshold: Boxes with at most this score are not chosen.
        pad_per_class: Whether the results are as long as all classes can give at most.
        clip_boxes: Whether the boxes are cut at 0 and 1.
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
