"""Decompositions and functions of matrices.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/linalg/decompositions.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "cholesky",
    "expm",
    "logm",
    "matrix_square_root",
]


def cholesky(input: Any, name: str | None = None) -> Tensor:
    """The lower triangular L with L L' = input, for positive definite [..., n, n] matrices.

    Args:
        input: Tensor [..., n, n] of any complex type, float32 or float64.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("Cholesky", input, name=name)
    return result


def expm(input: Any, name: str | None = None) -> Tensor:
    """The exponentials of matrices: I + A + A²/2! + A³/3! + ...

    Args:
        input: Tensor [..., n, n] of any complex type, float32 or float64.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("MatrixExponential", input, name=name)
    return result


def logm(input: Any, name: str | None = None) -> Tensor:
    """The principal logarithms of complex matrices.

    Args:
        input: Tensor [..., n, n] of any complex type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("MatrixLogarithm", input, name=name)
    return result


def matrix_square_root(input: Any, name: str | None = None) -> Tensor:
    """The principal square roots of matrices.

    Args:
        input: Tensor [..., n, n] of any complex type, float32 or float64.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("MatrixSquareRoot", input, name=name)
    return result
