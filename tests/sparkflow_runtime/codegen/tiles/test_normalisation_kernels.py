"""Sums and walks of batch normalisation against numpy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.tiles import normalisation_kernels
from sparkflow_runtime.codegen.tiles.normalisation_kernels import CHUNK, Kernels
from support.sharing import shared_among

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

Array = np.ndarray[Any, Any]
SIZES = [(1, 1), (5, 130), (CHUNK, 16), (CHUNK + 1, 7), (1000, 70), (700, 64)]


_threads = shared_among(normalisation_kernels, "PARALLEL_ELEMENTS", (1, 2, 3))


def bound(dtype: Any, rows: int, channels: int) -> Kernels:
    found = normalisation_kernels.bind(np.dtype(dtype), rows, channels)
    assert found is not None
    return found


def draw(seed: int, *shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def moments(kernels: Kernels, x: Array) -> tuple[Array, Array]:
    mean, variance = np.full((2, x.shape[-1]), np.nan, x.dtype)
    assert kernels.moments(x, mean, variance)
    return mean, variance


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_all_of_them(rows: int, channels: int, dtype: Any) -> None:
    kernels = bound(dtype, rows, channels)
    x, dy = draw(1, rows, channels, dtype=dtype) + dtype(3), draw(2, rows, channels, dtype=dtype)
    factor, offset, slope, share = draw(3, 4, channels, dtype=dtype)
    wide, upstream = x.astype(np.float64), dy.astype(np.float64)
    tolerance = {"rtol": 0, "atol": 1e-5 if dtype is np.float32 else 1e-13}

    mean, variance = moments(kernels, x)
    np.testing.assert_allclose(mean, wide.mean(0), **tolerance)
    np.testing.assert_allclose(variance, wide.var(0), **tolerance)

    out = np.full_like(x, np.nan)
    assert kernels.normalise(x, mean, factor, offset, out)
    np.testing.assert_allclose(out, (x - mean) * factor + offset, **tolerance)

    total, product = np.full((2, channels), np.nan, dtype)
    assert kernels.products(dy, x, mean, total, product)
    np.testing.assert_allclose(total / rows, upstream.mean(0), **tolerance)
    np.testing.assert_allclose(product / rows, (upstream * (wide - mean)).mean(0), **tolerance)

    assert kernels.slopes(dy, x, mean, slope, share, factor, out)
    np.testing.assert_allclose(out, (dy - (x - mean) * slope - share) * factor, **tolerance)


def test_sums_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalisation_kernels, "PARALLEL_ELEMENTS", 0)
    x, dy = draw(1, 900, 33), draw(2, 900, 33)
    found = []
    for count in (1, 2, 3, 4):
        threads.set_count(count)
        kernels = bound(np.float32, 900, 33)
        mean, variance = moments(kernels, x)
        total, product = np.empty((2, 33), np.float32)
        assert kernels.products(dy, x, mean, total, product)
        found.append(np.stack([mean, variance, total, product]))
    threads.set_count(0)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_a_large_mean_does_not_spoil_the_variance() -> None:
    """The mean of squares minus the square of the mean would have no correct digit."""
    x = draw(5, 5000, 20) + np.float32(3000)
    mean, variance = moments(bound(np.float32, 5000, 20), x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(0), rtol=1e-6)
    np.testing.assert_allclose(variance, wide.var(0), rtol=1e-3)


def test_arrays_that_do_not_fit_are_refused() -> None:
    kernels = bound(np.float32, 40, 8)
    x = draw(1, 40, 8)
    vector, other = np.zeros((2, 8), np.float32)
    assert not kernels.moments(x[::2], vector, other)
    assert not kernels.moments(x[:20], vector, other)
    assert not kernels.moments(x, vector[:4], other)
    assert not kernels.normalise(x, vector, vector, vector[:1], x.copy())
    assert not kernels.products(x, x.T, vector, vector, other)
    assert not kernels.slopes(x, x, *[vector] * 4, x[1:])


def test_what_has_none() -> None:
    for dtype in (np.float16, np.int32, np.dtype(np.float32).newbyteorder()):
        assert normalisation_kernels.bind(np.dtype(dtype), 5, 5) is None
    assert normalisation_kernels.bind(np.dtype(np.float32), 0, 5) is None
    assert normalisation_kernels.bind(np.dtype(np.float32), 5, 0) is None
