"""Cholesky, QR, LU, singular values, eigenvalues; functions of matrices."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.systems.factorisation import cholesky
from sparkflow_runtime.dtypes import COMPLEX, INDEX, DType, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.linalg.matrices import (
    MATRIX_TYPES,
    ON_HOST,
    adjoint,
    adjoint_of,
    identity_like,
    is_complex,
    multiply,
    require_matrices,
    scaled,
    spread_reciprocal,
    square_shape,
    stacked,
)
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.static import every_gradient
from sparkflow_runtime.shapes import Dim, Shape


def _linalg() -> Any:
    """SciPy's linear algebra, imported when first used: it takes 0.25 s (2026-11-21)."""
    return importlib.import_module("scipy.linalg")


_T = type_attr(MATRIX_TYPES)


def _lower(g: GraphBuilder, x: Tensor) -> Tensor:
    return g.MatrixBandPart(x, np.array(-1, np.int64), np.array(0, np.int64))


def _factor(matrices: Array) -> Array | None:
    """Cholesky factors; None if a matrix is not positive definite."""
    if matrices.size:
        stacked = np.ascontiguousarray(matrices).reshape(-1, *matrices.shape[-2:])
        quick = cholesky(stacked)
        if quick is not None:
            factors, is_done = quick
            return factors.reshape(matrices.shape) if is_done else None
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return None


@register
class Cholesky(Op):
    """The lower triangular L with L L' = input; the upper triangle is ignored."""

    inputs = "input: T"
    outputs = "output: T"
    attrs = {"T": _T}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        return [square_shape(self.op_type, node.shapes[0])]

    def compute(self, xp: Any, value: Array) -> Array:
        """The factors.

        Raises:
            InvalidArgumentError: A matrix is not square, or not positive definite.
        """
        require_matrices(self.op_type, value.shape, square=True)
        factor = _factor(value)
        if factor is None:
            raise InvalidArgumentError(
                message="Cholesky decomposition was not successful. The input might not be valid."
            )
        return factor

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """L'^-1 Phi(L' dy) L^-1, symmetrised (Murray, arXiv:1602.07527, equation 8)."""
        factor = op.outputs[0]
        inverse = g.MatrixTriangularSolve(factor, identity_like(g, factor))
        middle = multiply(g, factor, dy, adj_x=True)
        halved = g.MatrixSetDiag(middle, scaled(g, g.MatrixDiagPart(middle), 0.5))
        inner = multiply(g, inverse, _lower(g, halved), adj_x=True)
        result = multiply(g, inner, inverse)
        return [scaled(g, g.Add(result, adjoint(g, result)), 0.5)]


