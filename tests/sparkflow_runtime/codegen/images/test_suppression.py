"""Selected boxes by machine code are those of plain loops over the candidates."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from sparkflow_runtime.codegen.images.suppression import Array, Rule, selected
from sparkflow_runtime.codegen.machine import native, threads

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")
ZERO, ONE = np.float32(0), np.float32(1)
BY_CLASS = (Rule.ABOVE, Rule.NOT_WITHIN, Rule.SOFT)


def overlap(a: Array, b: Array) -> np.float32:
    """Intersection over union of two boxes, in float32."""
    low, other_low = np.minimum(a[:2], a[2:]), np.minimum(b[:2], b[2:])
    high, other_high = np.maximum(a[:2], a[2:]), np.maximum(b[:2], b[2:])
    area, other = np.prod(high - low), np.prod(other_high - other_low)
    common = np.prod(np.maximum(np.minimum(high, other_high) - np.maximum(low, other_low), ZERO))
    if not (area > 0 and other > 0):
        return ZERO
    return np.float32(common / (area + other - common))


def reference(
    rule: Rule,
    boxes: Array,
    scores: Array,
    limit: int,
    threshold: float,
    least: float,
    sigma: float,
) -> tuple[list[int], list[np.float32]]:
    """Returns the selected boxes of one class, and their scores."""
    bound, scale = np.float32(threshold), np.float32(-0.5) / np.float32(sigma)
    left = {n: scores[n] for n in range(len(scores)) if scores[n] > np.float32(least)}
    chosen: list[int] = []
    values = []
    while left and len(chosen) < limit:
        best = max(left, key=lambda n: (left[n], -n))
        chosen.append(best)
        values.append(left.pop(best))
        for n in list(left):
            share = boxes[n, best] if rule is Rule.MATRIX else overlap(boxes[n], boxes[best])
            stays = share <= bound if rule in (Rule.NOT_WITHIN, Rule.SOFT) else not share > bound
            if rule is Rule.SOFT and stays:
                left[n] = left[n] * np.exp(scale * share * share)
                stays = left[n] > least
            if not stays:
                del left[n]
    return chosen, values


def check(
    rule: Rule,
    boxes: Array,
    scores: Array,
    limit: int,
    threshold: float = 0.4,
    least: float = -np.inf,
    sigma: float = 0.3,
) -> None:
    with np.errstate(all="ignore"):
        found = selected(rule, boxes, scores, limit, threshold, least, sigma)
        assert found is not None
        images, count, classes = scores.shape
        assert found.counts.shape == (images, classes)
        assert found.numbers.shape == (images, classes, min(limit, count))
        for image, label in np.ndindex(images, classes):
            own = boxes[image, :, label if boxes.shape[2] > 1 else 0]
            numbers, values = reference(
                rule, own, scores[image, :, label], limit, threshold, least, sigma
            )
            kept = int(found.counts[image, label])
            assert found.numbers[image, label, :kept].tolist() == numbers
            if rule is Rule.SOFT:
                result = found.scores[image, label, :kept]
                np.testing.assert_allclose(result, values, rtol=1e-5)


def random_boxes(rng: np.random.Generator, *shape: int) -> Array:
    """Boxes of which some have swapped corners or no area."""
    centres, sizes = rng.random((*shape, 2)), rng.normal(size=(*shape, 2)) / 4
    boxes = np.concatenate([centres - sizes, centres + sizes], axis=-1).astype(np.float32)
    no_area = rng.random(shape) < 0.1
    boxes[no_area, 2:] = boxes[no_area, :2]
    return boxes


@pytest.mark.parametrize("rule", BY_CLASS)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 16, 17, 60])
@pytest.mark.parametrize("limit", [0, 1, 16, 20, 1000])
def test_boxes_of_images_and_classes(rule: Rule, count: int, limit: int) -> None:
    rng = np.random.default_rng(count)
    scores = rng.random((2, count, 3), np.float32)
    for classes in (1, 3):
        boxes = random_boxes(rng, 2, count, classes)
        check(rule, boxes, scores, limit)
        check(rule, boxes, scores, limit, threshold=1.0, least=0.4)
    check(rule, boxes, scores, limit, threshold=0.0)
    check(rule, boxes[:0], scores[:0], limit)


@pytest.mark.parametrize("rule", [Rule.ABOVE, Rule.NOT_WITHIN])
def test_of_equal_scores_the_first_is_selected_first(rule: Rule) -> None:
    rng = np.random.default_rng(0)
    for choices in ([0.0, -0.0], [0.5, 1.0, -1.0, 0.0, -0.0], [np.inf, -np.inf, np.nan, 2.0]):
        scores = rng.choice(np.array(choices, np.float32), (1, 200, 1))
        check(rule, random_boxes(rng, 1, 200, 1), scores, 50, least=-5)
        check(rule, random_boxes(rng, 1, 200, 1), scores, 50)
        check(rule, random_boxes(rng, 1, 200, 1), scores, 50, least=np.nan)


@pytest.mark.parametrize("rule", BY_CLASS)
def test_boxes_that_are_not_finite(rule: Rule) -> None:
    rng = np.random.default_rng(1)
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, 2, 3, 1e30], np.float32)
    for _ in range(20):
        boxes, scores = rng.choice(special, (1, 40, 1, 4)), rng.random((1, 40, 1), np.float32)
        check(rule, boxes, scores, 40)


@pytest.mark.parametrize("sigma", [1e-3, 0.1, 0.5, 10.0, 1e6])
def test_soft_scores(sigma: float) -> None:
    rng = np.random.default_rng(2)
    boxes, scores = random_boxes(rng, 1, 100, 1), rng.random((1, 100, 1), np.float32)
    # Not 0: scores below 1e-38 are 0 in machine code.
    for threshold, least in ((1.0, 1e-9), (1.0, 0.3), (0.5, 0.01), (-1.0, 1e-9)):
        check(Rule.SOFT, boxes, scores, 60, threshold, least, sigma)


def test_given_overlaps() -> None:
    rng = np.random.default_rng(3)
    scores = rng.random((1, 50, 1), np.float32)
    overlaps = rng.random((1, 50, 1, 53), np.float32)
    overlaps[rng.random(overlaps.shape) < 0.8] = 0
    overlaps[rng.random(overlaps.shape) < 0.05] = np.nan
    for limit in (0, 3, 50):
        check(Rule.MATRIX, overlaps, scores, limit, 0.7)


def test_many_boxes_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "count", lambda: 2)
    rng = np.random.default_rng(4)
    boxes, scores = random_boxes(rng, 3, 3000, 1), rng.random((3, 3000, 2), np.float32)
    for rule in (Rule.NOT_WITHIN, Rule.SOFT):
        check(rule, boxes, scores, 10)


def test_inputs_may_change_meanwhile() -> None:
    rng = np.random.default_rng(5)
    boxes, scores = random_boxes(rng, 1, 20_000, 1), rng.random((1, 20_000, 1), np.float32)
    is_done = threading.Event()

    def change() -> None:
        while not is_done.is_set():
            scores[:] = -scores
            boxes[0, ::3] = -boxes[0, ::3]

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for rule in BY_CLASS:
            for _ in range(5):
                found = selected(rule, boxes, scores, 300, 0.5, -np.inf, 0.5)
                assert found is not None
                numbers = found.numbers[0, 0, : found.counts[0, 0]]
                assert ((numbers >= 0) & (numbers < 20_000)).all()
                assert len(set(numbers.tolist())) == len(numbers)
    finally:
        is_done.set()
        changing.join()


def test_nothing_without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "available", lambda: False)
    boxes, scores = np.zeros((1, 2, 1, 4), np.float32), np.zeros((1, 2, 1), np.float32)
    assert selected(Rule.ABOVE, boxes, scores, 2, 0.5, -1) is None
