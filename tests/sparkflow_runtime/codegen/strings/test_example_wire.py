"""Varints and kinds of features; whole messages are in `ops/files`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.strings.example_wire import (
    BYTES,
    FLOAT,
    INT64,
    VARINT,
    WireReader,
)
from sparkflow_runtime.codegen.strings.objects import Elements, for_each
from sparkflow_runtime.protos.feature_pb2 import Feature


def feature_text() -> str:
    """Returns a kernel of serialized features that are not empty, their kinds, and their counts."""
    elements = Elements(3)
    code, reader = elements.code, WireReader(elements)
    messages, kinds, counts = elements.arrays
    with elements.each() as (number, leave_unless):
        base, length = elements.read(messages, number, leave_unless)
        code.set(reader.at, 0)
        leave_unless(reader.is_before(length))
        kind = reader.feature(base, length, leave_unless)
        code.store("i64", kind, code.at("i64", kinds, number))
        code.store("i64", code.get(reader.count), code.at("i64", counts, number))
    return elements.module() + VARINT


def _read(data: bytes) -> tuple[int, int] | None:
    """The kind and the count, None if the kernel leaves the feature to Python."""
    found = np.zeros((2, 1), np.int64)
    left: list[int] = []
    for_each(feature_text, (), (np.array([data, None], object)[:1], *found), left.append)
    return None if left else (int(found[0, 0]), int(found[1, 0]))


@pytest.mark.parametrize(
    ("name", "kind", "values"),
    [
        ("bytes_list", BYTES, [b"", b"x" * 300]),
        ("float_list", FLOAT, [1.0, 2.0, 3.0]),
        ("int64_list", INT64, [0, 127, 128, -1, 2**62]),
        ("int64_list", INT64, [1] * 200),
    ],
)
def test_features(name: str, kind: int, values: list[Any]) -> None:
    feature = Feature()
    getattr(feature, name).value.extend(values)
    data = feature.SerializeToString()
    assert _read(data) == (kind, len(values))
    assert [_read(data[:size]) for size in range(len(data))] == [None] * len(data)


@pytest.mark.parametrize(
    "data",
    [
        *(b"\x22\x00", b"\x08\x00", b"\x1a\x03\x0a\x01\x80", b"\x12\x05\x0a\x03abc", b"\x12\x80"),
        b"\x1a" + b"\xff" * 10 + b"\x01",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ],
)
def test_what_is_no_plain_feature_is_left(data: bytes) -> None:
    assert _read(data) is None
