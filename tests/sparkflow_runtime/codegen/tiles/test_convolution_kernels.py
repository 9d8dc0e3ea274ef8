"""Convolutions in machine code against the same sums written with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.tiles import convolution_kernels as convolution, convolution_tasks
from sparkflow_runtime.ops.convolution import depthwise
from sparkflow_runtime.ops.convolution.conv_arithmetic import (
    convolve,
    filter_gradient,
    input_gradient,
)
from sparkflow_runtime.ops.windows import Layout, Windows
from support.sharing import shared_among

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

Array = np.ndarray[Any, Any]

GEOMETRIES = [
    # batch, height, width, channels, outputs, rows, columns, strides, dilations, padding
    (2, 9, 8, 1, 32, 5, 5, (1, 1), (1, 1), "SAME"),
    (3, 7, 9, 32, 33, 3, 3, (1, 1), (1, 1), "SAME"),
    (2, 12, 11, 3, 10, 3, 5, (2, 2), (1, 1), "SAME"),
    (2, 11, 13, 5, 16, 2, 3, (2, 3), (1, 1), "VALID"),
    (1, 13, 12, 10, 5, 3, 3, (1, 1), (2, 3), "SAME"),
    (4, 1, 1, 7, 3, 3, 3, (1, 1), (1, 1), "SAME"),
    (5, 2, 3, 4, 40, 2, 2, (1, 1), (1, 1), "VALID"),
    (2, 8, 8, 64, 8, 1, 1, (2, 2), (1, 1), "SAME"),
    (2, 6, 5, 3, 4, 3, 2, (3, 1), (1, 1), ((2, 1), (0, 3))),
    (1, 40, 37, 2, 1, 7, 4, (1, 1), (1, 1), ((5, 0), (1, 8))),
    (0, 5, 5, 2, 3, 3, 3, (1, 1), (1, 1), "SAME"),
    (3, 5, 5, 128, 2, 3, 3, (1, 1), (1, 1), "VALID"),
    (2, 10, 3, 4, 17, 3, 3, (1, 1), (2, 1), ((9, 9), (2, 2))),
]
VOLUMES = [
    # batch, planes, height, width, channels, outputs, taps, strides, dilations, padding
    (2, 5, 9, 8, 3, 16, (3, 3, 3), (1, 1, 1), (1, 1, 1), "SAME"),
    (1, 6, 7, 9, 16, 33, (3, 3, 3), (1, 1, 1), (1, 1, 1), "VALID"),
    (2, 7, 12, 11, 5, 8, (3, 2, 5), (2, 2, 2), (1, 1, 1), "SAME"),
    (3, 4, 6, 5, 64, 8, (3, 3, 3), (1, 1, 1), (1, 1, 1), "SAME"),
    (2, 2, 5, 5, 4, 40, (5, 3, 3), (1, 1, 1), (1, 1, 1), "SAME"),
    (2, 8, 5, 6, 10, 7, (3, 1, 1), (1, 1, 1), (1, 1, 1), "SAME"),
    (2, 5, 6, 4, 7, 9, (1, 1, 1), (2, 2, 2), (1, 1, 1), "SAME"),
    (1, 9, 8, 7, 2, 3, (3, 3, 3), (1, 1, 1), (2, 2, 1), "SAME"),
    (2, 6, 5, 5, 3, 4, (2, 3, 2), (3, 1, 2), (1, 1, 1), ((4, 1), (0, 3), (2, 2))),
    (2, 3, 5, 5, 3, 4, (2, 3, 2), (1, 1, 1), (1, 1, 1), ((3, 4), (0, 3), (2, 2))),
    (0, 3, 5, 5, 2, 3, (3, 3, 3), (1, 1, 1), (1, 1, 1), "SAME"),
]


_threads = shared_among(convolution_tasks, "PARALLEL_PRODUCTS")


def _random_geometry(generator: np.random.Generator) -> tuple[Any, ...]:
    pick = generator.integers
    strides = (int(pick(1, 4)), int(pick(1, 4)))
    dilations = (int(pick(1, 3)), int(pick(1, 3))) if strides == (1, 1) else (1, 1)
    rows, columns = int(pick(1, 6)), int(pick(1, 6))
    reach = [(n - 1) * d + 1 for n, d in zip((rows, columns), dilations, strict=True)]
    paddings: list[Any] = ["SAME", "VALID"]
    paddings.append(tuple((int(pick(0, r + 2)), int(pick(0, r + 2))) for r in reach))
    dims = [int(pick(r, r + 12)) for r in reach]
    channels = int(generator.choice([1, 2, 3, 5, 8, 16, 33, 64]))
    outputs = int(generator.choice([1, 3, 8, 10, 16, 24, 33, 70]))
    padding = paddings[int(pick(0, 3))]
    return (int(pick(1, 6)), *dims, channels, outputs, rows, columns, strides, dilations, padding)


def _random_volume(generator: np.random.Generator) -> tuple[Any, ...]:
    pick = generator.integers
    strides: tuple[int, ...] = tuple(pick(1, 4, 3).tolist())
    dilations = tuple(pick(1, 3, 3).tolist()) if pick(2) else (1, 1, 1)
    taps = tuple(pick(1, 5, 3).tolist())
    reach = [(n - 1) * d + 1 for n, d in zip(taps, dilations, strict=True)]
    paddings: list[Any] = ["SAME", "VALID"]
    paddings.append(tuple((int(pick(0, r + 2)), int(pick(0, r + 2))) for r in reach))
    dims = [int(pick(r, r + 7)) for r in reach]
    channels = int(generator.choice([1, 2, 3, 16, 33, 64]))
    outputs = int(generator.choice([1, 3, 8, 16, 33]))
    padding = paddings[int(pick(0, 3))]
    return (int(pick(1, 4)), *dims, channels, outputs, taps, strides, dilations, padding)


def _layout(geometry: tuple[Any, ...]) -> Layout:
    *_, strides, dilations, padding = geometry
    is_named = isinstance(padding, str)
    explicit = ((0, 0),) * len(strides) if is_named else padding
    data_format = "NHWC" if len(strides) == 2 else "NDHWC"
    return Layout(strides, dilations, padding if is_named else "EXPLICIT", explicit, data_format)


def _windows(geometry: tuple[Any, ...]) -> Windows:
    _, height, width, _, _, rows, columns, *_ = geometry
    return _layout(geometry).windows((height, width), (rows, columns))


def _require_close(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape
    tolerance = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13}[found.dtype]
    scale = np.abs(expected).max(initial=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def _check(geometry: tuple[Any, ...], dtype: Any, generator: np.random.Generator) -> None:
    batch, height, width, channels, outputs, rows, columns, *_ = geometry
    images, filters = (batch, height, width, channels), (rows, columns, channels, outputs)
    assert _check_windows(images, filters, _windows(geometry), dtype, generator) == 3


def _check_volume(geometry: tuple[Any, ...], generator: np.random.Generator) -> int:
    batch, *dims, channels, outputs, taps, _, _, _ = geometry
    windows = _layout(geometry).windows(dims, taps)
    images, filters = (batch, *dims, channels), (*taps, channels, outputs)
    return _check_windows(images, filters, windows, np.float32, generator)


def _check_windows(
    shape: tuple[int, ...],
    of_filters: tuple[int, ...],
    windows: Windows,
    dtype: Any,
    generator: np.random.Generator,
) -> int:
    """Compares a convolution and its gradients with numpy's; returns how many have a kernel."""
    counts = tuple(window.count for window in windows)

    def draw(shape: tuple[int, ...]) -> Array:
        return generator.standard_normal(shape).astype(dtype)

    images, filters = draw(shape), draw(of_filters)
    dy = draw((shape[0], *counts, of_filters[-1]))
    wide = [each.astype(np.float64) for each in (images, filters, dy)]
    cases = [
        (convolution.forward, images, filters, dy, convolve(np, wide[0], wide[1], windows)),
        (
            convolution.filter_gradient,
            images,
            dy,
            filters,
            filter_gradient(np, wide[0], wide[2], windows),
        ),
        (
            convolution.input_gradient,
            dy,
            filters,
            images,
            input_gradient(np, wide[2], wide[1], windows, shape[1:-1]),
        ),
    ]
    found = 0
    for make, left, right, like, expected in cases:
        kernel = make(np.dtype(dtype), shape, of_filters, windows)
        if kernel is None:
            continue
        result = np.full_like(like, np.nan)
        assert kernel(left, right, result)
        _require_close(result, expected)
        found += 1
    return found


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_convolutions_and_gradients(geometry: tuple[Any, ...], dtype: Any) -> None:
    _check(geometry, dtype, np.random.default_rng(1))


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("geometry", VOLUMES, ids=str)
def test_convolutions_over_volumes(geometry: tuple[Any, ...]) -> None:
    assert _check_volume(geometry, np.random.default_rng(1)) == 3


