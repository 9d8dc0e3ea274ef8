"""The CTC loss against the sum over alignments written down plainly, one number at a time."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.rows import alignments
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.nn.ctc import CTCLoss

Arrays = tuple[Any, Any, Any, Any]
PLAIN = {
    "preprocess_collapse_repeated": False,
    "ctc_merge_repeated": True,
    "ignore_longer_outputs_than_inputs": False,
}


@pytest.fixture(params=[True, False], ids=["machine_code", "numpy"], autouse=True)
def machine_code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(native, "available", lambda: False)
    elif not native.available():
        pytest.skip("needs llvmlite")
    return bool(request.param)


def compute(arrays: Arrays, **options: bool) -> tuple[Any, Any]:
    return CTCLoss().compute(np, *arrays, **{**PLAIN, **options})


def log_sum(values: list[float]) -> float:
    return float(np.logaddexp.reduce([-np.inf, *values]))


def expected(
    arrays: Arrays,
    *,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
) -> tuple[Any, Any]:
    """Losses and gradients: `scores[t][p]` is the logarithm of the chance to be at p at time t."""
    logits, indices, values, lengths = arrays
    blank = logits.shape[2] - 1
    losses, gradient = np.zeros(len(lengths)), np.zeros(logits.shape)
    for b, length in enumerate(lengths.tolist()):
        labels: list[int] = []
        for row, value in zip(indices[:, 0].tolist(), values.tolist(), strict=True):
            if row == b and not (preprocess_collapse_repeated and labels[-1:] == [value]):
                labels.append(value)
        if not length or (ignore_longer_outputs_than_inputs and len(labels) > length):
            continue
        path = [blank]
        for label in labels:
            path += [label, blank]

        def may_follow(before: int, after: int, path: list[int] = path) -> bool:
            if before == after:
                return ctc_merge_repeated or path[before] == blank
            if before == after - 2 and path[after] != blank:
                return not ctc_merge_repeated or path[before] != path[after]
            return before == after - 1

        x = logits[:length, b].astype(np.float64)
        x = x - x.max(axis=1, keepdims=True)
        log_y = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        places, last = range(len(path)), length - 1
        ahead = np.full((length, len(path)), -np.inf)
        behind = ahead.copy()
        ahead[0, :2] = log_y[0, path[:2]]
        behind[last, -2:] = 0
        for t in range(1, length):
            for p in places:
                ways = [ahead[t - 1, q] for q in places if may_follow(q, p)]
                ahead[t, p] = log_sum(ways) + log_y[t, path[p]]
        for t in range(last - 1, -1, -1):
            for p in places:
                ways = [
                    behind[t + 1, q] + log_y[t + 1, path[q]] for q in places if may_follow(p, q)
                ]
                behind[t, p] = log_sum(ways)
        total = log_sum(list(ahead[last, -2:]))
        losses[b] = -total
        gradient[:length, b] = np.exp(log_y)
        if total > -np.inf:
            for t in range(length):
                for p in places:
                    gradient[t, b, path[p]] -= np.exp(ahead[t, p] + behind[t, p] - total)
    return losses, gradient


def example(random: np.random.Generator, dtype: Any, scale: float) -> Arrays:
    time, batch, labels = (int(random.integers(1, most)) for most in (14, 6, 12))
    classes = int(random.choice([2, 3, 7, 8, 9, 17]))
    logits = (random.standard_normal((time, batch, classes)) * scale).astype(dtype)
    counts = random.integers(0, labels + 1, batch)
    indices = np.array([(b, i) for b in range(batch) for i in range(counts[b])], np.int64)
    values = random.integers(0, classes - 1, len(indices)).astype(np.int32)
    lengths = random.integers(0, time + 1, batch).astype(np.int32)
    return logits, indices.reshape(-1, 2), values, lengths


@pytest.mark.parametrize("scale", [0.1, 3.0, 200.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_examples(dtype: Any, scale: float) -> None:
    random = np.random.default_rng(5)
    near = 2e-6 if dtype is np.float32 else 1e-11
    for _ in range(25):
        arrays = example(random, dtype, scale)
        options = {
            "preprocess_collapse_repeated": bool(random.integers(2)),
            "ctc_merge_repeated": bool(random.integers(2)),
            "ignore_longer_outputs_than_inputs": True,
        }
        found = compute(arrays, **options)
        for one, other in zip(found, expected(arrays, **options), strict=True):
            assert one.dtype == dtype
            np.testing.assert_allclose(one, other, rtol=near, atol=near)


@pytest.mark.parametrize("count", [1, 3])
def test_many_labels_and_threads(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignments, "_SHARED_NUMBERS", 0)
    monkeypatch.setattr(threads, "count", lambda: count)
    random = np.random.default_rng(6)
    logits = random.standard_normal((70, 4, 40)).astype(np.float32)
    indices = np.array([(b, i) for b in range(4) for i in range(10 * b)], np.int64)
    values = random.integers(0, 39, len(indices)).astype(np.int32)
    arrays = logits, indices, values, np.array([70, 65, 70, 64], np.int32)
    for one, other in zip(compute(arrays), expected(arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6)


def test_labels_out_of_order() -> None:
    random = np.random.default_rng(7)
    logits, indices, values, lengths = example(random, np.float64, 1.0)
    lengths[:] = logits.shape[0]
    options = {"ignore_longer_outputs_than_inputs": True}
    # Rows in any order; the order within a row counts
    order = np.argsort(random.random(logits.shape[1])[indices[:, 0]], kind="stable")
    shuffled = logits, indices[order], values[order], lengths
    for one, other in zip(
        compute(shuffled, **options),
        compute((logits, indices, values, lengths), **options),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_scores_far_below_the_smallest_number() -> None:
    """Scaled probabilities would underflow: only the least likely beginning leads to the end."""
    logits = np.zeros((40, 1, 3))
    logits[:20, 0, 1], logits[20:, 0, 0] = 300.0, 300.0
    indices, values = np.array([[0, 0], [0, 1]], np.int64), np.array([0, 1], np.int32)
    arrays = logits, indices, values, np.array([40], np.int32)
    for one, other in zip(compute(arrays), expected(arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_impossible_labels() -> None:
    """Two equal labels need a blank between them: there is no time for it."""
    logits = np.random.default_rng(8).standard_normal((4, 2, 5)).astype(np.float32)
    indices = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.int64)
    values = np.array([3, 3, 1, 2], np.int32)
    arrays = logits, indices, values, np.array([2, 2], np.int32)
    loss, gradient = compute(arrays)
    np.testing.assert_array_equal(np.isinf(loss), [True, False])
    assert loss[0] > 0
    np.testing.assert_allclose(gradient, expected(arrays)[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_numbers_stay_in_their_example(bad: float) -> None:
    logits = np.random.default_rng(9).standard_normal((5, 3, 12)).astype(np.float32)
    logits[2, 1, 7] = logits[4, 2, 0] = bad
    indices, values = np.array([[0, 0], [1, 0], [2, 0]], np.int64), np.array([3, 3, 3], np.int32)
    with np.errstate(invalid="ignore"):
        loss, gradient = compute((logits, indices, values, np.array([5, 4, 4], np.int32)))
    np.testing.assert_array_equal(np.isnan(loss), [False, True, False])
    is_missing = np.zeros(logits.shape, bool)
    is_missing[:4, 1] = True
    np.testing.assert_array_equal(np.isnan(gradient), is_missing)
    assert not gradient[4, 1:].any()


def test_classes_that_cannot_be() -> None:
    """Masked logits; the loss is infinite where that concerns a label at all times."""
    logits = np.random.default_rng(11).standard_normal((5, 3, 4))
    logits[:, 0, 2] = logits[1, 1, 0] = logits[:, 2, 0] = -np.inf
    indices, values = np.array([[0, 0], [1, 0], [2, 0]], np.int64), np.zeros(3, np.int32)
    arrays = logits, indices, values, np.array([5, 5, 5], np.int32)
    loss, gradient = compute(arrays)
    np.testing.assert_array_equal(np.isinf(loss), [False, False, True])
    for one, other in zip((loss, gradient), expected(arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("shape", [(0, 2, 3), (4, 0, 3), (4, 2, 1)])
def test_nothing_to_align(shape: tuple[int, int, int]) -> None:
    indices, values = np.zeros((0, 2), np.int64), np.zeros(0, np.int32)
    lengths = np.full(shape[1], shape[0], np.int32)
    loss, gradient = compute((np.ones(shape, np.float32), indices, values, lengths))
    np.testing.assert_array_equal(loss, np.zeros(shape[1]))
    np.testing.assert_allclose(gradient, np.zeros(shape), atol=1e-7)


LOGITS = np.zeros((4, 2, 3), np.float32)
INDICES = np.array([[0, 0], [0, 1], [1, 0]], np.int64)
VALUES = np.array([0, 1, 1], np.int32)
LENGTHS = np.array([4, 4], np.int32)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((LOGITS, INDICES, VALUES, LENGTHS - 3), r"\(required: 2, available: 1\)0You can turn"),
        ((LOGITS, INDICES, VALUES, LENGTHS - 5), r"\(required: 2, available: -1\)0You can turn"),
        ((LOGITS, INDICES + 2, VALUES, LENGTHS), r"batch index 2 is not in \[0, 2\)"),
        ((LOGITS, INDICES - 1, VALUES, LENGTHS), r"batch index -1 is not in \[0, 2\)"),
        ((LOGITS, INDICES, VALUES + 1, LENGTHS), "batch: 0 num_classes: 3 labels: 2"),
        ((LOGITS, INDICES, VALUES - 1, LENGTHS), "batch: 0 num_classes: 3 labels: -1"),
        ((LOGITS, INDICES, VALUES, LENGTHS + 1), r"sequence_length\(0\) <= 4"),
        ((LOGITS, INDICES, VALUES, LENGTHS[:1]), "len.sequence_length. != batch_size"),
        ((LOGITS, INDICES, VALUES[:2], LENGTHS), r"the same number of rows, .*: \[3,2\] vs. \[2\]"),
        ((LOGITS, INDICES[:, :1], VALUES, LENGTHS), "the same number of rows"),
    ],
)
def test_errors(arrays: Arrays, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        compute(arrays)


def test_labels_that_change_meanwhile() -> None:
    """Labels are checked and used once they are copied."""
    random = np.random.default_rng(10)
    logits = random.standard_normal((30, 4, 6)).astype(np.float32)
    indices = np.array([(b, i) for b in range(4) for i in range(9)], np.int64)
    values, lengths = np.zeros(36, np.int32), np.full(4, 30, np.int32)
    stop = threading.Event()

    def spoil() -> None:
        while not stop.is_set():
            values[:] = 1 << 30
            values[:] = 1

    thread = threading.Thread(target=spoil)
    thread.start()
    try:
        for _ in range(50):
            try:
                loss, _ = compute((logits, indices, values, lengths))
            except InvalidArgumentError:
                continue
            assert (loss > 0).all()
    finally:
        stop.set()
        thread.join()
