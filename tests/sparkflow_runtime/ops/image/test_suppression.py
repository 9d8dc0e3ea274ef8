"""Non-maximum suppression equals plain loops, with and without machine code, in all types."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.image.suppression import (
    Array,
    soft_suppressed,
    suppressed,
    suppressed_by_class,
    suppressed_by_matrix,
)

TYPES = [np.float32, np.float16, np.float64, ml_dtypes.bfloat16]


@pytest.fixture(params=[True, False], ids=["machine code", "numpy"], autouse=True)
def by_machine_code(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    if not request.param:
        monkeypatch.setattr(native, "available", lambda: False)
    with np.errstate(invalid="ignore"):  # bfloat16 that are not numbers, as in kernels
        yield


def overlaps_of(box: Array, boxes: Array) -> Array:
    """Intersection over union of one box with others, in their type."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    mine_low, mine_high = np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])
    sizes = (high - low)[:, 0] * (high - low)[:, 1]
    mine = (mine_high - mine_low)[0] * (mine_high - mine_low)[1]
    sides = np.maximum(np.minimum(high, mine_high) - np.maximum(low, mine_low), 0)
    common = sides[:, 0] * sides[:, 1]
    positive = (sizes > 0) & (mine > 0)
    union = np.where(positive, sizes + mine - common, 1)
    return np.where(positive, common / union, 0)


def reference(boxes: Array, scores: Array, limit: int, threshold: float, least: float) -> list[int]:
    """The boxes selected one by one, each compared with those before."""
    wide = boxes.astype(np.float32)
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    chosen: list[int] = []
    for candidate in order[scores[order] > least].tolist():
        if len(chosen) == limit:
            break
        if not (overlaps_of(wide[candidate], wide[chosen]) > np.float32(threshold)).any():
            chosen.append(candidate)
    return chosen


def soft_reference(
    boxes: Array, scores: Array, limit: int, threshold: float, least: float, sigma: float
) -> tuple[list[int], Array]:
    """The boxes with the highest scores that are left, in float64."""
    left = np.where(np.isnan(scores), -np.inf, scores.astype(np.float64))
    chosen: list[int] = []
    values: list[float] = []
    while len(chosen) < limit and left.max(initial=-np.inf) > least:
        best = int(left.argmax())
        chosen.append(best)
        values.append(left[best])
        overlap = overlaps_of(boxes[best], boxes)
        weight = np.exp(-0.5 / sigma * overlap**2) if sigma > 0 else np.ones(len(boxes))
        left = np.where(overlap <= threshold, left * weight, -np.inf)
        left[chosen] = -np.inf
    return chosen, np.array(values, scores.dtype)


def some(rng: np.random.Generator, count: int, dtype: type) -> tuple[Array, Array]:
    """Boxes, some with swapped corners, without area or not numbers; scores with equal ones."""
    centres, sizes = rng.random((count, 2)), rng.normal(size=(count, 2)) / 5
    boxes = np.concatenate([centres - sizes, centres + sizes], axis=1)
    boxes[:, 2] = np.where(rng.random(count) < 0.1, boxes[:, 0], boxes[:, 2])
    boxes[rng.random(count) < 0.05, 3] = np.nan
    scores = np.round(rng.random(count), 2)
    scores[rng.random(count) < 0.05] = np.nan
    return boxes.astype(dtype), scores.astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [0, 1, 5, 150])
def test_boxes_without_overlaps(dtype: type, count: int) -> None:
    boxes, scores = some(np.random.default_rng(count), count, dtype)
    for limit, threshold, least in (
        *((0, 0.5, -1), (1, 0.5, 0), (40, 0.5, -np.inf), (40, 0.0, 0.1)),
        *((-1, 0.3, 0.3), (1000, 1.0, 0.5), (40, 0.2, np.nan)),
    ):
        found = suppressed(boxes, scores, limit, threshold, least)
        assert found.dtype == np.int32
        assert found.tolist() == reference(boxes, scores, limit, threshold, least)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [0, 1, 150])
@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_soft_suppression(dtype: type, count: int, sigma: float) -> None:
    rng = np.random.default_rng(count)
    boxes, scores = some(rng, count, dtype)
    if sigma:
        scores += (rng.permutation(count) * 1e-5).astype(dtype)  # seldom equal when lowered
    for limit, threshold, least in ((0, 0.5, 0), (-1, 0.5, 0), (30, 0.5, 0), (100, 1.0, 0.2)):
        numbers, values = soft_suppressed(boxes, scores, limit, threshold, least, sigma)
        expected, left = soft_reference(boxes, scores, limit, threshold, least, sigma)
        assert numbers.dtype == np.int32
        assert values.dtype == scores.dtype
        assert numbers.tolist() == expected
        np.testing.assert_allclose(values.astype(float), left.astype(float), rtol=1e-5)


def test_given_overlaps() -> None:
    rng = np.random.default_rng(0)
    overlaps, scores = rng.random((60, 60), np.float32) ** 3, rng.random(60, np.float32)
    overlaps = np.maximum(overlaps, overlaps.T)
    chosen: list[int] = []
    for each in np.argsort(-scores, kind="stable").tolist():
        if scores[each] > 0.2 and not (overlaps[each][np.array(chosen, int)] > 0.6).any():
            chosen.append(each)
    assert suppressed_by_matrix(overlaps, scores, 60, 0.6, 0.2).tolist() == chosen
    assert suppressed_by_matrix(overlaps, scores, -1, 0.6, 0.2).tolist() == chosen
    assert suppressed_by_matrix(overlaps, scores, 3, 0.6, 0.2).tolist() == chosen[:3]
    for wrong in (overlaps[:50], overlaps[:, :50], overlaps[0]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="overlaps must be"):
            suppressed_by_matrix(wrong, scores, 60, 0.6, 0.2)