@pytest.mark.usefixtures("_threads")
def test_random_volumes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution_tasks, "WRITTEN_OUT", 0)  # few bodies to compile
    generator = np.random.default_rng(2)
    assert sum(_check_volume(_random_volume(generator), generator) for _ in range(60)) > 120


def test_a_line_of_a_dilated_window_over_several_planes_has_no_kernel() -> None:
    layout = Layout((1, 1, 1), (1, 1, 2), "SAME", ((0, 0),) * 3, "NDHWC")
    sizes = ((2, 5, 6, 7, 8), (3, 3, 3, 8, 4), layout.windows((5, 6, 7), (3, 3, 3)))
    assert convolution.forward(np.dtype("f4"), *sizes) is None
    assert convolution.input_gradient(np.dtype("f4"), *sizes) is None
    assert convolution.filter_gradient(np.dtype("f4"), *sizes) is not None


@pytest.mark.usefixtures("_threads")
def test_random_geometries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution_tasks, "WRITTEN_OUT", 0)  # few bodies to compile
    generator = np.random.default_rng(2)
    for _ in range(60):
        _check(_random_geometry(generator), np.float32, generator)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_depthwise_convolutions_and_gradients(geometry: tuple[Any, ...]) -> None:
    generator = np.random.default_rng(3)
    batch, height, width, channels, _, rows, columns, *_ = geometry
    windows, layout = _windows(geometry), _layout(geometry)
    counts = tuple(window.count for window in windows)
    images = generator.standard_normal((batch, height, width, channels))
    filters = generator.standard_normal((rows, columns, channels, 1))
    dy = generator.standard_normal((batch, *counts, channels))
    cases = [
        (convolution.forward, depthwise.DepthwiseConv2dNative, (images, filters), dy, None),
        (
            convolution.filter_gradient,
            depthwise.DepthwiseConv2dNativeBackpropFilter,
            (images, dy),
            filters,
            1,
        ),
        (
            convolution.input_gradient,
            depthwise.DepthwiseConv2dNativeBackpropInput,
            (dy, filters),
            images,
            0,
        ),
    ]
    for make, op, (left, right), like, sizes_at in cases:
        given: list[Array] = [left, right] if sizes_at != 0 else [right, left]
        if sizes_at is not None:
            given.insert(sizes_at, np.array(like.shape))
        expected = op.run(np, layout, *given)
        for kind in (np.float32, np.float64):
            kernel = make(np.dtype(kind), images.shape, filters.shape, windows, depthwise=True)
            assert kernel is not None
            result = np.full(like.shape, np.nan, kind)
            assert kernel(left.astype(kind), right.astype(kind), result)
            _require_close(result, expected)


