"""Resizing in machine code against products of matrices, and choosing against numpy's indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.images import resampling
from sparkflow_runtime.codegen.images.resampling import Taps, bind_choice, bind_sums
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.image import image_resize
from support.sharing import shared_among

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

Array = np.ndarray[Any, Any]
SHAPES = [
    # images, size
    ((2, 6, 7, 16), (12, 13)),
    ((1, 9, 8, 3), (4, 3)),
    ((3, 5, 5, 1), (5, 11)),
    ((2, 4, 3, 33), (1, 7)),
    ((1, 3, 2, 150), (4, 4)),
    ((1, 1, 1, 2), (3, 3)),
]
WEIGHTS = [image_resize._linear, image_resize._cubic, image_resize._area]


_threads = shared_among(resampling, "PARALLEL_ELEMENTS", autouse=True)


def _images(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


def _run(images: Array, rows: Taps, columns: Taps) -> Array:
    fill = bind_sums(images.dtype, images.shape[0], images.shape[3], rows, columns)
    assert fill is not None
    result = np.full((len(images), rows.count, columns.count, images.shape[3]), 77, images.dtype)
    assert fill(images, result)
    return result


@pytest.mark.parametrize("make", WEIGHTS)
@pytest.mark.parametrize(("shape", "size"), SHAPES)
def test_resizing_and_its_gradient(
    shape: tuple[int, ...], size: tuple[int, int], make: Callable[..., Taps]
) -> None:
    taps = [make(*each, False, False) for each in zip(shape[1:3], size, strict=True)]
    images = _images(shape)
    expected = image_resize._applied(np, images, taps)
    np.testing.assert_allclose(_run(images, *taps), expected, rtol=1e-5, atol=2e-6)
    back = [each.transposed() for each in taps]
    given = _images(expected.shape)
    expected = image_resize._applied(np, given, back)
    np.testing.assert_allclose(_run(given, *back), expected, rtol=1e-5, atol=5e-6)


def test_float64_and_rows_without_taps() -> None:
    images = _images((2, 4, 4, 5), np.float64)
    none = Taps(np.array([0, 0, 2]), np.array([1, 3]), np.array([0.25, 2.0]), 4)
    result = _run(images, none, none)
    assert not result[:, 0].any()
    assert not result[:, :, 0].any()
    inner = images[:, 1] * 0.25 + images[:, 3] * 2
    np.testing.assert_allclose(result[:, 1, 1], inner[:, 1] * 0.25 + inner[:, 3] * 2)


def test_what_is_not_a_number_reaches_its_neighbours_only() -> None:
    images = _images((1, 8, 8, 4))
    images[0, 2, 3] = np.nan
    taps = image_resize._linear(8, 16, False, False)
    spoiled = np.isnan(_run(images, taps, taps)).any(3)[0]
    assert spoiled[3:6, 5:8].all()
    assert spoiled.sum() == 9


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.complex128, bool])
@pytest.mark.parametrize(("shape", "size"), SHAPES)
def test_choosing(shape: tuple[int, ...], size: tuple[int, int], dtype: type) -> None:
    images = (_images(shape) * 50).astype(dtype)
    rows, columns = (
        image_resize._nearest(*each, False, False) for each in zip(shape[1:3], size, strict=True)
    )
    fill = bind_choice(images.dtype, shape, rows, columns)
    assert fill is not None
    expected = images[:, rows[:, None], columns[None]]
    result = np.zeros(expected.shape, dtype)
    assert fill(images, result)
    np.testing.assert_array_equal(result, expected)


def test_there_is_no_kernel_of_nothing() -> None:
    taps = image_resize._linear(4, 8, False, False)
    assert bind_sums(np.dtype(np.float32), 0, 3, taps, taps) is None
    assert bind_sums(np.dtype(np.float16), 1, 3, taps, taps) is None
    nearest = image_resize._nearest(4, 8, False, False)
    assert bind_choice(np.dtype(np.float32), (1, 4, 4, 0), nearest, nearest) is None


def test_a_matrix_says_the_same_as_its_taps() -> None:
    taps = image_resize._area(7, 3, False, False)
    np.testing.assert_allclose(taps.matrix().sum(1), 1, rtol=1e-6)
    np.testing.assert_array_equal(taps.transposed().matrix(), taps.matrix().T)
