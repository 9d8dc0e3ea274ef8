"""Constants, placeholders and tensors of one value.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/shape/constants.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.shapes.tensor_shape import to_shape
from sparkflow.graph.tensor import Tensor

__all__ = [
    "fill",
    "lin_space",
    "placeholder_with_default",
]


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """A tensor that may be fed, and is `input` otherwise.

    Args:
        input: Tensor of any type.
        shape: The static shape, sizes None where unknown.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("PlaceholderWithDefault", input, shape=to_shape(shape), name=name)
    return result


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of shape `dims` with `value` everywhere.

    Args:
        dims: Vector of int32 or int64.
        value: Scalar of any type.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `value`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("Fill", dims, value, name=name)
    return result


def lin_space(start: Any, stop: Any, num: Any, name: str = "linspace") -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, both included.

    Args:
        start: Scalar of any floating-point type.
        stop: Scalar of the dtype of `start`.
        num: Scalar of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `start`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("LinSpace", start, stop, num, name=name)
    return result
