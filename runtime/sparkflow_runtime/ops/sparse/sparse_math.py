"""Elementwise arithmetic on sparse tensors: sums, products, reductions, softmax.

A sparse tensor is three tensors: `indices` [n, rank] int64, `values` [n] and `shape` [rank] int64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.sparse import sums
from sparkflow_runtime.dtypes import FLOATING, INDEX, NUMERIC, REAL, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.elementwise.elementwise_table import conjugated
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.reduction.axes import checked_axes, without_axes
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.sparse.sparse_layout import check_parts
from sparkflow_runtime.ops.sparse.sparse_positions import (
    are_new,
    ascending,
    checked_positions,
    coordinates,
    flat_positions,
    values_among,
)
from sparkflow_runtime.ops.static import bracketed, ints, known_sizes
from sparkflow_runtime.shapes import Shape

_HOST: dict[str, None] = {"CPU": None}
_ONE_TENSOR = "sp_indices: int64, sp_values: T, sp_shape: int64, dense: T"
_PAIR = (
    "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64"
)


def _same_shape(a: Array, b: Array) -> list[int]:
    if a.shape != b.shape or (a != b).any():
        raise InvalidArgumentError(
            message=f"Operands' shapes do not match: got {bracketed(a.tolist())} and "
            f"{bracketed(b.tolist())}"
        )
    return [int(size) for size in a]


def _merged(first: Array, second: Array, shape: Sequence[int]) -> tuple[Array, Array, Array]:
    """Returns the coordinates of positions in order, each once, and the numbers of both there."""
    both = np.concatenate([first, second])
    order = ascending(both)
    ordered = both[order]
    is_new = are_new(ordered)
    places = np.empty(len(both), np.int64)
    places[order] = np.cumsum(is_new) - 1
    count = len(first)
    return coordinates(ordered[is_new], shape), places[:count], places[count:]


@register
class SparseAdd(Op):
    """The sum of two sparse tensors; of elements in both, sums below `thresh` are dropped."""

    inputs = f"{_PAIR}, thresh: Treal"
    outputs = "sum_indices: int64, sum_values: T, sum_shape: int64"
    aliases = frozenset({"a_indices", "a_values", "a_shape", "b_indices", "b_values", "b_shape"})
    attrs = {"T": type_attr(NUMERIC), "Treal": type_attr(REAL)}
    kernels = _HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(unknown, rank), (unknown,), (rank,)."""
        rank = node.with_rank(2, 1, "a_shape")[0]
        return [(None, rank), (None,), (rank,)]

    def compute(
        self,
        xp: Any,
        a_indices: Array,
        a_values: Array,
        a_shape: Array,
        b_indices: Array,
        b_values: Array,
        b_shape: Array,
        thresh: Array,
    ) -> tuple[Array, Array, Array]:
        """(indices, values, shape).

        Raises:
            InvalidArgumentError: The shapes differ.
        """
        check_parts(a_indices, a_values, a_shape)
        check_parts(b_indices, b_values, b_shape)
        shape = _same_shape(a_shape, b_shape)
        a, b = (checked_positions(each, shape) for each in (a_indices, b_indices))
        if a.rises and b.rises:
            pairs = (a_indices, b_indices), (a_values, b_values), (a.numbers, b.numbers)
            found = sums.added(*pairs, thresh)
            if found is not None:
                return (*found, a_shape)
        indices, of_a, of_b = _merged(a.numbers, b.numbers, shape)
        values = np.zeros(len(indices), a_values.dtype)
        np.add.at(values, of_a, a_values)
        np.add.at(values, of_b, b_values)
        both = np.bincount(of_a, minlength=len(indices)) + np.bincount(of_b, minlength=len(indices))
        kept = (both < 2) | (np.abs(values) >= thresh)
        return indices[kept], values[kept], a_shape

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> Sequence[Tensor | None]:
        """The gradient of the sum at the coordinates of each."""
        if grads[1] is None:
            return (None,) * 7
        a_indices, b_indices = op.inputs[0], op.inputs[3]
        da, db = g.SparseAddGrad(grads[1], a_indices, b_indices, op.outputs[0])
        return None, da, None, None, db, None, None


