"""Determinants and linear systems: general, triangular, tridiagonal, least squares."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.systems.substitution import solve
from sparkflow_runtime.dtypes import float64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.elementwise.broadcast_gradient import sum_to_operands
from sparkflow_runtime.ops.elementwise.elementwise_table import conjugated
from sparkflow_runtime.ops.linalg.matrices import (
    MATRIX_TYPES,
    ON_HOST,
    adjoint,
    adjoint_of,
    identity_like,
    multiply,
    per_matrix,
    require_matrices,
    square_shape,
    stacked,
)
from sparkflow_runtime.ops.machine_call import CallSite, MachineCall
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Shape


def _linalg() -> Any:
    """SciPy's linear algebra, imported when first used: it takes 0.25 s (2026-11-21)."""
    return importlib.import_module("scipy.linalg")


_T = type_attr(MATRIX_TYPES)


@register
class MatrixDeterminant(Op):
    """The determinants of matrices."""

    inputs = "input: T"
    outputs = "output: T"
    attrs = {"T": _T}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape without the matrices."""
        shape = square_shape(self.op_type, node.shapes[0])
        return [None if shape is None else shape[:-2]]

    def compute(self, xp: Any, value: Array) -> Array:
        """One number per matrix."""
        require_matrices(self.op_type, value.shape, square=True)
        return np.asarray(np.linalg.det(value), value.dtype)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """Dy * det * inverse adjoint."""
        inverse = g.MatrixInverse(op.inputs[0], adjoint=True)
        determinant = conjugated(g, op.outputs[0])
        return [g.Mul(per_matrix(g, g.Mul(dy, determinant)), inverse)]


@register
class LogMatrixDeterminant(Op):
    """The signs of determinants, and the logarithms of their absolute values."""

    inputs = "input: T"
    outputs = "sign: T, log_abs_determinant: T"
    attrs = {"T": _T}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape without the matrices, twice."""
        shape = square_shape(self.op_type, node.shapes[0])
        return [None if shape is None else shape[:-2]] * 2

    def compute(self, xp: Any, value: Array) -> tuple[Array, Array]:
        """(sign, logarithm)."""
        require_matrices(self.op_type, value.shape, square=True)
        sign, size = np.linalg.slogdet(value)
        return np.asarray(sign, value.dtype), np.asarray(size, value.dtype)

    def gradient(
        self, g: GraphBuilder, op: OperationView, _: Tensor | None, dy: Tensor | None
    ) -> Sequence[Tensor | None]:
        """Dy * inverse adjoint; none flows through the sign."""
        if dy is None:
            return [None]
        return [g.Mul(per_matrix(g, dy), g.MatrixInverse(op.inputs[0], adjoint=True))]


def _check_system(op_type: str, matrix: Shape, rhs: Shape, broadcast: bool) -> Shape:
    """The shape of the solution.

    Raises:
        InvalidArgumentError: Matrix and right-hand side do not fit.
    """
    if matrix is None or rhs is None:
        return None
    for shape in (matrix, rhs):
        require_matrices(op_type, shape)
    rows = matrix[-2]
    if None not in (rows, rhs[-2]) and rows != rhs[-2]:
        raise InvalidArgumentError(
            message=f"Dimensions must be equal, but are {rows} and {rhs[-2]}: {op_type} got a "
            f"matrix of shape {bracketed(matrix)} and a right-hand side of {bracketed(rhs)}"
        )
    merge = shapes.broadcast if broadcast else shapes.merge
    lead = merge(matrix[:-2], rhs[:-2])
    assert lead is not None
    return (*lead, matrix[-1], rhs[-1])


def _of_product(g: GraphBuilder, matrix_is_adjoint: bool, solution: Tensor, db: Tensor) -> Tensor:
    """The gradient of the matrix, from the solution and the gradient of the right-hand side."""
    if matrix_is_adjoint:
        return g.Neg(multiply(g, solution, db, adj_y=True))
    return g.Neg(multiply(g, db, solution, adj_y=True))


