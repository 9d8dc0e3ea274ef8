"""Diagonals and bands of the matrices in the last two dimensions.

The whole-tensor `Diag` and `DiagPart` are in `linalg`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.rows.bands import fill_band
from sparkflow_runtime.dtypes import INDEX, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import string_attr, type_attr
from sparkflow_runtime.ops.static import STRINGS_ON_HOST, bracketed, ints, scalar
from sparkflow_runtime.shapes import Dim, Shape

_ALIGN = string_attr(
    "RIGHT_LEFT", frozenset({"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"})
)
_ROW_ATTRS = {"T": type_attr()}
_LEFT = "LEFT_LEFT"
"""How version 2 of these ops aligns diagonals."""


def _band(k: Array) -> tuple[int, int]:
    """(lowest, highest) diagonal.

    Raises:
        InvalidArgumentError: Not one or two numbers in order.
    """
    values = ints(k)
    if len(values) not in (1, 2) or k.ndim > 1:
        raise InvalidArgumentError(
            message=f"diag_index must be a scalar or have one or two elements, got {values}"
        )
    low, high = values[0], values[-1]
    if low > high:
        raise InvalidArgumentError(
            message=f"lower_diag_index must not be larger than upper_diag_index: {low} > {high}"
        )
    return low, high


def _longest(rows: int, columns: int, low: int, high: int) -> int:
    """The length of the longest diagonal of a band.

    Raises:
        InvalidArgumentError: The band lies outside of the matrix.
    """
    for name, each in (("lower_diag_index", low), ("upper_diag_index", high)):
        if not (-rows < each < columns) and each != 0:
            raise InvalidArgumentError(
                message=f"{name} is out of bound: {each}. It must be between {-rows} and {columns}"
            )
    return min(rows + min(high, 0), columns - max(low, 0))


def _diagonal(matrices: Array, k: int) -> Array:
    """The k-th diagonals of contiguous matrices, as a view."""
    rows, columns = matrices.shape[-2:]
    size = min(rows + min(k, 0), columns - max(k, 0))
    start = max(k, 0) - min(k, 0) * columns
    flat = matrices.reshape(*matrices.shape[:-2], rows * columns)
    return flat[..., start : start + (size - 1) * (columns + 1) + 1 : columns + 1]


def _first(size: int, length: int, k: int, align: str) -> int:
    """The start of a diagonal of this size within a row, by alignment."""
    superdiagonal, subdiagonal = (side == "LEFT" for side in align.split("_"))
    is_left = (k >= 0 and superdiagonal) or (k <= 0 and subdiagonal)
    return 0 if is_left else length - size


def _set_diagonals(matrices: Array, low: int, high: int, banded: Array, align: str) -> None:
    """Writes the diagonals of a band, the highest first, into contiguous matrices."""
    length = banded.shape[-1]
    for number, k in enumerate(range(high, low - 1, -1)):
        diagonal = _diagonal(matrices, k)
        first = _first(diagonal.shape[-1], length, k, align)
        diagonal[...] = banded[..., number, first : first + diagonal.shape[-1]]


class _DiagonalOp(Op):
    """An op with a band `k`; version 1 has the main diagonal only."""

    kernels = STRINGS_ON_HOST

    def _align(self, op: OperationView) -> dict[str, str]:
        return {"align": op.attr("align") if "align" in self.attrs else _LEFT}


def _square_minimum(low: int, high: int, length: int, rows: int, columns: int) -> tuple[int, int]:
    """The size of a matrix with such diagonals; -1 means as small as possible.

    Raises:
        InvalidArgumentError: The requested size is too small, or larger in both dimensions.
    """
    least_rows, least_columns = length - min(high, 0), length + max(low, 0)
    if rows == columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    if rows < least_rows or columns < least_columns:
        raise InvalidArgumentError(
            message=f"The number of rows and columns ({rows}, {columns}) is too small for the "
            f"diagonals, which need ({least_rows}, {least_columns})"
        )
    if rows != least_rows and columns != least_columns:
        raise InvalidArgumentError(
            message=f"The number of rows or columns is not consistent with the specified d_lower, "
            f"d_upper, and diagonal: ({rows}, {columns}) against ({least_rows}, {least_columns})"
        )
    return rows, columns


class _MatrixDiag(_DiagonalOp):
    """Matrices with the given diagonals and `padding_value` elsewhere."""

    inputs = "diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T"
    outputs = "output: T"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Batch + (rows, columns)."""
        shape = node.shapes[0]
        if shape == ():
            raise InvalidArgumentError(message="diagonal must be at least 1-dim, got a scalar")
        if shape is None:
            return [None]
        if len(node.shapes) == 1:
            return [(*shape, shape[-1])]
        k, rows, columns = (node.value(i) for i in (1, 2, 3))
        if k is None:
            return [None]
        low, high = _band(k)
        batch = shape[: len(shape) - (1 if low == high else 2)]
        if shape[-1] is None or rows is None or columns is None:
            return [(*batch, None, None)]
        return [(*batch, *_square_minimum(low, high, shape[-1], int(rows), int(columns)))]

    def compute(
        self,
        xp: Any,
        diagonal: Array,
        k: Array | None = None,
        num_rows: Array | None = None,
        num_cols: Array | None = None,
        padding_value: Array | None = None,
        *,
        align: str = _LEFT,
    ) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: The band does not fit the diagonals or the size.
        """
        if not diagonal.ndim:
            raise InvalidArgumentError(message="diagonal must be at least 1-dim, got a scalar")
        low, high = (0, 0) if k is None else _band(k)
        banded = diagonal[..., None, :] if low == high else diagonal
        if banded.shape[-2] != high - low + 1:
            raise InvalidArgumentError(
                message=f"The number of diagonals provided in the input does not match the lower_"
                f"diag_index and upper_diag_index range: {banded.shape[-2]} for [{low}, {high}]"
            )
        length = diagonal.shape[-1]
        asked = [-1 if each is None else scalar(each, "size") for each in (num_rows, num_cols)]
        rows, columns = _square_minimum(low, high, length, *asked)
        result = _filled(xp, (*banded.shape[:-2], rows, columns), diagonal, padding_value)
        _set_diagonals(result, low, high, banded, align)
        return result

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The diagonals of the gradient."""
        if len(op.inputs) == 1:
            return (g.MatrixDiagPart(dy),)
        zero = g.const(np.array(0, dy.dtype.base.as_numpy_dtype), dy.dtype.base)
        part = g.MatrixDiagPartV3(dy, op.inputs[1], zero, **self._align(op))
        return part, None, None, None, None