@register
class SparseAddGrad(Op):
    """The gradients of the values of `SparseAdd`; 0 if the sum was dropped."""

    inputs = "backprop_val_grad: T, a_indices: int64, b_indices: int64, sum_indices: int64"
    outputs = "a_val_grad: T, b_val_grad: T"
    attrs = {"T": type_attr(NUMERIC)}
    kernels = _HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """One element per coordinate of each."""
        return [(node.with_rank(i, 2, "indices")[0],) for i in (1, 2)]

    def compute(
        self, xp: Any, dy: Array, a_indices: Array, b_indices: Array, sum_indices: Array
    ) -> tuple[Array, ...]:
        """(of a, of b)."""
        start = np.zeros(sum_indices.shape[-1], np.int64)
        return tuple(values_among(each, sum_indices, start, dy) for each in (a_indices, b_indices))


@register
class SparseTensorDenseAdd(Op):
    """The sum of a dense tensor and a sparse one of the same shape."""

    inputs = "a_indices: Tindices, a_values: T, a_shape: Tindices, b: T"
    outputs = "output: T"
    attrs = {"T": type_attr(NUMERIC), "Tindices": type_attr(INDEX)}
    kernels = _HOST
    infer = same_as(3)

    def compute(self, xp: Any, indices: Array, values: Array, shape: Array, dense: Array) -> Array:
        """The sum.

        Raises:
            InvalidArgumentError: The shapes differ.
        """
        check_parts(indices, values, shape)
        sizes = _same_shape(shape.astype(np.int64), np.array(dense.shape, np.int64))
        result = np.array(dense, order="C")
        positions = flat_positions(indices.astype(np.int64, copy=False), sizes)
        np.add.at(result.reshape(-1), positions, values)
        return result

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """The gradient at the coordinates, and the whole gradient."""
        return None, g.GatherNd(dy, op.inputs[0]), None, dy


class _SparseDenseCwise(Op):
    """Combines elements of a sparse tensor with those of a dense one that is broadcast to it."""

    inputs = _ONE_TENSOR
    outputs = "output: T"
    attrs = {"T": type_attr(NUMERIC)}
    kernels = _HOST
    combine: ClassVar[Callable[..., Array]]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """One element per value."""
        return [(node.with_rank(0, 2, "sp_indices")[0],)]

    def compute(self, xp: Any, indices: Array, values: Array, shape: Array, dense: Array) -> Array:
        """The new values.

        Raises:
            InvalidArgumentError: The dense tensor cannot be broadcast to the sparse one.
        """
        check_parts(indices, values, shape)
        sizes = tuple(int(size) for size in shape)
        flat_positions(indices, sizes)
        try:
            whole = np.broadcast_to(dense, sizes)
        except ValueError as error:
            raise InvalidArgumentError(
                message="SparseDenseBinaryOpShared broadcasts dense to sparse only; got "
                f"incompatible shapes: [{','.join(map(str, sizes))}] vs. "
                f"{bracketed(dense.shape)}"
            ) from error
        return np.asarray(type(self).combine(values, whole[tuple(indices.T)]), values.dtype)


def _chosen(g: GraphBuilder, op: OperationView) -> tuple[Tensor, Tensor]:
    """Returns the coordinates of the elements in the dense tensor, and the elements there."""
    indices, _, shape, dense = op.inputs
    zero, one = np.array([0], np.int64), np.array([1], np.int64)
    sizes = g.Shape(dense, out_type=int64)
    extra = g.Sub(g.Size(shape, out_type=int64), g.Size(sizes, out_type=int64))
    begin = g.Reshape(extra, one.astype(np.int32))
    sparse_sizes = g.StridedSlice(shape, begin, zero, one, end_mask=1)
    scale = g.FloorDiv(sparse_sizes, g.Maximum(sizes, g.OnesLike(sizes)))
    scale = g.Maximum(scale, g.OnesLike(scale))
    two_zero = g.const(zero, int64)
    start = g.ConcatV2([two_zero, begin], np.array(0, np.int32))
    none, ones = np.array([0, 0], np.int64), np.array([1, 1], np.int64)
    columns = g.StridedSlice(indices, start, none, ones, begin_mask=1, end_mask=3)
    places = g.FloorDiv(columns, scale)
    return places, g.GatherNd(dense, places)