@register
class Qr(Op):
    """Orthogonal Q and upper triangular R with Q R = input."""

    inputs = "input: T"
    outputs = "q: T, r: T"
    attrs = {"full_matrices": bool_attr(False), "T": _T}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(..., m, k) and (..., k, n), k being min(m, n), or m for full matrices."""
        shape = node.shapes[0]
        if shape is None:
            return [None, None]
        require_matrices(self.op_type, shape)
        rows, columns = shape[-2:]
        inner = rows if node.attrs["full_matrices"] else _least(rows, columns)
        return [(*shape[:-2], rows, inner), (*shape[:-2], inner, columns)]

    def compute(self, xp: Any, value: Array, *, full_matrices: bool) -> tuple[Array, Array]:
        """(q, r)."""
        require_matrices(self.op_type, value.shape)
        q, r = np.linalg.qr(value, "complete" if full_matrices else "reduced")
        return np.asarray(q, value.dtype), np.asarray(r, value.dtype)

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> Sequence[Tensor]:
        """For wide matrices too (Roberts and Roberts, arXiv:2009.10071).

        Raises:
            NotImplementedError: For complex matrices; for full matrices with more rows.
        """
        a, (q, r) = op.inputs[0], op.outputs
        shape = g.shape(a)
        if is_complex(a):
            raise NotImplementedError("The gradient of Qr is not defined for complex matrices")
        tall = shape is None or None in shape[-2:] or shape[-2] > shape[-1]  # type: ignore[operator]  # None is tested before
        if op.attr("full_matrices") and tall:
            raise NotImplementedError(
                "QrGrad is not defined when full_matrices is true and there are more rows than "
                "columns"
            )
        dq, dr = every_gradient(g, op, grads)
        # The columns beyond the square part are Q times an unconstrained matrix.
        rest_of_a, rest_of_dr = (_columns(g, each, q, beyond=True) for each in (a, dr))
        square, d_square = (_columns(g, each, q, beyond=False) for each in (r, dr))
        dq = g.Add(dq, multiply(g, rest_of_a, rest_of_dr, adj_y=True))
        first = _deep_qr_gradient(g, q, square, dq, d_square)
        return [g.ConcatV2([first, multiply(g, q, rest_of_dr)], np.array(-1, np.int32))]


def _least(rows: Dim, columns: Dim) -> Dim:
    return None if rows is None or columns is None else min(rows, columns)


def _columns(g: GraphBuilder, x: Tensor, like: Tensor, beyond: bool) -> Tensor:
    """The first columns of x, as many as `like` has; or those beyond."""
    count = g.StridedSlice(
        g.Shape(like), *(np.array([i], np.int32) for i in (-1, 0, 1)), end_mask=1
    )
    zeros, ones = np.array([0, 0], np.int32), np.array([1, 1], np.int32)
    bound = g.ConcatV2([g.const(zeros[:1], int32), count], np.array(0, np.int32))
    if beyond:
        return g.StridedSlice(
            x, bound, np.array([0, 0], np.int32), ones, ellipsis_mask=1, end_mask=2
        )
    return g.StridedSlice(x, np.array([0, 0], np.int32), bound, ones, ellipsis_mask=1, begin_mask=2)


def _deep_qr_gradient(g: GraphBuilder, q: Tensor, r: Tensor, dq: Tensor, dr: Tensor) -> Tensor:
    q_dq, r_dr = multiply(g, q, dq, adj_x=True), multiply(g, r, dr, adj_y=True)
    skew = g.Add(g.Sub(q_dq, adjoint(g, q_dq)), g.Sub(r_dr, adjoint(g, r_dr)))

    def over_r(x: Tensor) -> Tensor:  # x R'^-1
        return adjoint(g, g.MatrixTriangularSolve(r, adjoint(g, x), lower=False))

    inside = multiply(g, q, g.Add(dr, over_r(_lower(g, skew))))
    outside = over_r(g.Sub(dq, multiply(g, q, q_dq)))
    return g.Add(inside, outside)


@register
class Svd(Op):
    """Singular values, largest first, and singular vectors: input = U diag(s) V'."""

    inputs = "input: T"
    outputs = "s: T, u: T, v: T"
    attrs = {"compute_uv": bool_attr(True), "full_matrices": bool_attr(False), "T": _T}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(..., k), (..., m, k), (..., n, k); full: (..., m, m), (..., n, n); else (0,)."""
        shape = node.shapes[0]
        if shape is None:
            return [None, None, None] if node.attrs["compute_uv"] else [None, (0,), (0,)]
        require_matrices(self.op_type, shape)
        *lead, rows, columns = shape
        inner = _least(rows, columns)
        if not node.attrs["compute_uv"]:
            return [(*lead, inner), (0,), (0,)]
        full = node.attrs["full_matrices"]
        return [
            (*lead, inner),
            (*lead, rows, rows if full else inner),
            (*lead, columns, columns if full else inner),
        ]

    def compute(
        self, xp: Any, value: Array, *, compute_uv: bool, full_matrices: bool
    ) -> tuple[Array, Array, Array]:
        """(s, u, v)."""
        require_matrices(self.op_type, value.shape)
        dtype = value.dtype
        if not compute_uv:
            s = np.linalg.svd(value, compute_uv=False)
            return s.astype(dtype), np.zeros(0, dtype), np.zeros(0, dtype)
        u, s, vh = np.linalg.svd(value, full_matrices=full_matrices)
        return s.astype(dtype), u.astype(dtype), adjoint_of(np, vh).astype(dtype)

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> Sequence[Tensor]:
        """Townsend, "Differentiating the Singular Value Decomposition" (2016).

        Raises:
            NotImplementedError: For the vectors of complex matrices, and for full matrices that
                are not known to be square.
        """
        a = op.inputs[0]
        ds, du, dv = grads
        if not op.attr("compute_uv"):
            _, u, v = g.Svd(a)
            assert ds is not None
            return [multiply(g, multiply(g, u, g.MatrixDiag(ds)), v, adj_y=True)]
        shape = g.shape(a)
        is_square = shape is not None and shape[-1] == shape[-2] is not None
        if is_complex(a) or (op.attr("full_matrices") and not is_square):
            raise NotImplementedError(
                "SVD gradient is not defined for complex matrices, nor for full_matrices=True "
                "unless the matrices are known to be square"
            )
        s, u, v = op.outputs
        ds, du, dv = every_gradient(g, op, (ds, du, dv))
        values = g.MatrixDiag(s)
        inverse = g.MatrixDiag(g.DivNoNan(g.OnesLike(s), s))
        spread = spread_reciprocal(g, g.Square(s))

        def turning(x: Tensor, dx: Tensor) -> Tensor:
            turned = g.Mul(spread, multiply(g, x, dx, adj_x=True))
            return g.Add(turned, adjoint(g, turned))

        middle = g.AddN(
            [
                multiply(g, turning(u, du), values),
                multiply(g, values, turning(v, dv)),
                g.MatrixDiag(ds),
            ]
        )
        u_beside = g.Sub(du, multiply(g, u, multiply(g, u, du, adj_x=True)))
        v_beside = g.Sub(dv, multiply(g, v, multiply(g, v, dv, adj_x=True)))
        left = g.Add(multiply(g, u, middle), multiply(g, u_beside, inverse))
        right = multiply(g, multiply(g, u, inverse), v_beside, adj_y=True)
        return [g.Add(multiply(g, left, v, adj_y=True), right)]


@register
class SelfAdjointEigV2(Op):
    """Eigenvalues in ascending order, and eigenvectors as columns; reads the lower triangle."""

    inputs = "input: T"
    outputs = "e: T, v: T"
    attrs = {"compute_v": bool_attr(True), "T": _T}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(..., n) and (..., n, n); without vectors (0,)."""
        shape = square_shape(self.op_type, node.shapes[0])
        values = None if shape is None else shape[:-1]
        return [values, shape if node.attrs["compute_v"] else (0,)]

    def compute(self, xp: Any, value: Array, *, compute_v: bool) -> tuple[Array, Array]:
        """(e, v)."""
        require_matrices(self.op_type, value.shape, square=True)
        if not compute_v:
            return np.linalg.eigvalsh(value).astype(value.dtype), np.zeros(0, value.dtype)
        e, v = np.linalg.eigh(value)
        return e.astype(value.dtype), v.astype(value.dtype)

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> Sequence[Tensor]:
        """V (diag(de) + (V' dV) / (e[j] - e[i])) V', folded into the lower triangle."""
        a = op.inputs[0]
        if op.attr("compute_v"):
            e, v = op.outputs
            de, dv = every_gradient(g, op, grads)
            turned = g.Mul(spread_reciprocal(g, e), multiply(g, v, dv, adj_x=True))
            middle = g.Add(g.MatrixDiag(de), turned)
        else:
            _, v = g.SelfAdjointEigV2(a)
            assert grads[0] is not None
            middle = g.MatrixDiag(grads[0])
        whole = multiply(g, multiply(g, v, middle), v, adj_y=True)
        folded = _lower(g, g.Add(whole, adjoint(g, whole)))
        return [g.MatrixSetDiag(folded, scaled(g, g.MatrixDiagPart(folded), 0.5))]


