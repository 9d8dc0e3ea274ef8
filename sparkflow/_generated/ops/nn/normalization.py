"""Moments, batch normalisation in one op or in many, local response normalisation.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/nn/normalization.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "local_response_normalization",
]


def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1,
    alpha: float = 1,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Images divided by (bias + alpha · Σ of the squares of the channels around)^beta.

    Args:
        input: Tensor of rank 4 of any floating-point type.
        depth_radius: How many channels to either side.
        bias: What is added, so that nothing is divided by 0.
        alpha: A number.
        beta: The exponent.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "LRN", input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name
    )
    return result