@register
class MatrixSolve(Op):
    """x with `matrix x = rhs`, or with the adjoint of the matrix."""

    inputs = "matrix: T, rhs: T"
    outputs = "output: T"
    attrs = {"adjoint": bool_attr(False), "T": _T}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the right-hand side."""
        matrix = square_shape(self.op_type, node.shapes[0])
        return [_check_system(self.op_type, matrix, node.shapes[1], broadcast=False)]

    def compute(self, xp: Any, matrix: Array, rhs: Array, *, adjoint: bool) -> Array:
        """The solutions.

        Raises:
            InvalidArgumentError: A matrix is not square or not invertible.
        """
        require_matrices(self.op_type, matrix.shape, square=True)
        _check_system(self.op_type, matrix.shape, rhs.shape, broadcast=False)
        try:
            return np.linalg.solve(adjoint_of(np, matrix) if adjoint else matrix, rhs)
        except np.linalg.LinAlgError as error:
            raise InvalidArgumentError(message="Input matrix is not invertible.") from error

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """The solutions of small systems."""
        from sparkflow_runtime.codegen.systems import small_systems

        *stack, rows, columns = site.shapes[1]
        number = site.dtypes[0]
        if number not in small_systems.NUMBERS or rows > small_systems.MOST:
            return None
        sizes = math.prod(stack), rows, columns
        kernel = small_systems.bind_solve(number, *sizes, node.attrs["adjoint"])
        return MachineCall(kernel, (0, 1), can_fail=True)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """Of b: the adjoint system; of A: -db x'."""
        matrix, solution = op.inputs[0], op.outputs[0]
        is_adjoint = op.attr("adjoint")
        db = g.MatrixSolve(matrix, dy, adjoint=not is_adjoint)
        return [_of_product(g, is_adjoint, solution, db), db]