@register
class SparseDenseCwiseAdd(_SparseDenseCwise):
    """The sum, at the coordinates of the sparse tensor only."""

    combine = staticmethod(np.add)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """There is none in TensorFlow.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("Gradient for SparseDenseCwiseAdd is not implemented.")


@register
class SparseDenseCwiseMul(_SparseDenseCwise):
    """The product."""

    combine = staticmethod(np.multiply)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """Dy times the other factor."""
        places, found = _chosen(g, op)
        dense = op.inputs[3]
        rows = g.Mul(dy, conjugated(g, op.inputs[1]))
        whole = g.ScatterNd(places, rows, g.Shape(dense, out_type=int64))
        return None, g.Mul(dy, conjugated(g, found)), None, whole


@register
class SparseDenseCwiseDiv(_SparseDenseCwise):
    """The quotient, sparse divided by dense."""

    @staticmethod
    def combine(values: Array, dense: Array) -> Array:
        """Truncated for integers."""
        if values.dtype.kind in "iu":
            return np.trunc(values / dense).astype(values.dtype)
        return values / dense

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """Dy / b and -dy a / b²."""
        places, found = _chosen(g, op)
        divisor = conjugated(g, found)
        values = conjugated(g, op.inputs[1])
        rows = g.Neg(g.Mul(dy, g.RealDiv(g.RealDiv(values, divisor), divisor)))
        whole = g.ScatterNd(places, rows, g.Shape(op.inputs[3], out_type=int64))
        return None, g.RealDiv(dy, divisor), None, whole


class _SparseSparse(Op):
    """Combines elements of two sparse tensors of one shape; missing ones are 0."""

    inputs = _PAIR
    outputs = "output_indices: int64, output_values: T"
    attrs = {"T": type_attr(REAL)}
    kernels = _HOST
    gradient = not_differentiable
    combine: ClassVar[Callable[..., Array]]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(unknown, rank), (unknown,)."""
        return [(None, node.with_rank(2, 1, "a_shape")[0]), (None,)]

    def compute(
        self,
        xp: Any,
        a_indices: Array,
        a_values: Array,
        a_shape: Array,
        b_indices: Array,
        b_values: Array,
        b_shape: Array,
    ) -> tuple[Array, Array]:
        """(indices, values).

        Raises:
            InvalidArgumentError: The shapes differ.
        """
        check_parts(a_indices, a_values, a_shape)
        check_parts(b_indices, b_values, b_shape)
        shape = _same_shape(a_shape, b_shape)
        first, second = (flat_positions(each, shape) for each in (a_indices, b_indices))
        indices, of_a, of_b = _merged(first, second, shape)
        a, b = (np.zeros(len(indices), a_values.dtype) for _ in range(2))
        a[of_a], b[of_b] = a_values, b_values
        return indices, type(self).combine(a, b)


@register
class SparseSparseMaximum(_SparseSparse):
    """The larger elements."""

    combine = staticmethod(np.maximum)


@register
class SparseSparseMinimum(_SparseSparse):
    """The smaller elements."""

    combine = staticmethod(np.minimum)


@register
class SparseSoftmax(Op):
    """Softmax over the elements that share all coordinates but the last."""

    inputs = "sp_indices: int64, sp_values: T, sp_shape: int64"
    outputs = "output: T"
    attrs = {"T": type_attr(FLOATING)}
    kernels = _HOST
    infer = same_as(1, 1, "sp_values")

    def compute(self, xp: Any, indices: Array, values: Array, shape: Array) -> Array:
        """The new values.

        Raises:
            InvalidArgumentError: Fewer than two dimensions.
        """
        check_parts(indices, values, shape)
        if len(shape) < 2:
            raise InvalidArgumentError(
                message=f"Input should have rank >= 2, but received shape {bracketed(shape)}"
            )
        if not len(values):
            return values
        rows = flat_positions(indices[:, :-1], shape[:-1].tolist())
        _, row = np.unique(rows, return_inverse=True)
        largest = np.full(row.max() + 1, -np.inf, values.dtype)
        np.maximum.at(largest, row, values)
        powers = np.exp(values - largest[row])
        sums = np.zeros(len(largest), values.dtype)
        np.add.at(sums, row, powers)
        return powers / sums[row]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """(dy - sum of dy y over the row) y."""
        indices, _, shape = op.inputs
        y = op.outputs[0]
        last = np.array([-1], np.int32)
        sums = g.SparseReduceSum(indices, g.Mul(y, dy), shape, last, keep_dims=True)
        beside = g.SparseDenseCwiseAdd(indices, dy, shape, g.Neg(sums))
        return None, g.Mul(beside, y), None


