"""Bands of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.rows import bands

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.complex128, np.float16, bool])
@pytest.mark.parametrize("shape", [(7, 7), (2, 3, 5, 9), (4, 9, 5), (1, 1)])
def test_bands(
    shape: tuple[int, ...], dtype: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bands, "_SHARED_BYTES", 0)
    monkeypatch.setattr(threads, "count", lambda: count)
    matrices = np.random.default_rng(1).integers(1, 9, shape).astype(dtype)
    below = np.arange(shape[-2])[:, None] - np.arange(shape[-1])
    for lower, upper in ((0, 0), (-1, 0), (0, -1), (2, 1), (-1, -1), (1, 4)):
        out = np.full(shape, 7).astype(dtype)
        assert bands.fill_band(matrices, lower, upper, out)
        kept = ((lower < 0) | (below <= lower)) & ((upper < 0) | (-below <= upper))
        np.testing.assert_array_equal(out, np.where(kept, matrices, np.zeros((), dtype)))


def test_what_has_no_machine_code() -> None:
    for matrices in (np.zeros((0, 3)), np.full((2, 2), b"", object), np.zeros((4, 4)).T[::2]):
        out = np.empty(matrices.shape, matrices.dtype)
        assert not bands.fill_band(matrices, 0, 0, out)
