"""Selection of boxes that do not overlap."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.image.boxes import *  # noqa: F403
from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor


@export("image.non_max_suppression_padded")
def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Like `non_max_suppression`, optionally zero-padded; also returns the number selected."""
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
