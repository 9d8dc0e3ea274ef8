"""Windows of a row pooled together against windows pooled one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.pooling import pooling_kernels
from sparkflow_runtime.codegen.pooling.pooling_form import Task
from sparkflow_runtime.ops.pooling.pool_arithmetic import Pooling

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

Array = np.ndarray[Any, Any]


def _pooled(
    monkeypatch: pytest.MonkeyPatch,
    task: Task,
    described: Pooling,
    shape: Sequence[int],
    *arrays: Array,
    alone: bool = False,
) -> Array:
    with monkeypatch.context() as patch:
        if alone:
            patch.setattr(pooling_kernels, "_RUN_VECTORS", 0)
        windows = described.windows(shape)
        kernel = pooling_kernels.bind_pooling(task, arrays[0].dtype, shape, windows)
    assert kernel is not None
    counts = [window.count for window in windows]
    result = np.full(shape if task.is_gradient else (shape[0], *counts, shape[-1]), 7.0, "f4")
    assert kernel(*arrays, result)
    return result


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("columns", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 16, 21])
def test_runs_give_what_windows_alone_give(
    monkeypatch: pytest.MonkeyPatch, padding: str, columns: int, channels: int
) -> None:
    generator = np.random.default_rng(columns)
    for stride in range(1, columns + 1):
        for width in (columns, columns + 1, 11):
            shape = (2, 7, width, channels)
            described = Pooling.of(
                {
                    "ksize": [1, 3, columns, 1],
                    "strides": [1, int(generator.integers(1, 5)), stride, 1],
                    "padding": padding,
                    "data_format": "NHWC",
                }
            )
            # Whole numbers have many maxima, and sums of them are exact in any order.
            images = generator.integers(-3, 4, shape).astype("f4")
            found, expected = [
                _pooled(monkeypatch, Task.MAXIMUM, described, shape, images, alone=each)
                for each in (False, True)
            ]
            np.testing.assert_array_equal(found, expected)
            maxima = expected
            given = generator.integers(-9, 10, maxima.shape).astype("f4")
            found, expected = [
                _pooled(
                    monkeypatch,
                    Task.MAXIMUM_GRADIENT,
                    described,
                    shape,
                    *(images, maxima, given),
                    alone=each,
                )
                for each in (False, True)
            ]
            np.testing.assert_array_equal(found, expected)
            for task, array in ((Task.AVERAGE, images), (Task.AVERAGE_GRADIENT, given)):
                found, expected = [
                    _pooled(monkeypatch, task, described, shape, array, alone=each)
                    for each in (False, True)
                ]
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_nan_passes_through_every_window_that_it_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (1, 3, 9, 5)
    described = Pooling.of(
        {"ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "padding": "VALID", "data_format": "NHWC"}
    )
    images = np.random.default_rng(1).standard_normal(shape).astype("f4")
    images[0, 1, 4, 2] = np.nan
    images[0, :, :, 3] = -np.inf
    maxima = _pooled(monkeypatch, Task.MAXIMUM, described, shape, images)
    assert np.isnan(maxima[0, 0, :, 2]).tolist() == [False, False, True, True, True, False, False]
    assert (maxima[..., 3] == -np.inf).all()
    gradient = _pooled(
        monkeypatch, Task.MAXIMUM_GRADIENT, described, shape, images, maxima, np.ones_like(maxima)
    )
    assert gradient[0, :, :, 2].sum() == 4  # nothing equals NaN
    assert gradient[0, 0, :, 3].tolist() == [1] * 7 + [0, 0]  # the first of equal ones