class _SparseReduce(Op):
    """Reduces elements over some axes; the result for no elements is 0."""

    inputs = "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32"
    attrs = {"keep_dims": bool_attr(False), "T": type_attr(NUMERIC)}
    kernels = _HOST
    is_sparse: ClassVar[bool] = False
    ufunc: ClassVar[Any]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The remaining shape of the input; for a sparse result unknown."""
        shape = known_sizes(node, 2, "input_shape")
        if self.is_sparse:
            return [(None, None), (None,), (None,)]
        axes, keep_dims = node.value(3), node.attrs["keep_dims"]
        if shape is None or axes is None or not axes.size:
            return [shapes.unknown(len(shape) if shape is not None and keep_dims else None)]
        return [without_axes(shape, checked_axes(ints(axes), shape, twice=True), keep_dims)]

    def compute(
        self,
        xp: Any,
        indices: Array,
        values: Array,
        shape: Array,
        reduction_axes: Array,
        *,
        keep_dims: bool,
    ) -> Any:
        """The dense result, or the parts of a sparse one.

        Raises:
            InvalidArgumentError: An axis does not exist.
        """
        check_parts(indices, values, shape)
        rank = len(shape)
        axes = [int(axis) for axis in reduction_axes.reshape(-1)]
        for axis in axes:
            if not -rank <= axis < rank:
                raise InvalidArgumentError(
                    message=f"Invalid reduction dimension {axis}, for input with {rank} dimensions."
                )
        gone = {axis % rank for axis in axes} if axes else set(range(rank))
        rest = [axis for axis in range(rank) if axis not in gone]
        sizes = [int(shape[axis]) for axis in rest]
        place = checked_positions(indices, shape.tolist(), rest).numbers
        count = int(np.prod(sizes, dtype=np.int64))
        if self.is_sparse:
            groups, place = np.unique(place, return_inverse=True)
            count = len(groups)
        combined = np.zeros(count, values.dtype)
        # Groups start with their first element, for sums with -0, which does not change it.
        combined[place] = -combined[:1] if self.ufunc is np.add else values
        self.ufunc.at(combined, place, values)
        kept = [1 if axis in gone else int(shape[axis]) for axis in range(rank)]
        result_shape = kept if keep_dims else sizes
        if self.is_sparse:
            found = coordinates(groups, result_shape)
            return found, combined, np.asarray(result_shape, np.int64)
        return combined.reshape(result_shape)


@register
class SparseReduceSum(_SparseReduce):
    """The sums, as a dense tensor."""

    outputs = "output: T"
    ufunc = np.add

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """The gradient of the sum that contains each element."""
        indices, _, shape, axes = op.inputs
        rank = g.Size(shape)
        zero = np.array(0, np.int32)
        if g.value(axes) is None or not g.value(axes).size:
            given = g.Size(axes)
            some = g.Cast(g.Greater(given, zero), DstT=indices.dtype)
            some_axes = _kept_sizes(g, shape, g.FloorMod(axes, rank))
            sizes = g.Add(g.Mul(some, some_axes), g.Sub(g.OnesLike(shape), some))
        else:
            sizes = _kept_sizes(g, shape, g.FloorMod(axes, rank))
        scale = g.FloorDiv(shape, g.Maximum(sizes, g.OnesLike(sizes)))
        places = g.FloorDiv(indices, g.Maximum(scale, g.OnesLike(scale)))
        return None, g.GatherNd(g.Reshape(dy, sizes), places), None, None


def _kept_sizes(g: GraphBuilder, shape: Tensor, axes: Tensor) -> Tensor:
    """The shape with 1 for the axes."""
    flat = g.Reshape(axes, np.array([-1, 1], np.int32))
    ones = g.Reshape(g.Cast(g.OnesLike(flat), DstT=int64), np.array([-1], np.int32))
    return g.TensorScatterUpdate(shape, flat, ones)


@register
class SparseReduceSumSparse(_SparseReduce):
    """The sums, as a sparse tensor."""

    outputs = "output_indices: int64, output_values: T, output_shape: int64"
    is_sparse = True
    ufunc = np.add


@register
class SparseReduceMax(_SparseReduce):
    """The largest elements, as a dense tensor."""

    attrs = {"keep_dims": bool_attr(False), "T": type_attr(REAL)}
    outputs = "output: T"
    ufunc = np.maximum


@register
class SparseReduceMaxSparse(_SparseReduce):
    """The largest elements, as a sparse tensor."""

    attrs = {"keep_dims": bool_attr(False), "T": type_attr(REAL)}
    outputs = "output_indices: int64, output_values: T, output_shape: int64"
    is_sparse = True
    ufunc = np.maximum
