"""Brightness, contrast and colours of images, and their dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.image.color import *  # noqa: F403
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.linalg import linalg
from sparkflow.ops.random.random import random_uniform
from sparkflow.ops.reduction import reduction
from sparkflow.ops.shape import arrays, constants
from sparkflow_runtime.dtypes import as_dtype, float16, float32, int32

_GRAY = (0.2989, 0.5870, 0.1140)
# Columns of red, green, blue; ITU-R BT.470 and NTSC, as TensorFlow writes them.
_YUV = [
    [0.299, -0.14714119, 0.61497538],
    [0.587, -0.28886916, -0.51496512],
    [0.114, 0.43601035, -0.10001026],
]
_FROM_YUV = [[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]]
_YIQ = [
    [0.299, 0.59590059, 0.2115],
    [0.587, -0.27455667, -0.52273617],
    [0.114, -0.32134392, 0.31119955],
]
_FROM_YIQ = [
    [1, 1, 1],
    [0.95598634, -0.27201283, -1.10674021],
    [0.6208248, -0.64720424, 1.70423049],
]


@export("image.convert_image_dtype")
def convert_image_dtype(
    image: Any, dtype: Any, saturate: bool = False, name: str | None = None
) -> Tensor:
    """Converts images to a dtype and scales them: [0, 1] for floats, [0, max] for integers.

    Args:
        image: Real numbers.
        dtype: The new dtype.
        saturate: Whether to clip numbers that are out of range.
        name: Name of the scope.
    """
    wanted = as_dtype(dtype).base
    given = convert_to_tensor(image, name="image")
    kind = given.dtype.base
    if wanted is kind:
        return apply_op("Identity", given, name=name)  # type: ignore[no-any-return]
    graph = given.graph
    with graph.as_default(), graph.name_scope(name or "convert_image") as scope:
        cast = elementwise.saturate_cast if saturate else elementwise.cast
        if kind.is_integer and wanted.is_integer:
            if kind.max > wanted.max:
                factor = (kind.max + 1) // (wanted.max + 1)
                return cast(given // np.array(factor, kind.as_numpy_dtype), wanted, name=scope)
            factor = (wanted.max + 1) // (kind.max + 1)
            factors = np.array(factor, wanted.as_numpy_dtype)
            return elementwise.multiply(cast(given, wanted), factors, name=scope)
        if kind.is_floating and wanted.is_floating:
            return elementwise.cast(given, wanted, name=scope)
        if kind.is_integer:
            return elementwise.multiply(elementwise.cast(given, wanted), 1.0 / kind.max, name=scope)
        return cast(elementwise.multiply(given, wanted.max + 0.5), wanted, name=scope)


def _in_float(image: Any, name: str, function: Any) -> Tensor:
    """Applies `function` to the image in floating point; returns the image's dtype."""
    graph = graph_of((image,))
    with graph.as_default(), graph.name_scope(name):
        given = convert_to_tensor(image, name="image")
        kind = given.dtype.base
        wide = given if kind in (float16, float32) else convert_image_dtype(given, float32)
        return convert_image_dtype(function(wide), kind, saturate=True)


@export("image.adjust_brightness")
def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """Adds `delta` to images in [0, 1]."""
    return _in_float(
        image,
        "adjust_brightness",
        lambda wide: elementwise.add(wide, elementwise.cast(delta, wide.dtype.base)),
    )


@export("image.random_brightness")
def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """`adjust_brightness` by a number in [-max_delta, max_delta).

    Raises:
        ValueError: `max_delta` is negative.
    """
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


@export("image.adjust_contrast")
def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """(x - mean) · contrast_factor + mean, with the mean of each channel of each image."""
    return _in_float(
        images,
        "adjust_contrast",
        lambda wide: apply_op("AdjustContrastv2", wide, contrast_factor),
    )


@export("image.random_contrast")
def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """`adjust_contrast` by a number in [lower, upper).

    Raises:
        ValueError: `lower` is negative, or not below `upper`.
    """
    _check_range(lower, upper)
    return adjust_contrast(image, random_uniform([], lower, upper, seed=seed))


def _check_range(lower: float, upper: float) -> None:
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")


@export("image.adjust_gamma")
def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """Gain · x^gamma for images in [0, 1].

    Raises:
        ValueError: `gamma` is negative.
    """
    if isinstance(gamma, int | float) and gamma < 0:
        raise ValueError("Gamma should be a non-negative real number.")
    return _in_float(image, "adjust_gamma", lambda wide: gain * wide**gamma)


