"""Convolution over one, two and three dimensions, plain, depthwise and separable.

Transposed convolutions are in `transposed_convolution`, pooling in `pooling`.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/convolution/convolution.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "conv3d_backprop_filter",
]


def conv3d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    dilations: Sequence[int] = (1, 1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv3d` with respect to its filter, of the shape `filter_sizes`.

    Args:
        input: Tensor of any floating-point type.
        filter_sizes: Tensor of int32.
        out_backprop: Tensor of the dtype of `input`.
        strides: 5 or more of them.
        padding: One of `SAME`, `VALID`.
        data_format: One of `NCDHW`, `NDHWC`.
        dilations: The distance of the filter's elements, per dimension of the images.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "Conv3DBackpropFilterV2",
        input,
        filter_sizes,
        out_backprop,
        strides=list(strides),
        padding=padding,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
    )
    return result
