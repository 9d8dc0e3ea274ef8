"""Pooling in machine code against numpy's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.pooling import pooling_kernels as pooling
from sparkflow_runtime.codegen.pooling.pooling_form import Task
from sparkflow_runtime.ops.pooling import pool_ops
from sparkflow_runtime.ops.pooling.pool_arithmetic import Pooling
from support.sharing import shared_among

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

Array = np.ndarray[Any, Any]

GEOMETRIES = [
    # images, size, strides, padding
    ((3, 8, 10, 32), (2, 2), (2, 2), "SAME"),
    ((2, 9, 7, 33), (2, 2), (2, 2), "SAME"),
    ((2, 9, 7, 5), (2, 2), (2, 2), "VALID"),
    ((2, 9, 7, 16), (3, 3), (2, 2), "SAME"),
    ((1, 6, 11, 3), (3, 2), (1, 1), "SAME"),
    ((2, 7, 7, 40), (7, 7), (1, 1), "VALID"),
    ((2, 12, 13, 1), (2, 3), (4, 5), "VALID"),
    ((2, 5, 5, 10), (5, 5), (2, 3), "SAME"),
    ((0, 5, 5, 10), (2, 2), (2, 2), "SAME"),
    ((2, 1, 1, 4), (3, 3), (1, 1), "SAME"),
    ((2, 9, 12, 16), (3, 3), (1, 1), "SAME"),
    ((2, 9, 12, 19), (3, 3), (1, 1), "VALID"),
    ((2, 9, 12, 3), (3, 3), (3, 1), "SAME"),
    ((2, 8, 13, 5), (2, 4), (2, 3), "SAME"),
    ((2, 8, 13, 6), (2, 4), (1, 4), "VALID"),
    ((2, 8, 3, 6), (2, 4), (2, 2), "SAME"),
    ((2, 8, 2, 6), (2, 4), (2, 1), "SAME"),
    ((2, 7, 9, 200), (3, 3), (1, 1), "SAME"),
    ((2, 4, 6, 8, 16), (2, 2, 2), (2, 2, 2), "SAME"),
    ((2, 5, 7, 9, 17), (2, 2, 2), (2, 2, 2), "VALID"),
    ((2, 6, 7, 5, 33), (3, 3, 3), (2, 2, 2), "SAME"),
    ((1, 5, 4, 6, 3), (3, 2, 1), (1, 1, 1), "SAME"),
    ((2, 4, 5, 7, 5), (1, 2, 2), (1, 2, 2), "VALID"),
    ((2, 5, 6, 4, 8), (1, 2, 2), (3, 2, 1), "SAME"),
    ((3, 7, 3, 3, 4), (2, 1, 1), (3, 1, 1), "VALID"),
    ((2, 2, 3, 1, 4), (5, 3, 3), (1, 1, 1), "SAME"),
    ((0, 4, 4, 4, 4), (2, 2, 2), (2, 2, 2), "SAME"),
]


_threads = shared_among(pooling, "PARALLEL_ELEMENTS")


def _pooling(size: Sequence[int], strides: Sequence[int], padding: str) -> Pooling:
    data_format = "NHWC" if len(size) == 2 else "NDHWC"
    window = {"ksize": [1, *size, 1], "strides": [1, *strides, 1]}
    return Pooling.of({**window, "padding": padding, "data_format": data_format})


def _images(shape: Sequence[int], dtype: Any, special: bool = False) -> Array:
    """Random images with many equal elements, and optionally with infinities and NaN."""
    generator = np.random.default_rng(3)
    values = np.round(generator.standard_normal(shape) * 2).astype(dtype)
    if special:
        odd = generator.choice(np.array([np.nan, np.inf, -np.inf], dtype), shape)
        values = np.where(generator.random(shape) < 0.05, odd, values)
    return values


def _run(task: Task, geometry: Pooling, images: Sequence[int], *arrays: Array) -> Array:
    dtype = arrays[0].dtype
    kernel = pooling.bind_pooling(task, dtype, images, geometry.windows(images))
    assert kernel is not None
    counts = [window.count for window in geometry.windows(images)]
    shape = images if task.is_gradient else (images[0], *counts, images[-1])
    result = np.full(shape, 77, dtype)
    assert kernel(*arrays, result)
    return result


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_pooling_and_gradients(geometry: tuple[Any, ...], dtype: Any) -> None:
    _check(geometry, dtype)


def _check(geometry: tuple[Any, ...], dtype: Any) -> None:
    shape, size, strides, padding = geometry
    described = _pooling(size, strides, padding)
    images = _images(shape, dtype)

    maxima = pool_ops.MaxPool.run(np, described, images)
    np.testing.assert_array_equal(_run(Task.MAXIMUM, described, shape, images), maxima)
    means = pool_ops.AvgPool.run(np, described, images)
    np.testing.assert_allclose(_run(Task.AVERAGE, described, shape, images), means, rtol=1e-6)

    gradient = np.random.default_rng(4).standard_normal(maxima.shape).astype(dtype)
    expected = pool_ops.MaxPoolGrad.run(np, described, images, maxima, gradient)
    found = _run(Task.MAXIMUM_GRADIENT, described, shape, images, maxima, gradient)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    expected = pool_ops.AvgPoolGrad.run(np, described, np.array(shape), gradient)
    found = _run(Task.AVERAGE_GRADIENT, described, shape, gradient)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("geometry", GEOMETRIES[:5] + GEOMETRIES[9:], ids=str)
def test_infinities_and_nan(geometry: tuple[Any, ...]) -> None:
    shape, size, strides, padding = geometry
    described = _pooling(size, strides, padding)
    images = _images(shape, np.float32, special=True)
    maxima = pool_ops.MaxPool.run(np, described, images)
    np.testing.assert_array_equal(_run(Task.MAXIMUM, described, shape, images), maxima)
    gradient = np.ones_like(maxima)
    expected = pool_ops.MaxPoolGrad.run(np, described, images, maxima, gradient)
    found = _run(Task.MAXIMUM_GRADIENT, described, shape, images, maxima, gradient)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("_threads")
def test_random_windows_over_volumes() -> None:
    generator = np.random.default_rng(6)
    pick = generator.integers
    for _ in range(25):
        size, strides = pick(1, 4, 3).tolist(), pick(1, 4, 3).tolist()
        shape = (int(pick(1, 4)), *(each + int(pick(0, 6)) for each in size), int(pick(1, 20)))
        padding = ("SAME", "VALID")[int(pick(2))]
        _check((shape, size, strides, padding), np.float32)


def test_arrays_that_do_not_fit_are_refused() -> None:
    described = Pooling.of({"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"})
    shape = (2, 4, 4, 3)
    kernel = pooling.bind_pooling(
        Task.MAXIMUM, np.dtype(np.float32), shape, described.windows(shape)
    )
    assert kernel is not None
    images = np.zeros(shape, np.float32)
    assert not kernel(images, np.zeros((2, 2, 2, 4), np.float32))
    assert not kernel(images[:, ::-1], np.zeros((2, 2, 2, 3), np.float32))


def test_dtypes_without_a_kernel() -> None:
    described = Pooling.of({"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"})
    shape = (2, 4, 4, 3)
    windows = described.windows(shape)
    assert pooling.bind_pooling(Task.MAXIMUM, np.dtype(np.int32), shape, windows) is None