@export("image.adjust_hue")
def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Rotates hues by `delta` in [-1, 1]."""
    return _in_float(image, name or "adjust_hue", lambda wide: apply_op("AdjustHue", wide, delta))


@export("image.random_hue")
def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """`adjust_hue` by a number in [-max_delta, max_delta).

    Raises:
        ValueError: `max_delta` is not in [0, 0.5].
    """
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_hue(image, random_uniform([], -max_delta, max_delta, seed=seed))


@export("image.adjust_saturation")
def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Multiplies saturations by a factor; results are at most 1."""
    return _in_float(
        image,
        name or "adjust_saturation",
        lambda wide: apply_op("AdjustSaturation", wide, saturation_factor),
    )


@export("image.random_saturation")
def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """`adjust_saturation` by a number in [lower, upper).

    Raises:
        ValueError: `lower` is negative, or not below `upper`.
    """
    _check_range(lower, upper)
    return adjust_saturation(image, random_uniform([], lower, upper, seed=seed))


@export("image.rgb_to_grayscale")
def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """[..., 1] the brightness of colours [..., 3]."""
    graph = graph_of((images,))
    with graph.as_default(), graph.name_scope(name or "rgb_to_grayscale") as scope:
        given = convert_to_tensor(images, name="images")
        wide = convert_image_dtype(given, float32)
        gray = linalg.tensordot(wide, np.array(_GRAY, np.float32), [[-1], [0]])
        return convert_image_dtype(arrays.expand_dims(gray, -1), given.dtype.base, name=scope)


@export("image.grayscale_to_rgb")
def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """[..., 3] from [..., 1]."""
    graph = graph_of((images,))
    with graph.as_default(), graph.name_scope(name or "grayscale_to_rgb") as scope:
        given = convert_to_tensor(images, name="images")
        rank = arrays.rank(given) if given.shape.ndims is None else given.shape.ndims
        if isinstance(rank, int):
            multiples: Any = [1] * (rank - 1) + [3]
        else:
            ones = constants.fill(arrays.expand_dims(rank - 1, 0), 1)
            multiples = arrays.concat([ones, [3]], 0)
        result = arrays.tile(given, multiples, name=scope)
        if given.shape.ndims is not None:
            result.set_shape([*given.shape.as_list()[:-1], 3])
        return result


def _mixed(images: Any, kernel: Any) -> Tensor:
    given = convert_to_tensor(images, name="images")
    matrix = np.array(kernel, given.dtype.base.as_numpy_dtype)
    return linalg.tensordot(given, matrix, [[-1], [0]])


@export("image.rgb_to_yuv")
def rgb_to_yuv(images: Any) -> Tensor:
    """YUV from RGB."""
    return _mixed(images, _YUV)


@export("image.yuv_to_rgb")
def yuv_to_rgb(images: Any) -> Tensor:
    """RGB from YUV."""
    return _mixed(images, _FROM_YUV)


@export("image.rgb_to_yiq")
def rgb_to_yiq(images: Any) -> Tensor:
    """YIQ from RGB."""
    return _mixed(images, _YIQ)


@export("image.yiq_to_rgb")
def yiq_to_rgb(images: Any) -> Tensor:
    """RGB from YIQ."""
    return _mixed(images, _FROM_YIQ)


@export("image.per_image_standardization")
def per_image_standardization(image: Any) -> Tensor:
    """Standardizes each image: subtracts the mean, divides by the deviation (≥ 1 / √pixels)."""
    graph = graph_of((image,))
    with graph.as_default(), graph.name_scope("per_image_standardization") as scope:
        given = convert_to_tensor(image, name="image")
        if given.dtype.base not in (float16, float32):
            given = elementwise.cast(given, float32)
        count = elementwise.cast(
            reduction.reduce_prod(elementwise.cast(arrays.shape(given)[-3:], int32)),
            given.dtype.base,
        )
        axes = [-1, -2, -3]
        mean = reduction.reduce_mean(given, axes, keepdims=True)
        squares = elementwise.squared_difference(given, mean)
        variance = reduction.reduce_mean(squares, axes, keepdims=True)
        least = elementwise.rsqrt(count)
        deviation = elementwise.maximum(elementwise.sqrt(variance), least)
        return elementwise.divide(given - mean, deviation, name=scope)
