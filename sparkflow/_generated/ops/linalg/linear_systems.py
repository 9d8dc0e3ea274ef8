"""Inverses, determinants and linear systems.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/linalg/linear_systems.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "matrix_determinant",
    "matrix_inverse",
    "matrix_solve",
    "matrix_triangular_solve",
    "slogdet",
]


def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverses of matrices, or of their adjoints.

    Args:
        input: Tensor [..., n, n] of any complex type, float32 or float64.
        adjoint: Take the adjoint of the matrix instead.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("MatrixInverse", input, adjoint=adjoint, name=name)
    return result


def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """The determinants of matrices.

    Args:
        input: Tensor [..., n, n] of any complex type, float32 or float64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("MatrixDeterminant", input, name=name)
    return result


def slogdet(input: Any, name: str | None = None) -> Any:
    """(sign, log_abs_determinant) of matrices.

    Args:
        input: Tensor [..., n, n] of any complex type, float32 or float64.
        name: Name of the node.

    Returns:
        A tuple of `sign`, `log_abs_determinant`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Any = apply_op("LogMatrixDeterminant", input, name=name)
    return result


def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """x with `matrix x = rhs`, or with the adjoint of the matrix.

    Args:
        matrix: [..., n, n]. Any complex type, float32 or float64.
        rhs: [..., n, k]. The dtype of `matrix`.
        adjoint: Solve with the adjoint.
        name: Name of the node.

    Returns:
        A tensor of the shape of `rhs` and the dtype of `matrix`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("MatrixSolve", matrix, rhs, adjoint=adjoint, name=name)
    return result


def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """x with `matrix x = rhs`, reading only the lower (or upper) triangle of the matrix.

    Args:
        matrix: Tensor [..., n, n] of any complex type, float32 or float64.
        rhs: Tensor of rank 2 or more of the dtype of `matrix`.
        lower: Read the lower triangle, or the upper one.
        adjoint: Take the adjoint of the matrix instead.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `matrix`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "MatrixTriangularSolve", matrix, rhs, lower=lower, adjoint=adjoint, name=name
    )
    return result
