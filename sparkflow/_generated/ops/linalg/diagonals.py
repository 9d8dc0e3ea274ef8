"""Diagonals, bands, transposes and traces of the matrices in the last two dimensions.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/linalg/diagonals.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "diag",
    "diag_part",
    "matrix_band_part",
    "matrix_set_diag",
]


def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """A tensor of twice the rank with `diagonal` on its diagonal and 0 elsewhere.

    Args:
        diagonal: Tensor of rank 1 or more of any floating-point type, any complex type, int32 or
            int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `diagonal`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("Diag", diagonal, name=name)
    return result


def diag_part(input: Any, name: str | None = None) -> Tensor:
    """The diagonal of a tensor whose shape is some shape twice.

    Args:
        input: Tensor [..., n, n] of any floating-point type, any complex type, int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("DiagPart", input, name=name)
    return result


def matrix_set_diag(
    input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """The matrices `input` with other diagonals, arguments as for `matrix_diag`.

    Args:
        input: Tensor of rank 2 or more of any type.
        diagonal: Tensor [...] of the dtype of `input`.
        name: Name of the node.
        k: Tensor [...] of int32.
        align: One of `LEFT_LEFT`, `LEFT_RIGHT`, `RIGHT_LEFT`, `RIGHT_RIGHT`.

    Returns:
        A tensor with the shape and dtype of `input`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("MatrixSetDiagV3", input, diagonal, k, align=align, name=name)
    return result


def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """The matrices with zeros outside a band of `num_lower` and `num_upper` diagonals (-1: all).

    Args:
        input: Tensor of rank 2 or more of any type.
        num_lower: Scalar of int32 or int64.
        num_upper: Scalar of the dtype of `num_lower`.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `input`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("MatrixBandPart", input, num_lower, num_upper, name=name)
    return result