@register
class MatrixTriangularSolve(Op):
    """x with `matrix x = rhs` for triangular matrices; the other triangle is ignored."""

    inputs = "matrix: T, rhs: T"
    outputs = "output: T"
    attrs = {"lower": bool_attr(True), "adjoint": bool_attr(False), "T": _T}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the right-hand side, stacks broadcast."""
        matrix = square_shape(self.op_type, node.shapes[0])
        return [_check_system(self.op_type, matrix, node.shapes[1], broadcast=True)]

    def compute(self, xp: Any, matrix: Array, rhs: Array, *, lower: bool, adjoint: bool) -> Array:
        """The solutions.

        Raises:
            InvalidArgumentError: A matrix is not square or has a zero on its diagonal.
        """
        require_matrices(self.op_type, matrix.shape, square=True)
        found = _check_system(self.op_type, matrix.shape, rhs.shape, broadcast=True)
        assert found is not None
        shape = tuple(int(size or 0) for size in found)
        if not matrix.diagonal(0, -2, -1).all():
            raise InvalidArgumentError(message="Input matrix is not invertible.")
        lead, size = shape[:-2], matrix.shape[-1]
        if not rhs.size or not matrix.size:
            return np.zeros(shape, rhs.dtype)
        if matrix.shape[:-2] != lead:
            matrix = np.broadcast_to(matrix, (*lead, size, size))
        if rhs.shape != shape:
            rhs = np.broadcast_to(rhs, shape)
        matrices, sides = matrix.reshape(-1, size, size), rhs.reshape(-1, *shape[-2:])
        quick = solve(np.ascontiguousarray(matrices), np.ascontiguousarray(sides), lower, adjoint)
        if quick is not None:
            return quick.reshape(shape)
        solved = [
            _linalg().solve_triangular(a, b, trans=2 if adjoint else 0, lower=lower)
            for a, b in zip(matrices, sides, strict=True)
        ]
        return stacked(solved, lead, shape[-2:], rhs.dtype)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """As for `MatrixSolve`, in the triangle that is read."""
        matrix, rhs = op.inputs
        lower, is_adjoint = op.attr("lower"), op.attr("adjoint")
        db = g.MatrixTriangularSolve(matrix, dy, lower=lower, adjoint=not is_adjoint)
        whole = _of_product(g, is_adjoint, op.outputs[0], db)
        band = (-1, 0) if lower else (0, -1)
        da = g.MatrixBandPart(whole, *(np.array(i, np.int64) for i in band))
        return sum_to_operands(g, matrix, rhs, da, db, trailing_axes=2)


@register
class MatrixSolveLs(Op):
    """x that minimises |matrix x - rhs|² + l2_regularizer |x|²; the one of least norm.

    With `fast`, by the normal equations; without, by a rank-revealing decomposition that ignores
    the regularizer.
    """

    inputs = "matrix: T, rhs: T, l2_regularizer: float64"
    outputs = "output: T"
    attrs = {"T": _T, "fast": bool_attr(True)}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Batch + (columns of the matrix, columns of the right-hand side)."""
        node.with_rank(2, 0, "l2_regularizer")
        return [_check_system(self.op_type, node.shapes[0], node.shapes[1], broadcast=False)]

    def compute(
        self, xp: Any, matrix: Array, rhs: Array, l2_regularizer: Array, *, fast: bool
    ) -> Array:
        """The solutions.

        Raises:
            InvalidArgumentError: The shapes do not fit; or the normal equations are singular.
        """
        shape = _check_system(self.op_type, matrix.shape, rhs.shape, broadcast=False)
        assert shape is not None
        rows, columns = matrix.shape[-2:]
        if not rows or not columns:
            return np.zeros(shape, matrix.dtype)
        turned = adjoint_of(np, matrix)
        if not fast:
            return np.asarray(np.matmul(np.linalg.pinv(matrix), rhs), matrix.dtype)
        try:
            if rows >= columns:
                gram = turned @ matrix + _ridge(columns, l2_regularizer, matrix)
                return _solve_positive(gram, turned @ rhs)
            gram = matrix @ turned + _ridge(rows, l2_regularizer, matrix)
            return turned @ _solve_positive(gram, rhs)
        except np.linalg.LinAlgError as error:
            raise InvalidArgumentError(
                message="Input matrix was rank deficient or ill-conditioned. Try setting "
                "fast=False or provide a larger l2_regularizer > 0."
            ) from error

    def gradient(self, g: GraphBuilder, op: OperationView, dx: Tensor) -> Sequence[Tensor | None]:
        """Of the normal equations, for either shape of the matrix.

        Raises:
            NotImplementedError: `fast` is False, or it is not known which case applies.
        """
        if not op.attr("fast"):
            raise NotImplementedError("Gradient not defined for fast=False")
        a, b, ridge = op.inputs
        x = op.outputs[0]
        static = g.shape(a)
        if static is None or static[-1] is None or static[-2] is None:
            raise NotImplementedError("MatrixSolveLs's gradient needs to know the matrix's shape")
        if static[-2] >= static[-1]:
            gram = _regularized(g, multiply(g, a, a, adj_x=True), ridge)
            z = g.MatrixSolve(gram, dx)
            outer = multiply(g, x, z, adj_y=True)
            both = g.Add(outer, adjoint(g, outer))
            da = g.Sub(multiply(g, b, z, adj_y=True), multiply(g, a, both))
            return da, multiply(g, a, z), None
        gram = _regularized(g, multiply(g, a, a, adj_y=True), ridge)
        db = g.MatrixSolve(gram, multiply(g, a, dx))
        y = g.MatrixSolve(gram, b)
        first = multiply(g, db, multiply(g, y, a, adj_x=True))
        rest = g.Sub(dx, multiply(g, a, db, adj_x=True))
        return g.Sub(multiply(g, y, rest, adj_y=True), first), db, None


def _ridge(size: int, regularizer: Array, like: Array) -> Array:
    return np.eye(size, dtype=like.dtype) * np.asarray(regularizer, like.dtype)


def _regularized(g: GraphBuilder, gram: Tensor, regularizer: Tensor) -> Tensor:
    strength = g.Cast(regularizer, SrcT=float64, DstT=gram.dtype.base)
    return g.Add(gram, g.Mul(identity_like(g, gram), strength))


def _solve_positive(gram: Array, rhs: Array) -> Array:
    """The solution for positive definite matrices; LinAlgError if they are not."""
    factor = np.linalg.cholesky(gram)
    return np.linalg.solve(adjoint_of(np, factor), np.linalg.solve(factor, rhs))