def _filled(xp: Any, shape: tuple[int, ...], like: Array, padding: Array | None) -> Array:
    if padding is None:
        return xp.zeros(shape, like.dtype)
    result = xp.empty(shape, like.dtype)
    result[...] = padding
    return result


@register
class MatrixDiag(_MatrixDiag):
    """Square matrices with the given main diagonal."""

    inputs = "diagonal: T"
    attrs = _ROW_ATTRS


@register
class MatrixDiagV2(_MatrixDiag):
    """`MatrixDiagV3` with all diagonals aligned to the left."""

    attrs = _ROW_ATTRS


@register
class MatrixDiagV3(_MatrixDiag):
    """Matrices with the given diagonals and `padding_value` elsewhere."""

    attrs = {"T": type_attr(), "align": _ALIGN}


class _MatrixDiagPart(_DiagonalOp):
    """The diagonals of matrices, the shorter ones padded."""

    inputs = "input: T, k: int32, padding_value: T"
    outputs = "diagonal: T"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Batch + (diagonals, longest), or batch + (length,) for one."""
        shape = node.shapes[0]
        if shape is None:
            return [None]
        _check_matrix(shape, "input")
        k = np.zeros((), np.int32) if len(node.shapes) == 1 else node.value(1)
        if k is None:
            return [None]
        low, high = _band(k)
        count: tuple[int, ...] = () if low == high else (high - low + 1,)
        length: Dim = None
        if shape[-2] is not None and shape[-1] is not None:
            length = _longest(shape[-2], shape[-1], low, high)
        return [(*shape[:-2], *count, length)]

    def compute(
        self,
        xp: Any,
        value: Array,
        k: Array | None = None,
        padding_value: Array | None = None,
        *,
        align: str = _LEFT,
    ) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: The band lies outside of the matrix.
        """
        _check_matrix(value.shape, "input")
        low, high = (0, 0) if k is None else _band(k)
        rows, columns = value.shape[-2:]
        length = _longest(rows, columns, low, high)
        if low == high:
            return xp.diagonal(value, low, -2, -1).copy()
        shape = (*value.shape[:-2], high - low + 1, length)
        result = _filled(xp, shape, value, padding_value)
        for number, each in enumerate(range(high, low - 1, -1)):
            diagonal = xp.diagonal(value, each, -2, -1)
            first = _first(diagonal.shape[-1], length, each, align)
            result[..., number, first : first + diagonal.shape[-1]] = diagonal
        return result

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The gradient on the diagonals, zero elsewhere."""
        zeros = g.ZerosLike(op.inputs[0])
        if len(op.inputs) == 1:
            return (g.MatrixSetDiag(zeros, dy),)
        return g.MatrixSetDiagV3(zeros, dy, op.inputs[1], **self._align(op)), None, None


def _check_matrix(shape: Sequence[Dim], name: str) -> None:
    if len(shape) < 2:
        raise InvalidArgumentError(
            message=f"{name} must be at least 2-dim, received shape: {bracketed(shape)}"
        )


@register
class MatrixDiagPart(_MatrixDiagPart):
    """The main diagonal of matrices."""

    inputs = "input: T"
    attrs = _ROW_ATTRS


@register
class MatrixDiagPartV2(_MatrixDiagPart):
    """`MatrixDiagPartV3` with all diagonals aligned to the left."""

    attrs = _ROW_ATTRS


@register
class MatrixDiagPartV3(_MatrixDiagPart):
    """The diagonals of matrices, the shorter ones padded with `padding_value`."""

    attrs = {"T": type_attr(), "align": _ALIGN}


class _MatrixSetDiag(_DiagonalOp):
    """Matrices with other diagonals."""

    inputs = "input: T, diagonal: T, k: int32"
    outputs = "output: T"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        shape, diagonal = node.shapes[:2]
        if shape is None:
            return [None]
        _check_matrix(shape, "input")
        k = np.zeros((), np.int32) if len(node.shapes) == 2 else node.value(2)
        if k is not None and shape[-2] is not None and shape[-1] is not None:
            low, high = _band(k)
            count: tuple[int, ...] = () if low == high else (high - low + 1,)
            expected = (*shape[:-2], *count, _longest(shape[-2], shape[-1], low, high))
            if not shapes.is_compatible(expected, diagonal):
                raise InvalidArgumentError(message=_diagonal_text(expected, diagonal))
        return [shape]

    def compute(
        self, xp: Any, value: Array, diagonal: Array, k: Array | None = None, *, align: str = _LEFT
    ) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: The diagonals do not fit the matrices.
        """
        _check_matrix(value.shape, "input")
        low, high = (0, 0) if k is None else _band(k)
        rows, columns = value.shape[-2:]
        length = _longest(rows, columns, low, high)
        count = () if low == high else (high - low + 1,)
        expected = (*value.shape[:-2], *count, length)
        if diagonal.shape != expected:
            raise InvalidArgumentError(message=_diagonal_text(expected, diagonal.shape))
        banded = diagonal[..., None, :] if low == high else diagonal
        result = value.copy()
        _set_diagonals(result, low, high, banded, align)
        return result

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The gradient without its diagonals, and the diagonals."""
        zeros = g.ZerosLike(op.inputs[1])
        if len(op.inputs) == 2:
            return g.MatrixSetDiag(dy, zeros), g.MatrixDiagPart(dy)
        k, align = op.inputs[2], self._align(op)
        zero = g.const(np.array(0, dy.dtype.base.as_numpy_dtype), dy.dtype.base)
        return (
            g.MatrixSetDiagV3(dy, zeros, k, **align),
            g.MatrixDiagPartV3(dy, k, zero, **align),
            None,
        )


def _diagonal_text(expected: Shape, diagonal: Shape) -> str:
    return f"diagonal must have shape {bracketed(expected)}, but has {bracketed(diagonal)}"


@register
class MatrixSetDiag(_MatrixSetDiag):
    """Matrices with another main diagonal."""

    inputs = "input: T, diagonal: T"
    attrs = _ROW_ATTRS


@register
class MatrixSetDiagV2(_MatrixSetDiag):
    """`MatrixSetDiagV3` with all diagonals aligned to the left."""

    attrs = _ROW_ATTRS


@register
class MatrixSetDiagV3(_MatrixSetDiag):
    """Matrices with other diagonals."""

    attrs = {"T": type_attr(), "align": _ALIGN}


@register
class MatrixBandPart(Op):
    """Matrices with everything outside a central band set to zero; -1 keeps a whole triangle."""

    inputs = "input: T, num_lower: Tindex, num_upper: Tindex"
    outputs = "band: T"
    attrs = {"T": type_attr(), "Tindex": type_attr(INDEX, int64)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        shape = node.shapes[0]
        if shape is not None:
            _check_matrix(shape, "input")
        node.with_rank(1, 0, "num_lower")
        node.with_rank(2, 0, "num_upper")
        return [shape]

    def compute(self, xp: Any, value: Array, num_lower: Array, num_upper: Array) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: A band wider than the matrix.
        """
        _check_matrix(value.shape, "input")
        lower, upper = scalar(num_lower, "num_lower"), scalar(num_upper, "num_upper")
        rows, columns = value.shape[-2:]
        for name, each, bound in (("num_lower", lower, rows), ("num_upper", upper, columns)):
            if each > bound:
                raise InvalidArgumentError(
                    message=f"{name} must be negative or less or equal to number of "
                    f"{'rows' if name == 'num_lower' else 'columns'} ({bound}) got: {each}"
                )
        if xp is np:
            out = np.empty(value.shape, value.dtype)
            if fill_band(value, lower, upper, out):
                return out
        below = xp.arange(rows)[:, None] - xp.arange(columns)
        kept = ((lower < 0) | (below <= lower)) & ((upper < 0) | (-below <= upper))
        return xp.where(kept, value, xp.zeros((), value.dtype))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The same band of the gradient."""
        return g.MatrixBandPart(dy, *op.inputs[1:]), None, None
