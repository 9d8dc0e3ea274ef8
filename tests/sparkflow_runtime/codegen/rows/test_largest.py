"""The largest of each row against a stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.rows import largest as module
from sparkflow_runtime.codegen.rows.largest import MOST, largest

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

SHAPES = [((5, 100), 3), ((64, 33), MOST), ((3, 2, 5), 5), ((16,), 16), ((2, 1), 1), ((7, 40), 1)]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize(("shape", "k"), SHAPES)
def test_the_largest(
    shape: tuple[int, ...], k: int, dtype: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHARED_ELEMENTS", 0)
    monkeypatch.setattr(threads, "count", lambda: count)
    generator = np.random.default_rng(2)
    some = generator.standard_normal(shape)
    for values in (some * 1000, np.round(some * 2), np.sort(some) * 99, np.zeros(shape)):
        given = values.astype(dtype)
        found = largest(given, k)
        assert found is not None
        order = np.argsort(-given, axis=-1, kind="stable")[..., :k]
        np.testing.assert_array_equal(found[1], order)
        np.testing.assert_array_equal(found[0], np.take_along_axis(given, order, -1))


@pytest.mark.parametrize("place", [(0, 0), (1, 99), (3, 50)])
def test_what_is_not_a_number_is_left_to_others(place: tuple[int, int]) -> None:
    values = np.random.default_rng(2).standard_normal((4, 100)).astype(np.float32)
    values[place] = np.nan
    assert largest(values, 5) is None


def test_infinities() -> None:
    values = np.full((1, 20), -np.inf, np.float32)
    values[0, 17] = np.inf
    found = largest(values, 3)
    assert found is not None
    assert found[1].tolist() == [[17, 0, 1]]


def test_what_has_no_machine_code() -> None:
    values = np.zeros((4, 100), np.float32)
    for each, k in ((values, 0), (values, MOST + 1), (values[:, :3], 4), (values[:0], 1)):
        assert largest(each, k) is None
    assert largest(values[:, ::2], 2) is None
    assert largest(values.astype(np.float16), 2) is None
