"""Arithmetic on sparse tensors: sums, products, reductions, softmax, distances.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/sparse/sparse_math.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "sparse_matmul",
]


def sparse_matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of two dense matrices of which one may be mostly zero.

    Args:
        a: Matrix of float32 or bfloat16.
        b: Matrix of float32 or bfloat16.
        transpose_a: Transpose the first matrix.
        transpose_b: Transpose the second matrix.
        a_is_sparse: Most of the first matrix is 0; a hint only.
        b_is_sparse: Most of the second matrix is 0; a hint only.
        name: Name of the node.

    Returns:
        A float32 tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "SparseMatMul",
        a,
        b,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        a_is_sparse=a_is_sparse,
        b_is_sparse=b_is_sparse,
        name=name,
    )
    return result