@pytest.mark.parametrize("alike", [1, 3])
def test_classes_of_images(alike: int) -> None:
    rng = np.random.default_rng(alike)
    boxes = np.stack([some(rng, 40, np.float32)[0] for _ in range(2 * alike)])
    boxes = boxes.reshape(2, alike, 40, 4).transpose(0, 2, 1, 3)
    scores = rng.random((2, 40, 3), np.float32)
    numbers, _, counts = suppressed_by_class(boxes, scores, 10, 0.3, 0.4)
    for image, label in np.ndindex(2, 3):
        own = boxes[image, :, label % alike]
        expected, _ = soft_reference(own, scores[image, :, label], 10, 0.3, 0.4, 0)
        assert numbers[image, label, : counts[image, label]].tolist() == expected
    assert suppressed_by_class(boxes, scores, -1, 0.3, 0.4).counts.tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("alike", [1, 3])
@pytest.mark.parametrize("per_class", [0, 4, 100])
@pytest.mark.parametrize("total", [0, 9, 500])
def test_the_best_of_all_classes(alike: int, per_class: int, total: int) -> None:
    rng = np.random.default_rng(total)
    boxes = np.stack([some(rng, 40, np.float32)[0] for _ in range(2 * alike)])
    boxes = np.nan_to_num(boxes.reshape(2, 40, alike, 4))
    scores = np.round(rng.random((2, 40, 3), np.float32), 1)
    scores[0, 5] = np.nan
    for is_padded, clips in ((False, False), (True, True)):
        with tf.Graph().as_default(), tf.Session() as session:
            found = session.run(
                tf.image.combined_non_max_suppression(
                    *(boxes, scores, per_class, total, 0.3, 0.25, is_padded, clips)
                )
            )
        size = min(total, 3 * per_class) if is_padded else total
        assert found[0].shape == (2, size, 4)
        for image in range(2):
            every = []
            for label in range(3):
                own = boxes[image, :, label % alike]
                chosen = soft_reference(own, scores[image, :, label], per_class, 0.3, 0.25, 0)
                every += [(-v, label, n) for n, v in zip(*chosen, strict=True)]
            best = sorted(every)[:size]
            corners = [boxes[image, n, label % alike] for _, label, n in best]
            expected = np.zeros((size, 6), np.float32)
            expected[: len(best), :4] = np.reshape(corners, (-1, 4))
            if clips:
                expected[:, :4] = expected[:, :4].clip(0, 1)
            expected[: len(best), 4:] = np.reshape([(-v, n) for v, n, _ in best], (-1, 2))
            np.testing.assert_array_equal(found[0][image], expected[:, :4])
            np.testing.assert_array_equal(found[1][image], expected[:, 4])
            np.testing.assert_array_equal(found[2][image], expected[:, 5])
            assert found[3][image] == len(best)


def test_results_are_padded_with_zeros() -> None:
    boxes, scores = [[0.0, 0, 1, 1], [0, 0, 1, 0.9], [5, 5, 4, 4]], [0.5, 0.75, 0.25]
    with tf.Graph().as_default(), tf.Session() as session:
        numbers, count = session.run(
            tf.image.non_max_suppression_padded(boxes, scores, 4, pad_to_max_output_size=True)
        )
        assert numbers.tolist() == [1, 2, 0, 0]
        assert count == 2
        for limit in (0, 1):
            numbers = session.run(tf.image.non_max_suppression(boxes, scores, limit))
            assert numbers.tolist() == [1][:limit]
        result = tf.raw_ops.NonMaxSuppressionV5(
            boxes=boxes,
            scores=scores,
            max_output_size=4,
            iou_threshold=0.5,
            score_threshold=0.0,
            soft_nms_sigma=0.0,
            pad_to_max_output_size=True,
        )
        numbers, kept, count = session.run(result)
        assert numbers.tolist() == [1, 2, 0, 0]
        assert kept.tolist() == [0.75, 0.25, 0, 0]
        assert count == 2


@pytest.mark.parametrize(
    ("boxes", "scores", "message"),
    [
        ((6, 3), (6,), r"boxes must be \[boxes, 4\]"),
        ((6, 4), (5,), "scores has incompatible shape"),
    ],
)
def test_shapes_are_checked(boxes: tuple[int, ...], scores: tuple[int, ...], message: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        given, values = (
            tf.placeholder_with_default(np.zeros(each, "f4"), None) for each in (boxes, scores)
        )
        for made in (
            tf.image.non_max_suppression(given, values, 3),
            tf.image.non_max_suppression_with_scores(given, values, 3),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                session.run(made)


@pytest.mark.parametrize(
    ("boxes", "scores", "message"),
    [
        ((2, 6, 1), (2, 6, 3), "boxes must be"),
        ((2, 6, 1, 3), (2, 6, 3), "boxes must be"),
        ((2, 6, 2, 4), (2, 6, 3), "boxes must have 1 or 3 classes"),
        ((1, 6, 1, 4), (2, 6, 3), "scores has incompatible shape"),
        ((2, 5, 1, 4), (2, 6, 3), "scores has incompatible shape"),
    ],
)
def test_shapes_of_classes_are_checked(
    boxes: tuple[int, ...], scores: tuple[int, ...], message: str
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        given, values = (
            tf.placeholder_with_default(np.zeros(each, "f4"), None) for each in (boxes, scores)
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(tf.image.combined_non_max_suppression(given, values, 3, 3))
