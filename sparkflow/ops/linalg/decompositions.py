"""Decompositions and functions of matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.linalg.decompositions import *  # noqa: F403
from sparkflow._generated.ops.linalg.decompositions import matrix_square_root
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.comparison import where_v2
from sparkflow.ops.elementwise.elementwise import cast, reciprocal
from sparkflow.ops.linalg import diagonals, linear_systems
from sparkflow.ops.linalg.linalg import matmul
from sparkflow.ops.reduction import reduction
from sparkflow.ops.shape import arrays
from sparkflow_runtime.dtypes import as_dtype, int32


class Qr(NamedTuple):
    """Orthogonal q and upper triangular r."""

    q: Tensor
    r: Tensor


@export("qr", "linalg.qr")
def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> Qr:
    """Orthogonal q and upper triangular r with q r = input."""
    return Qr(*apply_op("Qr", input, full_matrices=full_matrices, name=name))


@export("svd", "linalg.svd")
def svd(
    tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None
) -> Any:
    """Singular values (largest first) and vectors: tensor = u diag(s) v'.

    Args:
        tensor: [..., m, n].
        full_matrices: Square u and v.
        compute_uv: False for the values alone.
        name: Name of the node.

    Returns:
        (s, u, v), or s alone; real where the tensor is complex.
    """
    matrix = convert_to_tensor(tensor, name="input")
    attrs = {"compute_uv": compute_uv, "full_matrices": full_matrices}
    s, u, v = apply_op("Svd", matrix, name=name, **attrs)
    s = _real(s)
    return (s, u, v) if compute_uv else s


def _real(values: Tensor) -> Tensor:
    if not values.dtype.is_complex:
        return values
    kind = as_dtype("float32" if values.dtype.name == "complex64" else "float64")
    return output_of("Real", values, Tout=kind)


@export("self_adjoint_eig", "linalg.eigh")
def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues in ascending order and eigenvectors as columns, of self-adjoint matrices."""
    values, vectors = apply_op("SelfAdjointEigV2", tensor, compute_v=True, name=name)
    return values, vectors


@export("self_adjoint_eigvals", "linalg.eigvalsh")
def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Eigenvalues in ascending order of self-adjoint matrices."""
    values: Tensor = apply_op("SelfAdjointEigV2", tensor, compute_v=False, name=name)[0]
    return values


class Lu(NamedTuple):
    """Both triangular factors in one matrix, and the order of the rows."""

    lu: Tensor
    p: Tensor


@export("linalg.lu")
def lu(input: Any, output_idx_type: Any = int32, name: str | None = None) -> Lu:
    """The factors L (with ones on the diagonal) and U, and p, with L U = input[p]."""
    return Lu(*apply_op("Lu", input, output_idx_type=as_dtype(output_idx_type), name=name))


def _factors(lower_upper: Tensor) -> tuple[Tensor, Tensor]:
    upper = diagonals.matrix_band_part(lower_upper, 0, -1)
    below = diagonals.matrix_band_part(lower_upper, -1, 0)
    main = diagonals.matrix_diag_part(lower_upper)
    return diagonals.matrix_set_diag(below, apply_op("OnesLike", main)), upper


def _rows(matrix: Tensor, order: Tensor) -> Tensor:
    """The rows of every matrix in the given order."""
    rank = order.shape.ndims
    if rank == 1:
        return arrays.gather(matrix, order, axis=-2)
    count = None if rank is None else rank - 1
    if count is None:
        raise ValueError("The permutation must have a known rank")
    return arrays.gather(matrix, order, axis=count, batch_dims=count)


def _inverted(order: Tensor) -> Tensor:
    size = arrays.shape(order)[-1]
    _, found = apply_op("TopKV2", apply_op("Neg", order), size)
    result: Tensor = found
    return result


@export("linalg.lu_reconstruct")
def lu_reconstruct(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The matrix that `lu` was given."""
    graph = graph_of((lower_upper, perm))
    with graph.as_default(), graph.name_scope(name or "lu_reconstruct"):
        factors = convert_to_tensor(lower_upper, name="lower_upper")
        order = convert_to_tensor(perm, int32, "perm")
        lower, upper = _factors(factors)
        return _rows(matmul(lower, upper), _inverted(order))


