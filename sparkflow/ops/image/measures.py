"""Differences between images, and between neighbouring pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.scopes import convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.convolution import convolution
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.image.color import convert_image_dtype
from sparkflow.ops.nn import activation
from sparkflow.ops.pooling import pooling
from sparkflow.ops.reduction import reduction
from sparkflow.ops.shape import arrays
from sparkflow_runtime.dtypes import float32


@export("image.total_variation")
def total_variation(images: Any, name: str | None = None) -> Tensor:
    """Returns the sum of absolute differences of neighbouring pixels, per image.

    Raises:
        ValueError: The rank is not 3 or 4.
    """
    graph = graph_of((images,))
    with graph.as_default(), graph.name_scope(name or "total_variation"):
        given = convert_to_tensor(images)
        rank = given.shape.ndims
        if rank not in (3, 4):
            raise ValueError("'images' must be either 3 or 4-dimensional.")
        axes = None if rank == 3 else [1, 2, 3]
        rows = given[..., 1:, :, :] - given[..., :-1, :, :]
        columns = given[..., :, 1:, :] - given[..., :, :-1, :]
        across = reduction.reduce_sum(elementwise.abs(rows), axes)
        return across + reduction.reduce_sum(elementwise.abs(columns), axes)


@export("image.image_gradients")
def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """Returns the differences to the pixels below and to the right; 0 at the border.

    Raises:
        ValueError: The shape is not [batch, height, width, channels].
    """
    given = convert_to_tensor(image)
    if given.shape.ndims != 4:
        raise ValueError(
            f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {given.shape}."
        )
    with given.graph.as_default():
        rows = given[:, 1:, :, :] - given[:, :-1, :, :]
        columns = given[:, :, 1:, :] - given[:, :, :-1, :]
        below = arrays.pad(rows, [[0, 0], [0, 1], [0, 0], [0, 0]])
        right = arrays.pad(columns, [[0, 0], [0, 0], [0, 1], [0, 0]])
        below.set_shape(given.shape)
        right.set_shape(given.shape)
        return below, right


@export("image.sobel_edges")
def sobel_edges(image: Any) -> Tensor:
    """Returns the Sobel edges over rows and columns: [batch, height, width, channels, 2]."""
    given = convert_to_tensor(image)
    with given.graph.as_default():
        down = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], np.float32)
        kernels = np.stack([down, down.T], -1)[:, :, None, :]
        channels = given.shape[-1].value
        if channels is None:
            raise ValueError(f"The number of channels must be known, got {given.shape}")
        padded = arrays.pad(given, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
        edges = convolution.depthwise_conv2d_native(
            padded, np.tile(kernels, (1, 1, channels, 1)), [1, 1, 1, 1], "VALID"
        )
        sizes = arrays.concat([arrays.shape(given), [2]], 0)
        result = arrays.reshape(edges, sizes)
        result.set_shape(given.shape.concatenate([2]))
        return result


@export("image.psnr")
def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """Returns the peak signal-to-noise ratio of images, in decibels."""
    graph = graph_of((a, b))
    with graph.as_default(), graph.name_scope(name or "PSNR"):
        peak = _peak(max_val, a)
        first, second = (convert_image_dtype(each, float32) for each in (a, b))
        error = reduction.reduce_mean(elementwise.squared_difference(first, second), [-3, -2, -1])
        tens = np.float32(math.log(10))
        signal = 20 * elementwise.log(peak) / tens
        return elementwise.subtract(
            signal, np.float32(10 / math.log(10)) * elementwise.log(error), name="psnr"
        )


def _peak(max_val: Any, image: Any) -> Tensor:
    kind = convert_to_tensor(image).dtype.base
    return convert_image_dtype(elementwise.cast(max_val, kind), float32)


@export("image.ssim")
def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """Returns the structural similarity (Wang et al. 2004), averaged over pixels and channels."""
    graph = graph_of((img1, img2))
    with graph.as_default(), graph.name_scope("SSIM"):
        first = convert_to_tensor(img1, name="img1")
        peak = _peak(max_val, first)
        x, y = (convert_image_dtype(each, float32) for each in (first, img2))
        values, _ = _similarity(x, y, peak, filter_size, filter_sigma, k1, k2)
        return reduction.reduce_mean(values, [-1])


_MSSSIM_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


@export("image.ssim_multiscale")
def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Sequence[float] = _MSSSIM_WEIGHTS,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """Returns the multi-scale structural similarity (Wang et al. 2003); scales are halved.

    Args:
        img1: [..., height, width, channels].
        img2: The same.
        max_val: The range of the values.
        power_factors: The weight of each scale, the finest first.
        filter_size: The size of the window, in pixels.
        filter_sigma: The standard deviation of the Gaussian window, in pixels.
        k1: Stabilizes the ratio of means.
        k2: Stabilizes the ratio of variances.

    Returns:
        [...] in [0, 1].
    """
    graph = graph_of((img1, img2))
    with graph.as_default(), graph.name_scope("MS-SSIM"):
        first = convert_to_tensor(img1, name="img1")
        peak = _peak(max_val, first)
        x, y = (convert_image_dtype(each, float32) for each in (first, img2))
        parts = []
        for scale, power in enumerate(power_factors):
            if scale:
                x, y = _halved(x), _halved(y)
            whole, structure = _similarity(x, y, peak, filter_size, filter_sigma, k1, k2)
            part = whole if scale == len(power_factors) - 1 else structure
            parts.append(elementwise.pow(activation.relu(part), power))
        product = parts[0]
        for part in parts[1:]:
            product = product * part
        return reduction.reduce_mean(product, [-1])


def _halved(images: Tensor) -> Tensor:
    """Downsamples images by 2: means of 2 x 2 pixels, an odd border repeated."""
    shape = arrays.shape(images)
    flat = arrays.reshape(images, arrays.concat([[-1], shape[-3:]], 0))
    odd = shape[-3:-1] % 2
    zero = odd * 0
    paddings = arrays.stack(
        [[0, 0], arrays.stack([zero[0], odd[0]]), arrays.stack([zero[1], odd[1]]), [0, 0]]
    )
    padded = arrays.pad(flat, paddings, mode="SYMMETRIC")
    padded.set_shape([None, None, None, images.shape.as_list()[-1]])
    half = pooling.avg_pool(padded, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    sizes = arrays.concat([shape[:-3], arrays.shape(half)[1:]], 0)
    result = arrays.reshape(half, sizes)
    known = images.shape.as_list()
    halves = [None if size is None else -(-size // 2) for size in known[-3:-1]]
    result.set_shape([*known[:-3], *halves, known[-1]])
    return result


def _similarity(
    x: Tensor, y: Tensor, peak: Tensor, size: int, sigma: float, k1: float, k2: float
) -> tuple[Tensor, Tensor]:
    """Returns the structural similarity, and its contrast-structure term: [..., channels]."""
    channels = x.shape[-1].value
    if channels is None:
        raise ValueError(f"The number of channels must be known, got {x.shape}")
    places = np.arange(size, dtype=np.float64) - (size - 1) / 2
    bell = np.exp(-(places**2) / (2 * sigma**2))
    window = np.outer(bell, bell) / bell.sum() ** 2
    kernel = np.tile(window[:, :, None, None], (1, 1, channels, 1)).astype(np.float32)

    def blurred(values: Tensor) -> Tensor:
        shape = arrays.shape(values)
        flat = arrays.reshape(values, arrays.concat([[-1], shape[-3:]], 0))
        flat.set_shape([None, *values.shape.as_list()[-3:]])
        means = convolution.depthwise_conv2d_native(flat, kernel, [1, 1, 1, 1], "VALID")
        return arrays.reshape(means, arrays.concat([shape[:-3], arrays.shape(means)[1:]], 0))

    c1, c2 = (k1 * peak) ** 2, (k2 * peak) ** 2
    mean_x, mean_y = blurred(x), blurred(y)
    product = mean_x * mean_y * 2.0
    squares = elementwise.square(mean_x) + elementwise.square(mean_y)
    luminance = (product + c1) / (squares + c1)
    crossed = blurred(x * y) * 2.0
    summed = blurred(elementwise.square(x) + elementwise.square(y))
    structure = (crossed - product + c2) / (summed - squares + c2)
    return (
        reduction.reduce_mean(luminance * structure, [-3, -2]),
        reduction.reduce_mean(structure, [-3, -2]),
    )
