"""Shared by ops on stacks of matrices: shape checks, and combining matrices in gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.dtypes import COMPLEX, DType, complex64, complex128, float32, float64, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, Tensor
from sparkflow_runtime.ops.elementwise.elementwise_table import conjugated
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.static import bracketed, static_rank
from sparkflow_runtime.shapes import Dim, Shape

MATRIX_TYPES: Final[frozenset[DType]] = frozenset({float32, float64, complex64, complex128})
"""The element types that LAPACK supports."""
ON_HOST: Final = {"CPU": None}
"""The kernels of ops whose library runs on the host only."""


def require_matrices(op_type: str, shape: Sequence[Dim], square: bool = False) -> None:
    """Checks that the last two dimensions are (square) matrices.

    Raises:
        InvalidArgumentError: Too few dimensions, or not square.
    """
    if len(shape) < 2:
        raise InvalidArgumentError(
            message=f"Shape must be at least rank 2 but is rank {len(shape)}: {op_type} takes "
            f"matrices, got {bracketed(shape)}"
        )
    rows, columns = shape[-2:]
    if square and None not in (rows, columns) and rows != columns:
        raise InvalidArgumentError(
            message=f"Dimensions must be equal, but are {rows} and {columns}: {op_type} takes "
            f"square matrices, got shape {bracketed(shape)}"
        )


def square_shape(op_type: str, shape: Shape) -> Shape:
    """The static shape of a stack of square matrices, with each size inferred from the other."""
    if shape is None:
        return None
    require_matrices(op_type, shape, square=True)
    size = shape[-1] if shape[-2] is None else shape[-2]
    return (*shape[:-2], size, size)


def adjoint_of(xp: Any, value: Array) -> Array:
    """The adjoint matrices."""
    turned = xp.swapaxes(value, -1, -2)
    return xp.conj(turned) if turned.dtype.kind == "c" else turned


def stacked(
    values: Sequence[Array], lead: tuple[int, ...], shape: tuple[int, ...], dtype: Any
) -> Array:
    """Stacks the results of a loop over matrices into one array."""
    result = np.empty((len(values), *shape), dtype)
    for index, value in enumerate(values):
        result[index] = value
    return result.reshape(*lead, *shape)


def multiply(
    g: GraphBuilder, x: Tensor, y: Tensor, adj_x: bool = False, adj_y: bool = False
) -> Tensor:
    """Products of matrices, either adjoint first."""
    return g.BatchMatMulV2(x, y, adj_x=adj_x, adj_y=adj_y)


def adjoint(g: GraphBuilder, x: Tensor) -> Tensor:
    """The adjoint matrices."""
    rank = static_rank(g, x)
    if rank is not None:
        order: Any = np.array([*range(rank - 2), rank - 1, rank - 2], np.int32)
    else:
        zero, one, two = (g.const(np.array(i, np.int32), int32) for i in range(3))
        count = g.Rank(x)
        last = g.Pack([g.Sub(count, one), g.Sub(count, two)])
        order = g.ConcatV2([g.Range(zero, g.Sub(count, two), one), last], zero)
    return conjugated(g, g.Transpose(x, order))


def identity_like(g: GraphBuilder, square: Tensor) -> Tensor:
    """Identity matrices in the shape of `square`."""
    return g.MatrixSetDiag(g.ZerosLike(square), g.OnesLike(g.MatrixDiagPart(square)))


def scaled(g: GraphBuilder, x: Tensor, factor: float) -> Tensor:
    """The tensor times a number."""
    dtype = x.dtype.base
    return g.Mul(x, g.const(np.array(factor, dtype.as_numpy_dtype), dtype))


def per_matrix(g: GraphBuilder, x: Tensor) -> Tensor:
    """Reshapes one number per matrix to broadcast against the matrices."""
    minus_one = np.array(-1, np.int32)
    return g.ExpandDims(g.ExpandDims(x, minus_one), minus_one)


def spread_reciprocal(g: GraphBuilder, x: Tensor) -> Tensor:
    """The matrix 1 / (x[j] - x[i]); 0 on the diagonal and for equal elements."""
    columns, rows = (g.ExpandDims(x, np.array(axis, np.int32)) for axis in (-2, -1))
    gaps = g.Sub(columns, rows)
    return g.DivNoNan(g.OnesLike(gaps), gaps)


def is_complex(x: Tensor) -> bool:
    """Whether the tensor has complex elements."""
    return x.dtype.base in COMPLEX
