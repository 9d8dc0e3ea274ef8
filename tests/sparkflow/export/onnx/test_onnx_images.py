"""Resized images in onnxruntime."""

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.sparkflow.export.onnx.comparison import compare

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 200, (2, 5, 6, 3))
SIZES = ([7, 9], [3, 2], [1, 1], [10, 12])
MODES = ({}, {"align_corners": True}, {"half_pixel_centers": True})


def _unknown(x: Any) -> Any:
    return tf.placeholder_with_default(x, [None, None, None, 3])


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int32", "float16", "float64"])
def test_bilinear_images_are_float32(dtype: str) -> None:
    def build(x: Any) -> list[Any]:
        made = [tf.image.resize_bilinear(x, size, **mode) for size in SIZES for mode in MODES]
        assert {each.dtype for each in made} == {tf.float32}
        return [*made, tf.image.resize_bilinear(_unknown(x), [7, 9])]

    compare(build, IMAGES.astype(dtype), rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int32", "int64", "float16", "float64"])
def test_nearest_neighbours_are_the_same_pixels(dtype: str) -> None:
    images = IMAGES.astype(dtype) + IMAGES.astype(dtype).dtype.type(1) * 7

    def build(x: Any) -> list[Any]:
        return [
            tf.image.resize_nearest_neighbor(given, size, **mode)
            for size in SIZES
            for mode in MODES
            for given in (x, _unknown(x))
        ]

    compare(build, images)


def test_nearest_neighbours_of_many_sizes() -> None:
    def build(x: Any) -> list[Any]:
        return [
            tf.image.resize_nearest_neighbor(x[:, :given], [wanted, 1], **mode)
            for given in (3, 5, 7, 11, 14)
            for wanted in (6, 9, 15, 28, 33)
            for mode in MODES
        ]

    compare(build, RANDOM.normal(size=(1, 14, 1, 1)).astype(np.float32))
