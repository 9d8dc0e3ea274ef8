"""Cumulative sums and products against numpy's, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.rows import scans

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

SHAPES = [(3, 4, 70), (9, 65), (17, 3), (5,), (1,), (3, 1, 7), (2, 128)]


def _expected(x: Any, axis: int, function: str, exclusive: bool, reverse: bool) -> Any:
    x = np.moveaxis(x, axis, 0)
    x = x[::-1] if reverse else x
    found = getattr(np, function)(x, axis=0, dtype=x.dtype)
    if exclusive:
        first = np.full_like(x[:1], 0 if function == "cumsum" else 1)
        found = np.concatenate([first, found[:-1]])
    return np.moveaxis(found[::-1] if reverse else found, 0, axis)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("shape", SHAPES)
def test_scans(
    shape: tuple[int, ...], dtype: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "_SHARED_ELEMENTS", 0)
    monkeypatch.setattr(threads, "count", lambda: count)
    x = (np.random.default_rng(6).standard_normal(shape) * 3).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        x.reshape(-1)[x.size // 2] = np.nan
    for axis in range(len(shape)):
        for function in ("cumsum", "cumprod"):
            for exclusive in (False, True):
                for reverse in (False, True):
                    found = scans.scan(x, axis, function, exclusive, reverse)
                    expected = _expected(x, axis, function, exclusive, reverse)
                    np.testing.assert_array_equal(found, expected)


def test_what_has_no_machine_code() -> None:
    for x in (np.zeros((0, 3)), np.zeros(3, np.float16), np.zeros((4, 4)).T[::2]):
        assert scans.scan(x, 0, "cumsum", False, False) is None
