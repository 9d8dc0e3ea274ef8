"""Sums, means, extrema over axes; positions of extrema.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/reduction/reduction.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "cumprod",
    "cumsum",
    "cumulative_logsumexp",
]


def cumsum(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Running sums along `axis`; `exclusive` starts at 0, `reverse` runs from the end.

    Args:
        x: Tensor [...] of any number.
        axis: Tensor [...] of int32 or int64.
        exclusive: Leave out the element itself.
        reverse: From the end.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Cumsum", x, axis, exclusive=exclusive, reverse=reverse, name=name)
    return result


def cumprod(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Running products along `axis`; `exclusive` starts at 1, `reverse` runs from the end.

    Args:
        x: Tensor [...] of any number.
        axis: Tensor [...] of int32 or int64.
        exclusive: Leave out the element itself.
        reverse: From the end.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("Cumprod", x, axis, exclusive=exclusive, reverse=reverse, name=name)
    return result


def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Running log(sum(exp(x))) along `axis`; `exclusive` starts at the least finite number.

    Args:
        x: Tensor [...] of any floating-point type.
        axis: Tensor [...] of int32 or int64.
        exclusive: Leave out the element itself.
        reverse: From the end.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op(
        "CumulativeLogsumexp", x, axis, exclusive=exclusive, reverse=reverse, name=name
    )
    return result
