"""Choosing boxes that do not overlap.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/image/boxes.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "non_max_suppression",
    "non_max_suppression_overlaps",
]


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
        max_output_size: The most boxes to choose. int32.
        iou_threshold: Boxes overlap whose intersection is a larger share of their union.
        score_threshold: Boxes with at most this score are not chosen. The dtype of `iou_threshold`.
        name: Name of the node (`non_max_suppression` when None).

    Returns:
        [chosen] int32.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
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


def non_max_suppression_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """As `non_max_suppression`, with the overlaps [boxes, boxes] given.

    Args:
        overlaps: Matrix of float32.
        scores: Vector of float32.
        max_output_size: Tensor [...] of int32.
        overlap_threshold: Tensor [...] of float32.
        score_threshold: Tensor [...] of float32.
        name: Name of the node (`non_max_suppression_overlaps` when None).

    Returns:
        An int32 tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
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
