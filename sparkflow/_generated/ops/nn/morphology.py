"""Dilation and erosion of images, and the extraction of patches.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/nn/morphology.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "extract_volume_patches",
]


def extract_volume_patches(
    input: Any, ksizes: Any, strides: Any, padding: str, name: str | None = None
) -> Tensor:
    """As `extract_image_patches` for volumes [batch, depth, height, width, channels].

    Args:
        input: Tensor of any type.
        ksizes: 5 or more of them.
        strides: 5 or more of them.
        padding: One of `SAME`, `VALID`.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "ExtractVolumePatches",
        input,
        ksizes=list(ksizes),
        strides=list(strides),
        padding=padding,
        name=name,
    )
    return result