@register
class Lu(Op):
    """L (below the diagonal, with ones on it) and U in one matrix, and the order p of the rows.

    L U is input[p].
    """

    inputs = "input: T"
    outputs = "lu: T, p: output_idx_type"
    attrs = {"T": _T, "output_idx_type": type_attr(INDEX, int32)}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape, and that without a dimension."""
        shape = square_shape(self.op_type, node.shapes[0])
        return [shape, None if shape is None else shape[:-1]]

    def compute(self, xp: Any, value: Array, *, output_idx_type: DType) -> tuple[Array, Array]:
        """(lu, p).

        Raises:
            InvalidArgumentError: A matrix is singular.
        """
        require_matrices(self.op_type, value.shape, square=True)
        size = value.shape[-1]
        factors, orders = [], []
        for matrix in value.reshape(-1, size, size):
            order = np.arange(size)
            factor = matrix
            if size:
                factor, pivots = _linalg().lu_factor(matrix, check_finite=False)
                for row, pivot in enumerate(pivots):
                    order[[row, pivot]] = order[[pivot, row]]
            if not np.diagonal(factor).all():
                raise InvalidArgumentError(message="Input is not invertible.")
            factors.append(factor)
            orders.append(order)
        lead = value.shape[:-2]
        return (
            stacked(factors, lead, (size, size), value.dtype),
            stacked(orders, lead, (size,), output_idx_type.numpy),
        )

    def gradient(
        self, g: GraphBuilder, op: OperationView, dy: Tensor | None, _: Tensor | None
    ) -> Sequence[Tensor | None]:
        """P' L'^-1 (lower(L' dL) + upper(dU U')) U'^-1."""
        if dy is None:
            return [None]
        lu, order = op.outputs
        upper = g.MatrixBandPart(lu, np.array(0, np.int64), np.array(-1, np.int64))
        lower = g.MatrixSetDiag(_lower(g, lu), g.OnesLike(g.MatrixDiagPart(lu)))
        d_lower = g.Sub(dy, g.MatrixBandPart(dy, np.array(0, np.int64), np.array(-1, np.int64)))
        d_upper = g.Sub(dy, d_lower)
        below = multiply(g, lower, d_lower, adj_x=True)
        above = multiply(g, d_upper, upper, adj_y=True)
        below = g.Sub(below, g.MatrixBandPart(below, np.array(0, np.int64), np.array(-1, np.int64)))
        above = g.MatrixBandPart(above, np.array(0, np.int64), np.array(-1, np.int64))
        middle = g.MatrixTriangularSolve(lower, g.Add(below, above), adjoint=True)
        # middle U'^-1 = (U^-1 middle')'
        solved = adjoint(g, g.MatrixTriangularSolve(upper, adjoint(g, middle), lower=False))
        dtype = dy.dtype.base
        size = g.StridedSlice(
            g.Shape(lu), *(np.array([i], np.int32) for i in (-1, 0, 1)), shrink_axis_mask=1
        )
        one, zero = (g.const(np.array(i, dtype.as_numpy_dtype), dtype) for i in (1, 0))
        rows = g.OneHot(order, size, one, zero)
        return [multiply(g, rows, solved, adj_x=True)]


