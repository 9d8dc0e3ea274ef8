"""Ops that create or search indices: one-hot, where, top k, unique.

Gathering and adding slices at given indices is in `gather`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.ir.kernel import DTYPES
from sparkflow_runtime.codegen.rows import fixed_rows, radix, ranking
from sparkflow_runtime.codegen.rows.largest import bind_largest, largest
from sparkflow_runtime.codegen.sparse.nonzero import nonzero
from sparkflow_runtime.dtypes import (
    INDEX,
    PLAIN,
    REAL,
    DType,
    bool_,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.fusion import Fused, Fusion, fit
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.ordering import (
    LEAST_SORTED,
    descending,
    largest_of_long,
)
from sparkflow_runtime.ops.machine_call import CallSite, MachineCall
from sparkflow_runtime.ops.native.string_index import distinct
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, type_attr
from sparkflow_runtime.ops.static import (
    STRINGS_ON_HOST,
    bracketed,
    constant_scalar,
    scalar,
    shape_tensor,
)
from sparkflow_runtime.shapes import Dim, Shape

_ROW_PER_FEW = 8
"""The ratio of row length to k from which a partition beats sorting."""


@register
class OneHot(Op):
    """`on_value` at the index along a new dimension of size `depth`, `off_value` elsewhere.

    An index outside [0, depth) yields `off_value` everywhere.
    """

    capturable = True
    host_inputs = frozenset({"depth"})
    inputs = "indices: TI, depth: int32, on_value: T, off_value: T"
    outputs = "output: T"
    attrs = {
        "axis": int_attr(-1),
        "T": type_attr(),
        "TI": type_attr(INDEX | {uint8, int8}, int64),
    }
    kernels = STRINGS_ON_HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """indices.shape with `depth` inserted at `axis`."""
        depth = constant_scalar(node, 1, "depth")
        node.with_rank(2, 0, "on_value")
        node.with_rank(3, 0, "off_value")
        shape = node.shapes[0]
        if depth is not None:
            _check_depth(depth)
        if shape is None:
            return [None]
        axis = _one_hot_axis(node.attrs["axis"], len(shape))
        return [(*shape[:axis], depth, *shape[axis:])]

    def compute(
        self, xp: Any, indices: Array, depth: Array, on_value: Array, off_value: Array, *, axis: int
    ) -> Array:
        """The one-hot tensor.

        Raises:
            InvalidArgumentError: A negative depth, or an axis that does not exist.
        """
        count = scalar(depth, "depth")
        _check_depth(count)
        position = _one_hot_axis(axis, indices.ndim)
        if xp is not np:  # checking the indices would mean waiting for the device
            hot = xp.expand_dims(indices, -1) == xp.arange(count)
            return xp.moveaxis(xp.where(hot, on_value, off_value), -1, position)
        shape = (*indices.shape[:position], count, *indices.shape[position:])
        result = np.empty(shape, on_value.dtype)
        _fill_one_hot(indices, on_value, off_value, position, result)
        return result

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """As `compute`."""
        axis = node.attrs["axis"]

        def run(
            indices: Array, depth: Array, on_value: Array, off_value: Array, out: Array
        ) -> None:
            position = _one_hot_axis(axis, indices.ndim)
            _fill_one_hot(indices, on_value, off_value, position, out)

        return run

    def is_fusable(self, node: NodeView) -> bool:
        """Whether kernels support both dtypes."""
        return node.attrs["T"] in DTYPES and node.attrs["TI"] in INDEX

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """A comparison of every position with the index."""
        shape, builder = fusion.output_shapes[0], fusion.builder
        axis = _one_hot_axis(fusion.attrs["axis"], len(fusion.shapes[0]))
        dims = fit(fusion.space, shape, [None] * len(shape), [size > 1 for size in shape])
        indices = builder.cast(fusion.input(0, dims[:axis] + dims[axis + 1 :]), int64)
        along = dims[axis]
        position = builder.constant(0, int64) if along is None else builder.index(along)
        on, off = (fusion.input(number, ()) for number in (2, 3))
        value = builder.call("where", builder.call("equal", position, indices), on, off)
        return [Fused(value, shape, dims)]


def _fill_one_hot(indices: Array, on_value: Array, off_value: Array, axis: int, out: Array) -> None:
    """Writes the off value everywhere, then the on value at the indices that are inside."""
    out[...] = off_value
    before, count, after = prod(out.shape[:axis]), out.shape[axis], prod(out.shape[axis + 1 :])
    parts, cells = indices.reshape(before, after), out.reshape(before, count, after)
    inside = (parts >= 0) & (parts < count)
    if inside.all():
        cells[np.arange(before)[:, None], parts, np.arange(after)] = on_value
    else:
        where = np.nonzero(inside)
        cells[where[0], parts[where], where[1]] = on_value


def _check_depth(depth: int) -> None:
    if depth < 0:
        raise InvalidArgumentError(message=f"depth must be non-negative, got: {depth}")


def _one_hot_axis(axis: int, rank: int) -> int:
    if not -1 <= axis <= rank:
        raise InvalidArgumentError(
            message=f"Expected axis to be -1 or between [0, {rank + 1}).  But received: {axis}"
        )
    return rank if axis == -1 else axis


@register
class Where(Op):
    """The coordinates of all non-zero elements, one row each, in row-major order."""

    inputs = "input: T"
    outputs = "index: int64"
    attrs = {"T": type_attr(PLAIN, bool_)}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(unknown, rank)."""
        shape = node.shapes[0]
        return [(None, None if shape is None else len(shape))]

    def compute(self, xp: Any, value: Array) -> Array:
        """[count, rank] int64.

        Raises:
            InvalidArgumentError: The input is a scalar.
        """
        if value.ndim == 0:
            raise InvalidArgumentError(message="WhereOp : Unhandled input dimensions: 0")
        found = None
        if xp is np:
            found = nonzero(value if value.dtype == np.bool_ else value != 0)
        return xp.argwhere(value).astype(xp.int64, copy=False) if found is None else found


