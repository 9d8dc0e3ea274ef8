"""Brightness, contrast and colours of images, and their dtypes.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/image/color.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "hsv_to_rgb",
    "rgb_to_hsv",
]


def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Hue, saturation and value of colours in [0, 1].

    Args:
        images: Tensor of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `images`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("RGBToHSV", images, name=name)
    return result


def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """The inverse of `rgb_to_hsv`.

    Args:
        images: Tensor of any floating-point type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `images`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("HSVToRGB", images, name=name)
    return result