class _MatrixFunction(Op):
    """A function of square matrices."""

    inputs = "input: T"
    outputs = "output: T"
    attrs = {"T": _T}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        return [square_shape(self.op_type, node.shapes[0])]

    def apply(self, function: Callable[[Array], Array], value: Array) -> Array:
        """The function of every matrix."""
        require_matrices(self.op_type, value.shape, square=True)
        size = value.shape[-1]
        results = [function(matrix) if size else matrix for matrix in value.reshape(-1, size, size)]
        return stacked(results, value.shape[:-2], (size, size), value.dtype)


@register
class MatrixExponential(_MatrixFunction):
    """I + A + A²/2! + A³/3! + ..."""

    def compute(self, xp: Any, value: Array) -> Array:
        """The exponentials."""
        return self.apply(_linalg().expm, value)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """The upper right block of exp([[A', dy], [0, A']]) (Higham, Functions of Matrices)."""
        a = adjoint(g, op.inputs[0])
        right, down = np.array(-1, np.int32), np.array(-2, np.int32)
        upper = g.ConcatV2([a, dy], right)
        lower = g.ConcatV2([g.ZerosLike(a), a], right)
        whole = g.MatrixExponential(g.ConcatV2([upper, lower], down))
        rows = g.Split(down, whole, num_split=2)
        return [g.Split(right, rows[0], num_split=2)[1]]


@register
class MatrixLogarithm(_MatrixFunction):
    """The principal logarithm of complex matrices."""

    attrs = {"T": type_attr(COMPLEX)}

    def compute(self, xp: Any, value: Array) -> Array:
        """The logarithms."""
        return self.apply(_linalg().logm, value)


@register
class MatrixSquareRoot(_MatrixFunction):
    """The principal square root."""

    def compute(self, xp: Any, value: Array) -> Array:
        """The roots.

        Raises:
            InvalidArgumentError: A real matrix has no real square root.
        """

        def root(matrix: Array) -> Array:
            found = _linalg().sqrtm(matrix)
            if matrix.dtype.kind != "c" and found.dtype.kind == "c":
                if np.abs(found.imag).max() > 1e-3 * np.abs(found).max():
                    raise InvalidArgumentError(message="The matrix has no real square root")
                found = found.real
            return found

        return self.apply(root, value)