@register
class TridiagonalSolve(Op):
    """x with `A x = rhs`, where A is given by its superdiagonal, diagonal and subdiagonal as rows.

    The last element of the first row and the first one of the third are ignored.
    """

    inputs = "diagonals: T, rhs: T"
    outputs = "output: T"
    attrs = {"partial_pivoting": bool_attr(True), "perturb_singular": bool_attr(False), "T": _T}
    kernels = ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the right-hand side."""
        diagonals, rhs = node.shapes
        if diagonals is None or rhs is None:
            return [rhs]
        _check_tridiagonal(diagonals, rhs)
        lead = shapes.merge(diagonals[:-2], rhs[:-2])
        assert lead is not None
        return [(*lead, *rhs[-2:])]

    def compute(self, xp: Any, diagonals: Array, rhs: Array) -> Array:
        """The solutions.

        Raises:
            InvalidArgumentError: The shapes do not fit, or a matrix is singular.
        """
        _check_tridiagonal(diagonals.shape, rhs.shape)
        size = rhs.shape[-2]
        if not rhs.size:
            return np.zeros(rhs.shape, rhs.dtype)
        # The superdiagonal is shifted right by one, the subdiagonal left.
        bands = diagonals.reshape(-1, 3, size).copy()
        bands[:, 0] = np.roll(bands[:, 0], 1, axis=-1)
        bands[:, 2] = np.roll(bands[:, 2], -1, axis=-1)
        bands[:, 0, 0] = 0
        bands[:, 2, -1] = 0
        sides = rhs.reshape(-1, *rhs.shape[-2:])
        try:
            solved = [_solve_banded(a, b) for a, b in zip(bands, sides, strict=True)]
        except np.linalg.LinAlgError as error:
            raise InvalidArgumentError(message="The matrix is not invertible.") from error
        return stacked(solved, rhs.shape[:-2], rhs.shape[-2:], rhs.dtype)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """Of b: the adjoint system; of the diagonals: those of -db x'."""
        diagonals, x = op.inputs[0], op.outputs[0]
        upper, middle, lower = g.Unpack(diagonals, num=3, axis=-2)
        last, first = np.array([1], np.int32), np.array([-1], np.int32)
        axis = np.array([-1], np.int32)
        turned = [g.Roll(lower, first, axis), middle, g.Roll(upper, last, axis)]
        turned = [conjugated(g, each) for each in turned]
        db = g.TridiagonalSolve(g.Pack(turned, axis=-2), dy)
        rows = np.array([-2], np.int32)

        def along(solution: Tensor) -> Tensor:
            product = g.Mul(db, conjugated(g, solution))
            return g.Neg(g.Sum(product, np.array([-1], np.int32)))

        above, below = along(g.Roll(x, first, rows)), along(g.Roll(x, last, rows))
        return [
            g.Pack([_without(g, above, -1), along(x), _without(g, below, 0)], axis=-2),
            db,
        ]


def _without(g: GraphBuilder, x: Tensor, place: int) -> Tensor:
    """The rows with 0 in the first (0) or last (-1) position."""
    zeros = g.ZerosLike(x)
    if place == 0:
        head = g.StridedSlice(zeros, *_bounds(0, 1), ellipsis_mask=1)
        tail = g.StridedSlice(x, *_bounds(1, 0), ellipsis_mask=1, end_mask=2)
        return g.ConcatV2([head, tail], np.array(-1, np.int32))
    head = g.StridedSlice(x, *_bounds(0, -1), ellipsis_mask=1)
    tail = g.StridedSlice(zeros, *_bounds(-1, 0), ellipsis_mask=1, end_mask=2)
    return g.ConcatV2([head, tail], np.array(-1, np.int32))


def _bounds(begin: int, end: int) -> tuple[Array, Array, Array]:
    return (
        np.array([0, begin], np.int32),
        np.array([0, end], np.int32),
        np.array([1, 1], np.int32),
    )


def _solve_banded(bands: Array, rhs: Array) -> Array:
    if bands.shape[-1] == 1:
        if not bands[1, 0]:
            raise np.linalg.LinAlgError("singular matrix")
        return rhs / bands[1, 0]
    return _linalg().solve_banded((1, 1), bands, rhs)


def _check_tridiagonal(diagonals: Sequence[Any], rhs: Sequence[Any]) -> None:
    sizes = (diagonals[-1], rhs[-2]) if len(diagonals) > 1 and len(rhs) > 1 else (0, 1)
    misfit = None not in sizes and sizes[0] != sizes[1]
    if misfit or diagonals[-2] not in (3, None):
        raise InvalidArgumentError(
            message=f"TridiagonalSolve takes diagonals [..., 3, m] and a right-hand side "
            f"[..., m, k], got shapes {bracketed(diagonals)} and {bracketed(rhs)}"
        )
