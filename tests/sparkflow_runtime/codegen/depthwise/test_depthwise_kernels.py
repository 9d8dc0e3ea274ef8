"""Depthwise convolutions in machine code against the same sums written with numpy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.depthwise import depthwise_kernels as kernels
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.convolution import depthwise
from sparkflow_runtime.ops.windows import Layout
from support.sharing import shared_among

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

Array = np.ndarray[Any, Any]
MULTIPLIERS = (1, 2, 3, 4, 5, 8, 17, 35)
GEOMETRIES = [
    # batch, height, width, channels, multiplier, rows, columns, strides, dilations, padding
    (2, 9, 8, 1, 2, 5, 5, (1, 1), (1, 1), "SAME"),
    (3, 7, 9, 32, 1, 3, 3, (1, 1), (1, 1), "SAME"),
    (3, 7, 29, 33, 2, 3, 3, (2, 2), (1, 1), "SAME"),
    (2, 11, 13, 5, 3, 2, 3, (2, 3), (1, 1), "VALID"),
    (1, 13, 12, 10, 4, 3, 3, (1, 1), (2, 3), "SAME"),
    (2, 13, 12, 10, 2, 3, 3, (2, 4), (2, 2), "SAME"),
    (4, 1, 1, 7, 3, 3, 3, (1, 1), (1, 1), "SAME"),
    (2, 8, 8, 64, 2, 1, 1, (2, 2), (1, 1), "SAME"),
    (2, 6, 5, 3, 4, 3, 2, (3, 1), (1, 1), ((2, 1), (0, 3))),
    (0, 5, 5, 2, 3, 3, 3, (1, 1), (1, 1), "SAME"),
    (2, 10, 3, 4, 17, 3, 3, (1, 1), (2, 1), ((9, 9), (2, 2))),
    (2, 5, 70, 3, 2, 3, 64, (1, 1), (1, 1), "SAME"),  # too long to be written out
    (2, 5, 70, 3, 1, 3, 64, (1, 1), (1, 1), "SAME"),
]

_threads = shared_among(kernels, "PARALLEL_PRODUCTS")


def random_geometries(count: int) -> Iterator[tuple[Any, ...]]:
    generator = np.random.default_rng(2)
    pick = generator.integers
    for _ in range(count):
        strides = (int(pick(1, 4)), int(pick(1, 4)))
        dilations = (int(pick(1, 3)), int(pick(1, 3)))
        taps = (int(pick(1, 6)), int(pick(1, 6)))
        reach = [(n - 1) * d + 1 for n, d in zip(taps, dilations, strict=True)]
        paddings: list[Any] = ["SAME", "VALID"]
        paddings.append(tuple((int(pick(0, r + 2)), int(pick(0, r + 2))) for r in reach))
        dims = [int(pick(r, r + 12)) for r in reach]
        sizes = (int(pick(1, 4)), *dims, int(pick(1, 40)), int(generator.choice(MULTIPLIERS)))
        yield (*sizes, *taps, strides, dilations, paddings[int(pick(0, 3))])


def check(geometry: tuple[Any, ...], *dtypes: Any) -> int:
    """Compares a convolution and its gradients with numpy's; returns how many have a kernel."""
    batch, height, width, channels, multiplier, *taps, strides, dilations, padding = geometry
    generator = np.random.default_rng(3)
    is_named = isinstance(padding, str)
    explicit = ((0, 0), (0, 0)) if is_named else padding
    layout = Layout(strides, dilations, padding if is_named else "EXPLICIT", explicit, "NHWC")
    windows = layout.windows((height, width), taps)
    counts = [window.count for window in windows]
    images = generator.standard_normal((batch, height, width, channels))
    filters = generator.standard_normal((*taps, channels, multiplier))
    dy = generator.standard_normal((batch, *counts, channels * multiplier))
    cases = [
        (kernels.forward, images, filters, depthwise.DepthwiseConv2dNative.run, (images, filters)),
        (
            kernels.input_gradient,
            dy,
            filters,
            depthwise.DepthwiseConv2dNativeBackpropInput.run,
            (np.array(images.shape), filters, dy),
        ),
        (
            kernels.filter_gradient,
            images,
            dy,
            depthwise.DepthwiseConv2dNativeBackpropFilter.run,
            (images, np.array(filters.shape), dy),
        ),
    ]
    found = 0
    for (make, left, right, run, given), dtype in itertools.product(cases, dtypes):
        kernel = make(np.dtype(dtype), images.shape, filters.shape, windows)
        if kernel is None:
            continue
        expected = run(np, layout, *given)
        result = np.full(expected.shape, np.nan, dtype)
        assert kernel(left.astype(dtype), right.astype(dtype), result)
        tolerance = 1e-5 if dtype is np.float32 else 1e-13
        scale = np.abs(expected).max(initial=1)
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance * scale)
        found += 1
    return found


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_convolutions_and_gradients(geometry: tuple[Any, ...]) -> None:
    assert check(geometry, np.float32, np.float64) == 6


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_all_combinations(multiplier: int, padding: str, stride: int, dilation: int) -> None:
    sizes = (2, 8, 21, 18, multiplier, 3, 3)
    assert check((*sizes, (stride, stride), (dilation, dilation), padding), np.float32) == 3