def test_arrays_that_do_not_fit_are_refused() -> None:
    windows = _windows(GEOMETRIES[0])
    kernel = convolution.forward(np.dtype(np.float32), (2, 9, 8, 1), (5, 5, 1, 32), windows)
    assert kernel is not None
    images, filters = np.ones((2, 9, 8, 1), np.float32), np.ones((5, 5, 1, 32), np.float32)
    result = np.empty((2, 9, 8, 32), np.float32)
    assert kernel(images, filters, result)
    assert not kernel(images[:1], filters, result)
    assert not kernel(images, filters[:4], result)
    assert not kernel(images, filters, result.transpose(3, 0, 1, 2))


def test_what_has_no_kernel() -> None:
    windows = _windows(GEOMETRIES[0])
    images, filters = (2, 9, 8, 1), (5, 5, 1, 32)
    assert convolution.forward(np.dtype(np.float16), images, filters, windows) is None
    multiplied = (5, 5, 1, 2)
    assert convolution.forward(np.dtype("f4"), images, multiplied, windows, depthwise=True) is None
    layout = Layout((2, 2), (2, 2), "SAME", ((0, 0), (0, 0)), "NHWC")
    both = layout.windows((9, 8), (5, 5))
    assert convolution.input_gradient(np.dtype("f4"), images, filters, both) is None
