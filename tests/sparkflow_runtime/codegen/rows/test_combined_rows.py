"""Rows combined by segments, against numpy's `ufunc.at`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows import combined_rows
from sparkflow_runtime.codegen.rows.combined_rows import combined

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

FUNCTIONS = ["add", "maximum", "minimum", "multiply"]
DTYPES: list[Any] = [np.float32, np.float64, np.int32, np.int64]


def start_of(function: str, dtype: Any) -> Any:
    if function in ("add", "multiply"):
        return int(function == "multiply")
    limits: Any = np.finfo(dtype) if np.issubdtype(dtype, np.floating) else np.iinfo(dtype)
    return limits.min if function == "maximum" else limits.max


def expected(function: str, rows: Any, ids: Any, count: int) -> Any:
    found = np.full((count, *rows.shape[1:]), start_of(function, rows.dtype), rows.dtype)
    kept = ids >= 0
    with np.errstate(invalid="ignore", over="ignore"):
        getattr(np, function).at(found, ids[kept], rows[kept])
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(100, 64), (60, 85), (50, 3), (300,), (20, 2, 17), (7, 1), (1, 40)]
)
def test_rows(shape: tuple[int, ...], dtype: Any, function: str) -> None:
    generator = np.random.default_rng(7)
    rows = (generator.standard_normal(shape) * 3).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        rows.reshape(-1)[:2] = np.nan, np.inf
    for index in (np.int16, np.int32, np.int64):
        ids = generator.integers(-2, 6, shape[0]).astype(index)
        found = combined(function, rows, ids, 7)
        np.testing.assert_array_equal(found, expected(function, rows, ids, 7))
        ids = np.sort(ids % 6)
        found = combined(function, rows, ids, 7, is_ordered=True)
        np.testing.assert_array_equal(found, expected(function, rows, ids, 7))


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", [(), (5,), (48,)])
def test_absent_segments_are_zero(row: tuple[int, ...], dtype: Any, is_ordered: bool) -> None:
    rows = np.arange(5 * np.prod(row, dtype=int)).reshape(5, *row).astype(dtype) - 9
    ids = np.array([1, 1, 3, 3, 3])
    found = combined("maximum", rows, ids, 5, is_ordered, "zero")
    assert found is not None
    wanted = np.zeros((5, *row), dtype)
    wanted[[1, 3]] = rows[[1, 4]]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", [(), (5,), (48,)])
def test_means(row: tuple[int, ...], dtype: Any) -> None:
    generator = np.random.default_rng(3)
    rows = generator.standard_normal((200, *row)).astype(dtype)
    ids = np.sort(generator.integers(0, 40, 200))
    counts = np.maximum(np.bincount(ids, minlength=41), 1).astype(dtype)
    sums = expected("add", rows, ids, 41)
    found = combined("add", rows, ids, 41, True, "mean")
    np.testing.assert_array_equal(found, sums / counts.reshape(-1, *(1,) * len(row)))


@pytest.mark.parametrize("columns", [33, 64, 100])
def test_threads_share_columns(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combined_rows, "_SHARED_BYTES", 1)
    monkeypatch.setattr(combined_rows, "_LARGE_BYTES", 1)
    generator = np.random.default_rng(5)
    rows = generator.standard_normal((500, columns))
    ids = np.sort(generator.integers(0, 9, 500))
    found = combined("add", rows, ids, 10, True, "zero")
    np.testing.assert_array_equal(found, expected("add", rows, ids, 10))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("row", [(), (5,), (40,)])
def test_large_results(
    row: tuple[int, ...], function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combined_rows, "_LARGE_BYTES", 1)
    generator = np.random.default_rng(5)
    rows, ids = generator.standard_normal((50, *row)), generator.integers(-2, 90, 50)
    found = combined(function, rows, ids, 100)
    np.testing.assert_array_equal(found, expected(function, rows, ids, 100))
    ids = np.sort(abs(ids))
    found = combined(function, rows, ids, 100, is_ordered=True)
    np.testing.assert_array_equal(found, expected(function, rows, ids, 100))


@pytest.mark.parametrize("wrong", [0, 1, 17, 39])
def test_ids_that_are_not_allowed(wrong: int) -> None:
    for index in (np.int32, np.int64):
        for size in (1, 16):
            rows, ids = np.ones((40, size)), np.full(40, 3, index)
            assert combined("add", rows, ids, 4, is_ordered=True) is not None
            ids[wrong] = 4
            assert combined("add", rows, ids, 4) is None
            assert combined("add", rows, ids, 4, is_ordered=True) is None
            ids[wrong] = 2 if wrong else -1
            assert combined("add", rows, ids, 4) is not None
            assert combined("add", rows, ids, 4, is_ordered=True) is None


def test_what_is_left_to_others() -> None:
    rows, ids = np.ones((3, 2)), np.zeros(3, int)
    assert combined("subtract", rows, ids, 2) is None
    assert combined("maximum", rows.astype(np.float16), ids, 2) is None
    assert combined("maximum", rows[:0], ids[:0], 2) is None
    assert combined("maximum", rows, ids, 0) is None
    assert combined("maximum", rows, ids[:2], 2) is None
    assert combined("maximum", np.ones((2, 3)).T, ids, 2) is None
