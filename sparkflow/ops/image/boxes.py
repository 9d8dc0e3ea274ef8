"""Choosing boxes that do not overlap."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor


def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """The numbers of boxes by falling score that overlap none chosen before.

    Args:
        boxes: [boxes, 4] float32: y1, x1, y2, x2.
        scores: [boxes] float32.
        max_output_size: The most boxes to choose.
        iou_threshold: Boxes overlap whose intersection is a larger share of their union.
        score_threshold: Boxes with at most this score are not chosen.
        name: Name of the node.

    Returns:
        [chosen] int32.
    """
    result: Tensor = apply_op(
        "NonMaxSuppressionV3",
        boxes,
        scores,
        max_output_size,
        iou_threshold,
        score_threshold,
        name=name or "non_max_suppression",
    )
    return result


def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`, filled up with zeros if asked, and how many were chosen."""
    chosen, count = apply_op(
        "NonMaxSuppressionV4",
        boxes,
        scores,
        max_output_size,
        iou_threshold,
        score_threshold,
        pad_to_max_output_size=pad_to_max_output_size,
        name=name or "non_max_suppression_padded",
    )
    return chosen, count


def non_max_suppression_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """As `non_max_suppression`, with the overlaps [boxes, boxes] given."""
    result: Tensor = apply_op(
        "NonMaxSuppressionWithOverlaps",
        overlaps,
        scores,
        max_output_size,
        overlap_threshold,
        score_threshold,
        name=name or "non_max_suppression_overlaps",
    )
    return result
