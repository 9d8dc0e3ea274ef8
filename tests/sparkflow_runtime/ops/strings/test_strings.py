"""Splitting at any of several separators, against regular expressions."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sparkflow_runtime.ops.strings.strings import StringSplit, Substr

GENERATOR = np.random.default_rng(0)
TEXTS = [
    bytes(GENERATOR.choice(list(b"ab ,;\\]^-"), GENERATOR.integers(0, 12)).tolist())
    for _ in range(100)
]


@pytest.mark.parametrize("marks", [b" ", b" ,", b",;\\]^-", b"]", b"^a", b"aa"])
@pytest.mark.parametrize("skip_empty", [True, False])
def test_splitting_at_marks(marks: bytes, skip_empty: bool) -> None:
    pattern = re.compile(b"[" + b"".join(re.escape(bytes([mark])) for mark in marks) + b"]")
    parts = [pattern.split(text) if text else [] for text in TEXTS]  # an empty string has no parts
    rows = [[part for part in each if part or not skip_empty] for each in parts]
    indices, values, shape = StringSplit().compute(
        np, np.array(TEXTS, object), np.array(marks, object), skip_empty=skip_empty
    )
    assert indices.dtype == np.int64
    assert indices.tolist() == [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    assert values.tolist() == [part for row in rows for part in row]
    assert shape.tolist() == [len(TEXTS), max(map(len, rows))]


def test_splitting_nothing() -> None:
    nothing = np.array([], object), np.array(b" ", object)
    indices, values, shape = StringSplit().compute(np, *nothing, skip_empty=True)
    assert (indices.shape, values.shape, shape.tolist()) == ((0, 2), (0,), [0, 0])


@pytest.mark.parametrize(
    ("start", "size", "expected"),
    [
        (0, 3, [b"abc", b"xy", b""]),
        (0, -1, [b"abcdef", b"xy", b""]),
        ([-3, -2, 0], [2, 5, 1], [b"de", b"xy", b""]),
        ([6, 2, 0], [1, 1, 1], [b"", b"", b""]),
    ],
)
def test_parts_by_bytes(start: object, size: object, expected: list[bytes]) -> None:
    texts = np.array([b"abcdef", b"xy", b""], object)
    found = Substr().compute(np, texts, np.array(start), np.array(size), unit="BYTE")
    assert found.tolist() == expected
