"""Triangular systems in machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.systems import substitution
from sparkflow_runtime.codegen.systems.substitution import MOST_ROWS, solve

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (4, 4), (7, 3), (20, 33), (5, 150), (70, 64)]
)
def test_systems(
    rows: int, columns: int, dtype: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(substitution, "_SHARED_PRODUCTS", 0)
    monkeypatch.setattr(threads, "count", lambda: count)
    generator = np.random.default_rng(3)
    matrices = generator.standard_normal((5, rows, rows)) / rows + 2 * np.eye(rows)
    sides = generator.standard_normal((5, rows, columns)).astype(dtype)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    for lower in (True, False):
        triangle = np.tril(matrices) if lower else np.triu(matrices)
        for transposed in (True, False):
            turned = triangle.swapaxes(1, 2) if transposed else triangle
            found = solve(matrices.astype(dtype), sides, lower, transposed)
            expected = np.linalg.solve(turned, sides)
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_what_has_no_machine_code() -> None:
    square = np.ones((1, 2, 2))
    assert solve(square, square.astype(np.float32), True, False) is None
    assert solve(square.astype(complex), square.astype(complex), True, False) is None
    assert solve(square[:, :, :], np.ones((1, 2, 0)), True, False) is None
    many = np.ones((1, MOST_ROWS + 1, MOST_ROWS + 1))
    assert solve(many, many, True, False) is None