@register
class TopKV2(Op):
    """The k largest elements of every row, largest first, and their indices.

    Of equal elements the one with the lower index comes first. If `sorted` is False, any order is
    allowed, so the result is the same.
    """

    inputs = "input: T, k: Tk"
    outputs = "values: T, indices: index_type"
    attrs = {
        "sorted": bool_attr(True),
        "T": type_attr(REAL),
        "Tk": type_attr(INDEX | {int16}, int32),
        "index_type": type_attr(INDEX | {int16}, int32),
    }

    def infer(self, node: Inference) -> Sequence[Shape]:
        """input.shape[:-1] + (k,), twice."""
        shape, k = node.shapes[0], constant_scalar(node, 1, "k")
        if shape is None:
            return [None, None]
        if k is not None:
            _check_k(k, shape, "input must have last dimension >= k = {k} but is {size}")
        elif not shape:
            _check_k(0, shape)
        return [(*shape[:-1], k)] * 2

    def compute(self, xp: Any, value: Array, k: Array, *, index_type: DType) -> tuple[Array, Array]:
        """(values, indices).

        Raises:
            InvalidArgumentError: k is negative or larger than a row, or the input is a scalar.
        """
        count = scalar(k, "k")
        _check_k(count, value.shape)
        quick = None
        if xp is np:
            are_most = count > value.shape[-1] // 4
            quick = radix.descending(value, count) if are_most else None
            if quick is None and not (are_most and value.size >= LEAST_SORTED):
                quick = largest(value, count)
        if quick is not None:
            return quick[0], quick[1].astype(index_type.numpy, copy=False)
        indices = _largest(xp, value, count)
        return xp.take_along_axis(value, indices, axis=-1), indices.astype(index_type.numpy)

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """A walk along every row."""
        number = site.dtypes[0]
        if number not in fixed_rows.NUMBERS or node.attrs["index_type"] != int32:
            return None
        *stack, size = site.shapes[0]
        count = site.output_shapes[0][-1]
        kernel = bind_largest(np.dtype(number.as_numpy_dtype), prod(stack), size, count)
        return None if kernel is None else MachineCall(kernel, (0,), can_fail=True)

    def gradient(
        self, g: GraphBuilder, op: OperationView, dy: Tensor | None, _: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """The gradient at the indices, zero elsewhere."""
        if dy is None:
            return None, None
        value, indices = op.inputs[0], op.outputs[1]
        if indices.dtype != int32:
            indices = g.Cast(indices, SrcT=indices.dtype, DstT=int32)
        zero, one, minus_one = (np.array(i, np.int32) for i in (0, 1, -1))
        shape, size = shape_tensor(g, value), g.Size(value)
        starts = g.Range(zero, size, g.Maximum(_last(g, shape), one))
        per_row = g.Pack([g.Size(starts), _last(g, shape_tensor(g, indices))])
        places = g.Add(g.Reshape(indices, per_row), g.Reshape(starts, np.array([-1, 1], np.int32)))
        everything = minus_one.reshape(1)
        sums = g.UnsortedSegmentSum(g.Reshape(dy, everything), g.Reshape(places, everything), size)
        return g.Reshape(sums, shape), None


def _largest(xp: Any, value: Array, count: int) -> Array:
    """The indices of the largest elements of each row; NaN is larger than all numbers."""
    if xp is np and 0 < count <= value.shape[-1] // _ROW_PER_FEW:
        found = largest_of_long(value.reshape(-1), count) if value.size == value.shape[-1] else None
        if found is not None:
            return found.reshape(*value.shape[:-1], count)
        by_digits = radix.descending(value, count)
        if by_digits is not None:
            return by_digits[1]
        if not np.isnan(value).any():
            candidates = _candidates(value, count)
            found = np.take_along_axis(value, candidates, axis=-1)
            return np.take_along_axis(candidates, descending(found), axis=-1)
    return descending(value, xp)[..., :count]


def _candidates(value: Array, k: int) -> Array:
    """The indices of the k largest of each row in ascending order; of equal ones the first.

    Found by a partition in linear time: 1.5 against 7.8 ms for 5 of 1000 in 128 rows (2026-11-21).
    """
    size = value.shape[-1]
    least = np.partition(value, size - k, axis=-1)[..., size - k, None]
    chosen = value > least
    level = value == least
    missing = k - chosen.sum(axis=-1, keepdims=True)
    chosen |= level & (np.cumsum(level, axis=-1) <= missing)
    return np.nonzero(chosen)[-1].reshape(*value.shape[:-1], k)


def _check_k(
    k: int,
    shape: Sequence[Dim],
    too_many: str = "input must have at least k columns. Had {size}, needed {k}",
) -> None:
    if not shape:
        raise InvalidArgumentError(message="input must be >= 1-D, got shape []")
    if k < 0:
        raise InvalidArgumentError(message=f"Need k >= 0, got {k}")
    if shape[-1] is not None and k > shape[-1]:
        raise InvalidArgumentError(message=too_many.format(size=shape[-1], k=k))


def _last(g: GraphBuilder, vector: Tensor) -> Tensor:
    """The last element of a vector, as a scalar."""
    bounds = (np.array([i], np.int32) for i in (-1, 0, 1))
    return g.StridedSlice(vector, *bounds, shrink_axis_mask=1)


@register
class Unique(Op):
    """The distinct elements of a vector in order of appearance, and which of them each is."""

    inputs = "x: T"
    outputs = "y: T, idx: out_idx"
    attrs = {"T": type_attr(), "out_idx": type_attr(INDEX, int32)}
    kernels = STRINGS_ON_HOST
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(unknown,) and the shape of x."""
        return [(None,), node.with_rank(0, 1, "x")]

    def compute(self, xp: Any, x: Array, *, out_idx: DType) -> tuple[Array, Array]:
        """(y, idx) with y[idx[i]] = x[i].

        Raises:
            InvalidArgumentError: x is not a vector.
        """
        if x.ndim != 1:
            raise InvalidArgumentError(
                message=f"unique expects a 1D vector, got shape {bracketed(x.shape)}"
            )
        if xp is np and (found := distinct(x)) is not None:
            return x[found[0]], found[1].astype(out_idx.numpy, copy=False)
        values, first, position = xp.unique(x, return_index=True, return_inverse=True)
        order = xp.argsort(first)
        rank = xp.empty_like(order)
        rank[order] = xp.arange(order.size)
        return values[order], rank[position].astype(out_idx.numpy)


class _InTopK(Op):
    """Whether the prediction for the target class is among the k largest of its row.

    Classes tied at the k-th place all count; a target outside the classes, or a row with an
    infinite or NaN prediction, does not.
    """

    outputs = "precision: bool"
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the targets: (batch,)."""
        batch = node.with_rank(0, 2, "predictions")[0]
        targets = node.with_rank(1, 1, "targets")[0]
        if None not in (batch, targets) and batch != targets:
            raise InvalidArgumentError(
                message=f"Dimensions must be equal, but are {batch} and {targets}"
            )
        return [(targets if batch is None else batch,)]

    def in_top(self, xp: Any, predictions: Array, targets: Array, k: int) -> Array:
        """[batch] bool.

        Raises:
            InvalidArgumentError: The shapes do not fit.
        """
        if predictions.ndim != 2 or targets.ndim != 1:
            raise InvalidArgumentError(
                message=f"predictions must be a matrix and targets a vector, got shapes "
                f"{bracketed(predictions.shape)} and {bracketed(targets.shape)}"
            )
        rows, classes = predictions.shape
        if rows != targets.size:
            raise InvalidArgumentError(message=_batch_text(rows, targets.size))
        if not classes:
            return xp.zeros(rows, xp.bool_)
        quick = ranking.in_top(predictions, targets, k) if xp is np else None
        if quick is not None:
            return quick
        exists = (targets >= 0) & (targets < classes)
        chosen = predictions[xp.arange(rows), xp.where(exists, targets, 0)]
        larger = (predictions > chosen[:, None]).sum(axis=1)
        return exists & (larger < k) & xp.isfinite(predictions).all(axis=1)


def _batch_text(predictions: int | None, targets: int | None) -> str:
    return f"First dimension of predictions {predictions} must match length of targets {targets}"


@register
class InTopK(_InTopK):
    """`in_top_k` with k as an attribute."""

    inputs = "predictions: float32, targets: T"
    attrs = {"k": int_attr(), "T": type_attr(INDEX, int32)}

    def compute(self, xp: Any, predictions: Array, targets: Array, *, k: int) -> Array:
        """[batch] bool.

        Raises:
            InvalidArgumentError: The shapes do not fit.
        """
        return self.in_top(xp, predictions, targets, k)


@register
class InTopKV2(_InTopK):
    """`in_top_k` with k as an input."""

    inputs = "predictions: float32, targets: T, k: T"
    attrs = {"T": type_attr(INDEX, int32)}

    def compute(self, xp: Any, predictions: Array, targets: Array, k: Array) -> Array:
        """[batch] bool.

        Raises:
            InvalidArgumentError: The shapes do not fit.
        """
        return self.in_top(xp, predictions, targets, scalar(k, "k"))
