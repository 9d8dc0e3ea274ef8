"""Boxes drawn into images and drawn at random, glimpses of images, boxes chosen by class.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/image/sampling.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "extract_glimpse",
]


def extract_glimpse(
    input: Any,
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:
    """A window of each image around an offset; noise where it leaves the image.

    Args:
        input: [batch, height, width, channels] float32.
        size: [height, width] int32 of the window.
        offsets: [batch, 2] float32: y, x of the window.
        centered: Whether offsets count from the middle of the image.
        normalized: Whether offsets are parts of the image's size (centred: of half of it).
        uniform_noise: Uniform noise, or normal noise of the images' mean and deviation.
        name: Name of the node.

    Returns:
        A float32 tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "ExtractGlimpse",
        input,
        size,
        offsets,
        centered=centered,
        normalized=normalized,
        uniform_noise=uniform_noise,
        name=name,
    )
    return result
