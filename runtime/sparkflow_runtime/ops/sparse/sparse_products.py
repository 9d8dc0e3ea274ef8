"""Products of sparse and dense matrices.

A sparse matrix is three tensors: `indices` [n, 2] int64, `values` [n] and `shape` [2] int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import INDEX, NUMERIC, bfloat16, float32, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.elementwise.elementwise_table import conjugated
from sparkflow_runtime.ops.native import row_kernels
from sparkflow_runtime.ops.native.equal_rows import sum_by_segment
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.sparse.sparse_layout import check_parts
from sparkflow_runtime.ops.sparse.sparse_positions import flat_positions
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Shape

_HOST: dict[str, None] = {"CPU": None}


@register
class SparseTensorDenseMatMul(Op):
    """The product of a sparse and a dense matrix, either adjoint first."""

    inputs = "a_indices: Tindices, a_values: T, a_shape: int64, b: T"
    outputs = "product: T"
    attrs = {
        "T": type_attr(NUMERIC),
        "Tindices": type_attr(INDEX, int64),
        "adjoint_a": bool_attr(False),
        "adjoint_b": bool_attr(False),
    }
    kernels = _HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """[rows of a, columns of b]."""
        b = node.with_rank(3, 2, "b")
        value = node.value(2)
        rows = None
        if value is not None and value.size == 2:
            rows = int(value[1 if node.attrs["adjoint_a"] else 0])
            inner = int(value[0 if node.attrs["adjoint_a"] else 1])
            shapes.merge_dims(inner, b[1 if node.attrs["adjoint_b"] else 0])
        return [(rows, b[0 if node.attrs["adjoint_b"] else 1])]

    def compute(
        self,
        xp: Any,
        indices: Array,
        values: Array,
        shape: Array,
        b: Array,
        *,
        adjoint_a: bool,
        adjoint_b: bool,
    ) -> Array:
        """The product.

        Raises:
            InvalidArgumentError: Not two matrices that fit.
        """
        check_parts(indices, values, shape)
        if len(shape) != 2 or b.ndim != 2:
            raise InvalidArgumentError(
                message=f"Tensors a and b must be matrices, got shapes {bracketed(shape)} and "
                f"{bracketed(b.shape)}"
            )
        right = np.ascontiguousarray(b.T) if adjoint_b else b
        rows, columns = (np.ascontiguousarray(each) for each in indices.T)
        size, inner = (int(n) for n in shape)
        if adjoint_a:
            rows, columns, size, inner = columns, rows, inner, size
        if inner != right.shape[0]:
            raise InvalidArgumentError(
                message=f"Cannot multiply A and B because inner dimension does not match: {inner} "
                f"vs. {right.shape[0]}. Did you forget a transpose?"
            )
        if values.dtype.kind == "c":
            right = np.conj(right) if adjoint_b else right
            values = np.conj(values) if adjoint_a else values
        elif size >= 0:
            product = row_kernels.sum_rows(right, rows, size, columns, values)
            if product is not None:
                return product
        flat_positions(indices.astype(np.int64, copy=False), shape.tolist())
        return sum_by_segment(np, values[:, None] * right[columns], rows, size)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """Of the elements: products of rows; of b: the adjoint product."""
        indices, values, shape, b = op.inputs
        adjoint_a, adjoint_b = op.attr("adjoint_a"), op.attr("adjoint_b")
        zero = np.array(0, np.int32)
        rows, columns = g.Unpack(indices, num=2, axis=1)
        turned = conjugated(g, b)
        if adjoint_b:
            turned = g.Transpose(turned, np.array([1, 0], np.int32))
            turned = conjugated(g, turned)
        of_dy = g.GatherV2(dy, columns if adjoint_a else rows, zero)
        of_b = g.GatherV2(turned, rows if adjoint_a else columns, zero)
        products = g.Sum(g.Mul(of_dy, of_b), np.array([1], np.int32))
        if adjoint_a:
            products = conjugated(g, products)
        db = g.SparseTensorDenseMatMul(indices, values, shape, dy, adjoint_a=not adjoint_a)
        if adjoint_b:
            db = conjugated(g, g.Transpose(db, np.array([1, 0], np.int32)))
        return None, products, None, db


@register
class SparseMatMul(Op):
    """The product of two dense matrices of which one may be mostly zero."""

    inputs = "a: Ta, b: Tb"
    outputs = "product: float32"
    attrs = {
        "transpose_a": bool_attr(False),
        "transpose_b": bool_attr(False),
        "a_is_sparse": bool_attr(False),
        "b_is_sparse": bool_attr(False),
        "Ta": type_attr(frozenset({float32, bfloat16}), float32),
        "Tb": type_attr(frozenset({float32, bfloat16}), float32),
    }
    kernels = _HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """[rows of a, columns of b]."""
        a, b = node.with_rank(0, 2, "a"), node.with_rank(1, 2, "b")
        rows, inner = reversed(a) if node.attrs["transpose_a"] else a
        other, columns = reversed(b) if node.attrs["transpose_b"] else b
        shapes.merge_dims(inner, other)
        return [(rows, columns)]

    def compute(
        self, xp: Any, a: Array, b: Array, *, transpose_a: bool, transpose_b: bool
    ) -> Array:
        """The product.

        Raises:
            InvalidArgumentError: The matrices do not fit.
        """
        left, right = (a.T if transpose_a else a), (b.T if transpose_b else b)
        if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
            raise InvalidArgumentError(
                message=f"Matrix size incompatible: a: {bracketed(a.shape)}, b: "
                f"{bracketed(b.shape)}"
            )
        return np.matmul(left.astype(np.float32), right.astype(np.float32))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """As for `MatMul`."""
        transpose_a, transpose_b = op.attr("transpose_a"), op.attr("transpose_b")
        a, b = (
            each if each.dtype == float32 else g.Cast(each, SrcT=each.dtype, DstT=float32)
            for each in op.inputs
        )
        if transpose_a:
            da = g.MatMul(b, dy, transpose_a=transpose_b, transpose_b=True)
        else:
            da = g.MatMul(dy, b, transpose_b=not transpose_b)
        if transpose_b:
            db = g.MatMul(dy, a, transpose_a=True, transpose_b=transpose_a)
        else:
            db = g.MatMul(a, dy, transpose_a=not transpose_a)
        return [
            slope if each.dtype == float32 else g.Cast(slope, SrcT=float32, DstT=each.dtype)
            for slope, each in zip((da, db), op.inputs, strict=True)
        ]
