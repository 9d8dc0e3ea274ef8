"""Resizing, cropping, padding, turning and mirroring images.

Images are [height, width, channels], or [batch, height, width, channels].

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/image/geometry.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "resize_area",
    "resize_bicubic",
    "resize_bilinear",
    "resize_nearest_neighbor",
]


def resize_bilinear(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Images [batch, height, width, channels] in another size: means of four pixels, float32.

    Args:
        images: Real numbers.
        size: [height, width] int32.
        align_corners: Whether the corners' pixels stay where they are.
        name: Name of the node.
        half_pixel_centers: Whether pixels are meant to lie at half numbers.

    Returns:
        A float32 tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "ResizeBilinear",
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )
    return result


def resize_nearest_neighbor(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """As `resize_bilinear`, each pixel one of the input's, of the same dtype.

    Args:
        images: Tensor of rank 4 of any real number.
        size: Vector of int32.
        align_corners: The centres of the corner pixels stay where they are.
        name: Name of the node.
        half_pixel_centers: Pixels are areas, sampled at their centres.

    Returns:
        A tensor of the dtype of `images`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "ResizeNearestNeighbor",
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )
    return result


def resize_bicubic(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """As `resize_bilinear`, by cubic interpolation of sixteen pixels.

    Args:
        images: Tensor of rank 4 of any real number.
        size: Vector of int32.
        align_corners: The centres of the corner pixels stay where they are.
        name: Name of the node.
        half_pixel_centers: Pixels are areas, sampled at their centres.

    Returns:
        A float32 tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "ResizeBicubic",
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )
    return result


def resize_area(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None
) -> Tensor:
    """As `resize_bilinear`, each pixel the mean of the area it covers; there is no gradient.

    Args:
        images: Tensor of rank 4 of any real number.
        size: Vector of int32.
        align_corners: The centres of the corner pixels stay where they are.
        name: Name of the node.

    Returns:
        A float32 tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("ResizeArea", images, size, align_corners=align_corners, name=name)
    return result
