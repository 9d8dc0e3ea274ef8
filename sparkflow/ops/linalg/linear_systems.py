"""Inverses, determinants and linear systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.linalg.linear_systems import *  # noqa: F403
from sparkflow._generated.ops.linalg.linear_systems import matrix_triangular_solve
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.elementwise import log
from sparkflow.ops.linalg import diagonals
from sparkflow.ops.reduction import reduction
from sparkflow.ops.shape import arrays
from sparkflow_runtime.dtypes import as_dtype, float64


@export("linalg.logdet")
def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """The logarithm of the determinants of positive definite matrices."""
    graph = graph_of((matrix,))
    with graph.as_default(), graph.name_scope(name or "logdet"):
        factor = apply_op("Cholesky", matrix)
        main = diagonals.matrix_diag_part(factor)
        if factor.dtype.is_complex:
            kind = as_dtype("float32" if factor.dtype.name == "complex64" else "float64")
            main = apply_op("Real", main, Tout=kind)
        return 2.0 * reduction.reduce_sum(log(main), axis=[-1])


@export("cholesky_solve", "linalg.cholesky_solve")
def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """X with `A x = rhs`, given the factor `cholesky(A)`."""
    graph = graph_of((chol, rhs))
    with graph.as_default(), graph.name_scope(name or "cholesky_solve"):
        inner = matrix_triangular_solve(chol, rhs, adjoint=False, lower=True)
        return matrix_triangular_solve(chol, inner, adjoint=True, lower=True)


@export("matrix_solve_ls", "linalg.lstsq")
def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """X that minimises |matrix x - rhs|² + l2_regularizer |x|².

    Args:
        matrix: [..., m, n].
        rhs: [..., m, k].
        l2_regularizer: A number >= 0.
        fast: Use the normal equations; False for a slower method that stands rank deficiency, and
            ignores the regularizer.
        name: Name of the node.
    """
    graph = graph_of((matrix, rhs))
    with graph.as_default():
        strength = convert_to_tensor(l2_regularizer, float64, "l2_regularizer")
        return output_of("MatrixSolveLs", matrix, rhs, strength, fast=fast, name=name)


def _compact(diagonals_: Any, form: str) -> Tensor:
    """Tridiagonal matrices as [..., 3, m].

    Raises:
        ValueError: Another form, or shapes that do not fit it.
    """
    if form == "compact":
        return convert_to_tensor(diagonals_, name="diagonals")
    if form == "sequence":
        if not isinstance(diagonals_, list | tuple) or len(diagonals_) != 3:
            raise ValueError("Expected diagonals to be a sequence of length 3.")
        rows = [convert_to_tensor(each) for each in diagonals_]
        size = rows[1].shape.as_list()[-1]
        padded = []
        for row, side in zip(rows, ((0, 1), (0, 0), (1, 0)), strict=True):
            length = row.shape.as_list()[-1]
            if length == size or side == (0, 0):
                padded.append(row)
                continue
            if length is not None and size is not None and length != size - 1:
                raise ValueError(
                    f"Expected a diagonal of length {size} or {size - 1}, got {length}"
                )
            widths = [[0, 0]] * (len(row.shape.as_list()) - 1) + [list(side)]
            padded.append(arrays.pad(row, np.array(widths, np.int32)))
        return arrays.stack(padded, axis=-2)
    if form == "matrix":
        matrix = convert_to_tensor(diagonals_, name="diagonals")
        sizes = matrix.shape.as_list()[-2:]
        if None not in sizes and sizes[0] != sizes[1]:
            raise ValueError(
                "Expected last two dimensions of diagonals to be same, got "
                f"{sizes[0]} and {sizes[1]}"
            )
        return diagonals.matrix_diag_part(matrix, k=(-1, 1), align="LEFT_RIGHT")
    raise ValueError(f"Unrecognized diagonals_format: {form}")


@export("linalg.tridiagonal_solve")
def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """X with `A x = rhs` for tridiagonal matrices.

    Args:
        diagonals: [..., 3, m] (superdiagonal, diagonal, subdiagonal) for `compact`, three tensors
            for `sequence`, [..., m, m] for `matrix`.
        rhs: [..., m] or [..., m, k].
        diagonals_format: `compact`, `sequence` or `matrix`.
        transpose_rhs: Transpose the right-hand side first.
        conjugate_rhs: Conjugate it first.
        name: Name of the scope.
        partial_pivoting: Accepted; rows are always exchanged where that is more exact.
        perturb_singular: Accepted; singular matrices are refused.

    Raises:
        ValueError: Another format, or ranks that do not fit.
    """
    graph = graph_of((diagonals, rhs))
    with graph.as_default(), graph.name_scope(name or "tridiagonal_solve"):
        bands = _compact(diagonals, diagonals_format)
        side = convert_to_tensor(rhs, bands.dtype.base, "rhs")
        is_vector = _is_vector(bands, side)
        if is_vector:
            side = arrays.expand_dims(side, -1)
        if conjugate_rhs and side.dtype.is_complex:
            side = apply_op("Conj", side)
        if transpose_rhs and not is_vector:
            side = _transposed(side)
        result: Tensor = apply_op(
            "TridiagonalSolve",
            bands,
            side,
            partial_pivoting=partial_pivoting,
            perturb_singular=perturb_singular,
        )
        return arrays.squeeze(result, [-1]) if is_vector else result


def _is_vector(bands: Tensor, side: Tensor) -> bool:
    ranks = bands.shape.ndims, side.shape.ndims
    if ranks[0] is None or ranks[1] is None:
        raise ValueError("Expected diagonals and rhs to have known ranks")
    if ranks[0] < 2:
        raise ValueError(f"Expected diagonals to have rank at least 2, got {ranks[0]}")
    if ranks[1] not in (ranks[0], ranks[0] - 1):
        raise ValueError(
            f"Expected the rank of rhs to be {ranks[0] - 1} or {ranks[0]}, got {ranks[1]}"
        )
    return ranks[1] == ranks[0] - 1


def _transposed(matrix: Tensor) -> Tensor:
    order: Sequence[int] = [*range(len(matrix.shape) - 2), len(matrix.shape) - 1]
    return arrays.transpose(matrix, [*order, len(matrix.shape) - 2])


@export("linalg.tridiagonal_matmul")
def tridiagonal_matmul(
    diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: str | None = None
) -> Tensor:
    """The products of tridiagonal matrices with `rhs` [..., m, k]; formats as when solving.

    Raises:
        ValueError: Another format.
    """
    graph = graph_of((diagonals, rhs))
    with graph.as_default(), graph.name_scope(name or "tridiagonal_matmul"):
        bands = _compact(diagonals, diagonals_format)
        side = convert_to_tensor(rhs, bands.dtype.base, "rhs")
        upper, middle, lower = (
            arrays.expand_dims(each, -1) for each in arrays.unstack(bands, 3, axis=-2)
        )
        zero = apply_op("ZerosLike", side[..., :1, :])
        after = arrays.concat([side[..., 1:, :], zero], -2)
        before = arrays.concat([zero, side[..., :-1, :]], -2)
        return upper * after + middle * side + lower * before