@export("linalg.lu_solve")
def lu_solve(
    lower_upper: Any, perm: Any, rhs: Any, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The solution of the system whose matrix `lu` was given."""
    graph = graph_of((lower_upper, perm, rhs))
    with graph.as_default(), graph.name_scope(name or "lu_solve"):
        factors = convert_to_tensor(lower_upper, name="lower_upper")
        order = convert_to_tensor(perm, int32, "perm")
        side = convert_to_tensor(rhs, factors.dtype.base, "rhs")
        lower, upper = _factors(factors)
        inner = linear_systems.matrix_triangular_solve(lower, _rows(side, order))
        return linear_systems.matrix_triangular_solve(upper, inner, lower=False)


@export("linalg.lu_matrix_inverse")
def lu_matrix_inverse(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The inverse of the matrix that `lu` was given."""
    graph = graph_of((lower_upper, perm))
    with graph.as_default(), graph.name_scope(name or "lu_matrix_inverse"):
        factors = convert_to_tensor(lower_upper, name="lower_upper")
        main = diagonals.matrix_diag_part(factors)
        identity = diagonals.matrix_set_diag(
            apply_op("ZerosLike", factors), apply_op("OnesLike", main)
        )
        return lu_solve(factors, perm, identity)


sqrtm = matrix_square_root


@export("linalg.pinv")
def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The Moore-Penrose pseudo-inverses of matrices.

    Args:
        a: [..., m, n] real.
        rcond: Singular values below this times the largest count as 0; 10 max(m, n) eps when None.
        validate_args: Accepted.
        name: Name of the scope.

    Raises:
        TypeError: `a` is not of floating point.
        ValueError: `a` has fewer than two dimensions.
    """
    graph = graph_of((a, rcond))
    with graph.as_default(), graph.name_scope(name or "pinv"):
        matrix = convert_to_tensor(a, name="a")
        if not matrix.dtype.is_floating:
            raise TypeError(f"Input `a` must have `float`-like `dtype` (saw {matrix.dtype.name}).")
        if matrix.shape.ndims is not None and matrix.shape.ndims < 2:
            raise ValueError(
                f"Input `a` must have at least 2 dimensions (saw: {matrix.shape.ndims})."
            )
        kind = matrix.dtype.base
        if rcond is None:
            sizes = arrays.shape(matrix)[-2:]
            epsilon = 10.0 * float(np.finfo(kind.as_numpy_dtype).eps)
            cutoff = cast(reduction.reduce_max(sizes), kind) * epsilon
        else:
            cutoff = convert_to_tensor(rcond, kind, "rcond")
        s, u, v = svd(matrix)
        cutoff = cutoff * reduction.reduce_max(s, axis=-1)
        infinite = convert_to_tensor(np.array(np.inf, kind.as_numpy_dtype))
        kept = where_v2(s > arrays.expand_dims(cutoff, -1), s, infinite)
        scaled = v * arrays.expand_dims(reciprocal(kept), -2)
        result = matmul(scaled, u, adjoint_b=True)
        static = matrix.shape
        if static.ndims is not None:
            result.set_shape(static[:-2].concatenate([static[-1], static[-2]]))
        return result


@export("linalg.matrix_rank")
def matrix_rank(
    a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """How many singular values are above `tol` (None: max(m, n) eps times the largest)."""
    graph = graph_of((a, tol))
    with graph.as_default(), graph.name_scope(name or "matrix_rank"):
        matrix = convert_to_tensor(a, name="a")
        s = svd(matrix, compute_uv=False)
        if tol is None:
            if matrix.shape[-2:].is_fully_defined():
                longest: Any = max(matrix.shape[-2:].as_list())
            else:
                longest = cast(reduction.reduce_max(arrays.shape(matrix)[-2:]), s.dtype)
            epsilon = float(np.finfo(matrix.dtype.as_numpy_dtype).eps)
            tol = epsilon * longest * reduction.reduce_max(s, axis=-1, keepdims=True)
        return reduction.reduce_sum(cast(s > tol, int32), axis=-1)
