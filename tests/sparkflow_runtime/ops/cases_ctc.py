"""Rows of connectionist temporal classification; more are in differential/nn_sparse.json."""

import itertools

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime.dtypes import float32, float64
from support.op_cases import FailureCase, OpCase, WrongShapeCase

LOGITS = np.random.default_rng(3).integers(-4, 5, (4, 2, 3)) / 4
LENGTHS = np.array([4, 3], np.int32)
INDICES = np.array([[0, 0], [0, 1], [1, 0]], np.int64)
VALUES = np.array([0, 0, 1], np.int32)
BLANK = 2


def collapsed(path):
    return [c for i, c in enumerate(path) if c != BLANK and (i == 0 or path[i - 1] != c)]


def likelihoods(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def losses(logits, indices, values, lengths):
    """Sums over every path, and the gradient by its definition."""
    y = likelihoods(logits)
    result, gradient = np.zeros(2), np.zeros(logits.shape)
    for b, labels in enumerate(([0, 0], [1])):
        total, occupied = 0.0, np.zeros((4, 3))
        for path in itertools.product(range(3), repeat=lengths[b]):
            if collapsed(path) == labels:
                chance = np.prod([y[t, b, c] for t, c in enumerate(path)])
                total += chance
                for t, c in enumerate(path):
                    occupied[t, c] += chance
        result[b] = -np.log(total)
        inside = slice(0, lengths[b])
        gradient[inside, b] = y[inside, b] - occupied[inside] / total
    return result, gradient


def best(logits, lengths):
    rows = [logits[: lengths[b], b].argmax(-1).tolist() for b in range(2)]
    kept = [collapsed(row) for row in rows]
    indices = [(b, i) for b, row in enumerate(kept) for i in range(len(row))]
    scores = [[-logits[: lengths[b], b].max(-1).sum()] for b in range(2)]
    width = max(map(len, kept))
    return (
        np.array(indices, np.int64).reshape(-1, 2),
        np.array(list(itertools.chain(*kept)), np.int64),
        np.array([2, width], np.int64),
        np.array(scores),
    )


def likeliest(logits, lengths):
    """The most likely labels by a beam with every prefix."""
    y = likelihoods(logits)
    rows, scores = [], []
    for b in range(2):
        chances = {}
        for path in itertools.product(range(3), repeat=lengths[b]):
            labels = tuple(collapsed(path))
            chance = np.prod([y[t, b, c] for t, c in enumerate(path)])
            chances[labels] = chances.get(labels, 0) + chance
        labels, chance = max(chances.items(), key=lambda item: item[1])
        rows.append(labels)
        scores.append([np.log(chance)])
    indices = [(b, i) for b, row in enumerate(rows) for i in range(len(row))]
    return (
        np.array(indices, np.int64).reshape(-1, 2),
        np.array(list(itertools.chain(*rows)), np.int64),
        np.array([2, max(map(len, rows))], np.int64),
        np.array(scores),
    )


WIDE = {"dtypes": [float32, float64], "dynamic_shape": True, "rtol": 3e-6, "atol": 1e-6}

CASES = [
    OpCase(
        "CTCLoss",
        [LOGITS, INDICES, VALUES, LENGTHS],
        expected=losses,
        dtypes=[float32, float64],
        rtol=3e-6,
        atol=1e-6,
    ),
    OpCase("CTCGreedyDecoder", [LOGITS, LENGTHS], {"merge_repeated": True}, best, **WIDE),
    OpCase(
        "CTCBeamSearchDecoder",
        [LOGITS, LENGTHS],
        {"beam_width": 50, "top_paths": 1, "merge_repeated": False},
        likeliest,
        **WIDE,
    ),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "CTCGreedyDecoder",
        [(4, 2, 3), (3,)],
        message="Dimensions 2 and 3 are not compatible",
    ),
]

FAILURES = [
    FailureCase(
        "CTCLoss",
        [LOGITS, INDICES, np.array([0, 2, 1], np.int32), LENGTHS],
        message="Saw a non-null label (index >= num_classes - 1) following a null label, batch: 0 "
        "num_classes: 3 labels: 2",
    ),
    FailureCase(
        "CTCBeamSearchDecoder",
        [LOGITS, LENGTHS],
        {"beam_width": 1, "top_paths": 2},
        message="Requested more leaves than the beam search width.",
    ),
]
