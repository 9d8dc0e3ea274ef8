"""Looking at values while a step runs: assertions, prints and checks for infinity.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/control/debugging.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "check_numerics",
]


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """`tensor`, an error that begins with `message` where it is infinite or not a number.

    Args:
        tensor: Tensor [...] of any floating-point type.
        message: What the error begins with.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `tensor`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("CheckNumerics", tensor, message=message, name=name)
    return result