@pytest.mark.usefixtures("_threads")
def test_random_geometries() -> None:
    assert sum(check(each, np.float32) for each in random_geometries(40)) > 110


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("stride", [1, 2])
def test_images_that_are_not_in_cache(monkeypatch: pytest.MonkeyPatch, stride: int) -> None:
    monkeypatch.setattr(kernels, "FAR_BYTES", 0)
    for padding in ("SAME", "VALID", ((3, 3), (3, 3))):
        assert check((2, 9, 8, 18, 1, 3, 3, (stride, stride), (1, 1), padding), np.float32) == 3


@pytest.mark.parametrize("multiplier", [1, 3])
def test_filters_that_are_too_long(monkeypatch: pytest.MonkeyPatch, multiplier: int) -> None:
    monkeypatch.setattr(kernels, "MOST_WRITTEN", 0)
    geometry = (2, 9, 8, 5, multiplier, 3, 3, (2, 2), (1, 1), "SAME")
    assert check(geometry, np.float32, np.float64) == 6
    mixed = (2, 9, 8, 5, multiplier, 3, 3, (2, 2), (2, 2), "SAME")
    assert check(mixed, np.float32) == 2  # the input gradient has none


def test_arrays_that_do_not_fit_are_refused() -> None:
    windows = Layout((1, 1), (1, 1), "SAME", ((0, 0), (0, 0)), "NHWC").windows((9, 8), (3, 3))
    for multiplier in (1, 2):
        filters = np.ones((3, 3, 5, multiplier), np.float32)
        kernel = kernels.forward(np.dtype("f4"), (2, 9, 8, 5), filters.shape, windows)
        assert kernel is not None
        images = np.ones((2, 9, 8, 5), np.float32)
        result = np.empty((2, 9, 8, 5 * multiplier), np.float32)
        assert kernel(images, filters, result)
        assert not kernel(images[:1], filters, result)
        assert not kernel(images, filters[:2], result)
        assert not kernel(images, filters, result.transpose(3, 0, 1, 2))


@pytest.mark.usefixtures("_threads")
def test_a_result_of_another_size_is_refused() -> None:
    windows = Layout((1, 1), (1, 1), "SAME", ((0, 0), (0, 0)), "NHWC").windows((9, 8), (3, 3))
    kernel = kernels.filter_gradient(np.dtype("f4"), (2, 9, 8, 5), (3, 3, 5, 1), windows)
    assert kernel is not None
    images = np.ones((2, 9, 8, 5), np.float32)
    assert not kernel(images, images, np.empty((3, 3, 4, 1), np.float32))
    assert not kernel(images, images[:1], np.empty((3, 3, 5, 1), np.float32))


def test_what_has_no_kernel() -> None:
    windows = Layout((1, 1), (1, 1), "SAME", ((0, 0), (0, 0)), "NHWC").windows((9, 8), (3, 3))
    assert kernels.forward(np.dtype("f2"), (2, 9, 8, 1), (3, 3, 1, 2), windows) is None
    assert kernels.forward(np.dtype(">f4"), (2, 9, 8, 1), (3, 3, 1, 2), windows) is None
    assert kernels.forward(np.dtype("f4"), (2, 9, 8, 0), (3, 3, 0, 2), windows) is None
