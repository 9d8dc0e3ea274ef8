"""Non-maximum suppression on a host: boxes by descending score, without overlapping ones.

By machine code (`codegen.images.suppression`), else by numpy, a selected box at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.images.suppression import Rule, Selection, selected
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernels.ordering import descending
from sparkflow_runtime.ops.static import bracketed

Array = np.ndarray[Any, Any]
_NARROW: Final = frozenset({"float32", "float16", "bfloat16"})
"""float32 holds all their values."""
_EXACT: Final = 1 << 24
"""float32 holds all whole numbers up to here."""


def check_boxes(boxes: Array, scores: Array) -> None:
    """Checks that boxes are [boxes, 4] and scores [boxes].

    Raises:
        InvalidArgumentError: They are not.
    """
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise InvalidArgumentError(message=f"boxes must be [boxes, 4]: {bracketed(boxes.shape)}")
    if scores.shape != boxes.shape[:1]:
        raise InvalidArgumentError(
            message=f"scores has incompatible shape: {bracketed(scores.shape)} for "
            f"{len(boxes)} boxes"
        )


def suppressed(boxes: Array, scores: Array, limit: int, threshold: float, least: float) -> Array:
    """Selects boxes by descending score, without those that overlap one selected before.

    Args:
        boxes: [boxes, 4], two opposite corners each; overlaps are computed in float32.
        scores: [boxes]; of equal ones, the first is selected first.
        limit: The maximum number of boxes; not limited if negative.
        threshold: The greatest intersection over union.
        least: Only boxes with greater scores are selected.

    Returns:
        The numbers of the boxes, int32.
    """
    wide = np.asarray(boxes, np.float32)
    found = _selected(Rule.ABOVE, wide[None, :, None], scores, limit, threshold, least)
    if found is not None:
        return found
    overlap = _Overlaps(wide)
    return _greedy(
        scores, limit, least, lambda box, others: overlap(box, others) > np.float32(threshold)
    )


def suppressed_by_matrix(
    overlaps: Array, scores: Array, limit: int, threshold: float, least: float
) -> Array:
    """As `suppressed`, with the overlaps of each box, a row, with those selected before.

    Args:
        overlaps: float32, at least [boxes, boxes].
        scores: [boxes].
        limit: The maximum number of boxes; not limited if negative.
        threshold: The greatest overlap.
        least: Only boxes with greater scores are selected.

    Raises:
        InvalidArgumentError: The overlaps are not a matrix, or one of fewer boxes than scores.
    """
    if overlaps.ndim != 2 or scores.ndim != 1 or min(overlaps.shape) < len(scores):
        raise InvalidArgumentError(
            message=f"overlaps must be [boxes, boxes]: {bracketed(overlaps.shape)} for scores of "
            f"shape {bracketed(scores.shape)}"
        )
    matrix = overlaps[None, :, None]
    found = _selected(Rule.MATRIX, matrix, scores, limit, threshold, least)
    if found is not None:
        return found
    return _greedy(
        scores, limit, least, lambda box, others: overlaps[others, box] > np.float32(threshold)
    )


def soft_suppressed(
    boxes: Array, scores: Array, limit: int, threshold: float, least: float, sigma: float
) -> tuple[Array, Array]:
    """Selects boxes by descending score; each lowers the scores of those that it overlaps.

    With `sigma` 0 the scores of boxes that overlap less than `threshold` are unchanged. Source:
    Bodla et al., Soft-NMS, 2017.

    Args:
        boxes: [boxes, 4], two opposite corners each; overlaps are computed in this type.
        scores: [boxes] of the same type.
        limit: The maximum number of boxes; none if negative.
        threshold: Boxes with a greater overlap are not selected.
        least: Only boxes with greater scores are selected.
        sigma: A score is multiplied by exp(-overlap² / (2 · sigma)); no score is changed if it is
            not positive.

    Returns:
        The numbers of the boxes, int32, and their scores, of the type of the scores.
    """
    limit = max(limit, 0)
    if boxes.dtype == scores.dtype == np.float32:
        rule = Rule.SOFT if sigma > 0 else Rule.NOT_WITHIN
        found = selected(
            rule, boxes[None, :, None], scores[None, :, None], limit, threshold, least, sigma
        )
        if found is not None:
            count = int(found.counts[0, 0])
            numbers = found.numbers[0, 0, :count]
            return numbers, found.scores[0, 0, :count] if sigma > 0 else scores[numbers]
    return _soft_by_numpy(boxes, scores, limit, threshold, least, sigma)


def suppressed_by_class(
    boxes: Array, scores: Array, limit: int, threshold: float, least: float
) -> Selection:
    """As `soft_suppressed` with sigma 0, for each class of each image.

    Args:
        boxes: [images, boxes, classes or 1, 4] float32.
        scores: [images, boxes, classes] float32.
        limit: The maximum number of boxes of a class; none if negative.
        threshold: Boxes with a greater overlap are not selected.
        least: Only boxes with greater scores are selected.
    """
    images, count, classes = scores.shape
    limit = min(max(limit, 0), count)
    found = selected(Rule.NOT_WITHIN, boxes, scores, limit, threshold, least)
    if found is not None:
        return found
    numbers = np.zeros((images, classes, limit), np.int32)
    counts = np.zeros((images, classes), np.int32)
    for image, label in np.ndindex(images, classes):
        own = boxes[image, :, label if boxes.shape[2] > 1 else 0]
        chosen, _ = _soft_by_numpy(own, scores[image, :, label], limit, threshold, least, 0.0)
        numbers[image, label, : len(chosen)] = chosen
        counts[image, label] = len(chosen)
    return Selection(numbers, np.empty((images, classes, 0), np.float32), counts)


def _selected(
    rule: Rule, boxes: Array, scores: Array, limit: int, threshold: float, least: float
) -> Array | None:
    count = len(scores)
    if str(scores.dtype) in _NARROW:
        if scores.dtype == np.float16:
            # Compared in this type by numpy.
            least = float(np.asarray(least, np.float16))
        scores = np.asarray(scores, np.float32)
    else:
        if count > _EXACT:
            return None
        order = _candidates(scores, least)
        scores, least = np.full(count, -np.inf, np.float32), -np.inf
        scores[order] = -np.arange(len(order), dtype=np.float32)
    limit = count if limit < 0 else limit
    found = selected(rule, boxes, scores[None, :, None], limit, threshold, least)
    return None if found is None else found.numbers[0, 0, : int(found.counts[0, 0])]


def _candidates(scores: Array, least: float) -> Array:
    numbers = np.flatnonzero(scores > least)
    return numbers[descending(scores[numbers])]


def _greedy(
    scores: Array, limit: int, least: float, leaves_out: Callable[[int, Array], Array]
) -> Array:
    """Selects boxes; a function tells which others are left out because of a selected one."""
    others = _candidates(scores, least)
    chosen: list[int] = []
    while others.size and len(chosen) != limit:
        best, others = int(others[0]), others[1:]
        chosen.append(best)
        others = others[~leaves_out(best, others)]
    return np.array(chosen, np.int32)


def _soft_by_numpy(
    boxes: Array, scores: Array, limit: int, threshold: float, least: float, sigma: float
) -> tuple[Array, Array]:
    overlaps = _Overlaps(boxes)
    others = np.flatnonzero(scores > least)
    left = scores[others].astype(np.float64)
    chosen: list[int] = []
    values: list[float] = []
    while len(chosen) < limit and others.size:
        best = int(left.argmax())
        if not left[best] > least:
            break
        number = int(others[best])
        chosen.append(number)
        values.append(float(left[best]))
        overlap = overlaps(number, others)
        stays = overlap <= threshold
        stays[best] = False
        others, left = others[stays], left[stays]
        if sigma > 0:
            left *= np.exp(-0.5 / sigma * overlap[stays] ** 2)
    return np.array(chosen, np.int32), np.array(values, scores.dtype)


class _Overlaps:
    """Intersection over union of one box with others; 0 if an area is not positive."""

    def __init__(self, boxes: Array) -> None:
        self._low = np.minimum(boxes[:, :2], boxes[:, 2:])
        self._high = np.maximum(boxes[:, :2], boxes[:, 2:])
        sides = self._high - self._low
        self._areas = sides[:, 0] * sides[:, 1]

    def __call__(self, box: int, others: Array) -> Array:
        begin = np.maximum(self._low[others], self._low[box])
        end = np.minimum(self._high[others], self._high[box])
        sides = np.maximum(end - begin, 0)
        common = sides[:, 0] * sides[:, 1]
        areas, own = self._areas[others], self._areas[box]
        positive = (areas > 0) & (own > 0)
        union = np.where(positive, areas + own - common, 1)
        share: Array = np.where(positive, common / union, 0)
        return share
