"""Convolution and pooling over images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.spelling import either


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """The convolution of images with filters.

    Args:
        input: [batch, height, width, channels], or `NCHW` as `data_format` says.
        filter: [height, width, in channels, out channels].
        filters: [height, width, in channels, out channels].
        strides: One per dimension of `input`; or one or two for height and width.
        padding: `SAME` (zeros around, output of size ceil(size / stride)) or `VALID` (none).
        use_cudnn_on_gpu: Accepted for TensorFlow's sake.
        data_format: `NHWC` or `NCHW`.
        dilations: The distance of the filter's elements, one per dimension.
        name: Name of the node.

    Returns:
        [batch, out height, out width, out channels], or `NCHW`.

    Raises:
        ValueError: Channels or sizes do not fit.
    """
    result: Tensor = apply_op(
        "Conv2D",
        input,
        either("filters", filters, "filter", filter),
        strides=_per_dimension(strides, data_format),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        padding=padding,
        data_format=data_format,
        dilations=_per_dimension(dilations, data_format),
        name=name,
    )
    return result


def max_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The largest element of every window; arguments as for `conv2d`."""
    return _pool(
        "MaxPool",
        either("value", value, "input", input),
        ksize,
        strides,
        padding,
        data_format,
        name,
    )


def avg_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The mean of every window, without the padding; arguments as for `conv2d`."""
    return _pool(
        "AvgPool",
        either("value", value, "input", input),
        ksize,
        strides,
        padding,
        data_format,
        name,
    )


def _pool(
    op_type: str,
    value: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str,
    name: str | None,
) -> Tensor:
    result: Tensor = apply_op(
        op_type,
        value,
        ksize=_per_dimension(ksize, data_format),
        strides=_per_dimension(strides, data_format),
        padding=padding,
        data_format=data_format,
        name=name,
    )
    return result


def _per_dimension(sizes: Any, data_format: str) -> list[int]:
    """Four sizes from one, two (height, width) or four."""
    given = [sizes] if isinstance(sizes, int) else list(sizes)
    if len(given) == 4:
        return given
    if len(given) not in (1, 2):
        raise ValueError(f"Expected 1, 2 or 4 sizes, got {sizes!r}")
    height, width = given[0], given[-1]
    return [1, 1, height, width] if data_format.startswith("NC") else [1, height, width, 1]
