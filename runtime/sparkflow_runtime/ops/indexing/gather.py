"""Gathering slices of a tensor by index, and the inverse: adding slices at indices.

The gradient of a gather along the first dimension is sparse, so that an optimizer updates only the
rows of an embedding that a batch used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.rows import fixed_rows
from sparkflow_runtime.codegen.rows.axis_gather import gather_along
from sparkflow_runtime.codegen.rows.linear_indices import linear_indices
from sparkflow_runtime.dtypes import INDEX, PLAIN, int16, int32, string
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.indexing.segment import SUMMED_BY_INDEX
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.machine_call import CallSite, MachineCall
from sparkflow_runtime.ops.native import row_kernels
from sparkflow_runtime.ops.native.equal_rows import sum_by_segment
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import (
    STRINGS_ON_HOST,
    bracketed,
    check_indices,
    checked_dims,
    constant_scalar,
    constant_shape,
    scalar,
    shape_tensor,
    static_rank,
    vector,
)
from sparkflow_runtime.ops.value import moving
from sparkflow_runtime.shapes import Dim, Shape

_OF_SCALARS = "Shape must be at least rank 1 but is rank 0: params must be at least 1 dimensional"


def _sparse_gradient(g: GraphBuilder, params: Tensor, indices: Tensor, dy: Tensor) -> Any:
    """Row i of the flattened dy belongs at row indices[i] of params."""
    shape = shape_tensor(g, params)
    minus_one = np.array([-1], np.int32)
    static = g.shape(params)
    if static is not None and None not in static[1:] and 0 not in static[1:]:
        values_shape: Any = g.const(np.array([-1, *static[1:]], np.int32), int32)
    else:
        count = g.Reshape(g.Size(indices), minus_one)
        row = g.Slice(shape, np.array([1], np.int32), minus_one)
        values_shape = g.ConcatV2([count, row], np.array(0, np.int32))
    rows = indices if static_rank(g, indices) == 1 else g.Reshape(indices, minus_one)
    return g.indexed_slices(g.Reshape(dy, values_shape), rows, shape)


@register
class Gather(Op):
    """Slices of the first dimension: output[i, ...] = params[indices[i], ...]."""

    looks_up_rows = True
    inputs = "params: Tparams, indices: Tindices"
    outputs = "output: Tparams"
    attrs = {
        "validate_indices": bool_attr(True),
        "Tparams": type_attr(),
        "Tindices": type_attr(INDEX),
    }
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """indices.shape + params.shape[1:]."""
        params, indices = node.shapes
        if params is None:
            return [None]
        if not params:
            raise InvalidArgumentError(message=_OF_SCALARS)
        return [shapes.concatenate(indices, params[1:])]

    def compute(self, xp: Any, params: Array, indices: Array) -> Array:
        """The slices.

        Raises:
            InvalidArgumentError: An index is outside the first dimension.
        """
        if not params.ndim:
            raise InvalidArgumentError(message=_OF_SCALARS)
        return _take(xp, params, indices, 0)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """Fills the array with the slices; on the host only."""
        return gather_into if context.xp is np else None

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """Copies of rows."""
        return _call_of_rows(site)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """Sparse: the rows of dy at indices."""
        params, indices = op.inputs
        return _sparse_gradient(g, params, indices, dy), None


def gather_into(params: Array, indices: Array, out: Array) -> None:
    """Writes slices of the first dimension into a host array.

    Raises:
        InvalidArgumentError: An index is out of bounds, or the tensor is a scalar.
    """
    if not params.ndim:
        raise InvalidArgumentError(message=_OF_SCALARS)
    if not indices.ndim and 0 <= (row := int(indices)) < params.shape[0]:
        out[...] = params[row]  # 0.5 us, machine code 6
    elif row_kernels.gather(params, indices, out) is None:
        out[...] = _take(np, params, indices, 0)


def _call_of_rows(site: CallSite) -> MachineCall | None:
    (rows, *row), indices = site.shapes[0], site.shapes[1]
    number, index = site.dtypes[:2]
    if number not in PLAIN or index not in fixed_rows.INDICES:
        return None
    row_bytes = math.prod(row) * number.size
    kernel = fixed_rows.bind_gather(index, math.prod(indices), rows, row_bytes)
    return MachineCall(kernel, (0, 1), can_fail=True)


def _take(xp: Any, params: Array, indices: Array, axis: int) -> Array:
    if xp is np:
        along = gather_along(params, indices, axis) if axis else row_kernels.gather(params, indices)
        if along is not None:
            return along
    check_indices(xp, indices, params.shape[axis])
    flat = indices.reshape(-1)  # not a scalar, for which numpy would return a bare Python string
    # Checked above, so numpy need not take its slower, checking path.
    taken = np.take(params, flat, axis, mode="clip") if xp is np else xp.take(params, flat, axis)
    return taken.reshape(params.shape[:axis] + indices.shape + params.shape[axis + 1 :])


@register
class GatherV2(Op):
    """Slices along `axis`, after `batch_dims` leading dimensions that params and indices share."""

    looks_up_rows = True
    inputs = "params: Tparams, indices: Tindices, axis: Taxis"
    outputs = "output: Tparams"
    attrs = {
        "batch_dims": int_attr(0),
        "Tparams": type_attr(),
        "Tindices": type_attr(INDEX | {int16}),
        "Taxis": type_attr(INDEX),
    }
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1:]."""
        params, indices = node.shapes[:2]
        axis = constant_scalar(node, 2, "axis")
        if params is None or indices is None:
            return [None]
        if not params:
            raise InvalidArgumentError(message=_OF_SCALARS)
        batch = _checked_batch(node.attrs["batch_dims"], params, indices)
        if axis is None:
            return [(None,) * (len(params) + len(indices) - batch - 1)]
        axis = _checked_axis(axis, len(params), batch)
        merged = shapes.merge(params[:batch], indices[:batch])
        assert merged is not None
        return [(*merged, *params[batch:axis], *indices[batch:], *params[axis + 1 :])]

    def compute(
        self, xp: Any, params: Array, indices: Array, axis: Array, *, batch_dims: int
    ) -> Array:
        """The slices.

        Raises:
            InvalidArgumentError: An index is outside the dimension, the axis does not exist, or
                the leading dimensions differ.
        """
        if not params.ndim:
            raise InvalidArgumentError(message=_OF_SCALARS)
        batch = _checked_batch(batch_dims, params.shape, indices.shape)
        position = _checked_axis(scalar(axis, "axis"), params.ndim, batch)
        if not batch:
            return _take(xp, params, indices, position)
        size = params.shape[position]
        if xp is np:
            along = gather_along(params, indices, position, batch)
            if along is not None:
                return along
        check_indices(xp, indices, size)
        # (batch..., before..., size, after...) -> (batch * size, before..., after...), so that one
        # gather along the first dimension is enough.
        lead = params.shape[:batch]
        count = int(np.prod(lead))
        front = xp.moveaxis(params, position, batch)
        rows = front.reshape(count * size, *front.shape[batch + 1 :])
        first = xp.arange(count).reshape(count, *(1,) * (indices.ndim - batch)) * size
        taken = rows[indices.reshape(count, *indices.shape[batch:]) + first]
        taken = taken.reshape(indices.shape + front.shape[batch + 1 :])
        order = (
            *range(batch),
            *range(indices.ndim, indices.ndim + position - batch),
            *range(batch, indices.ndim),
            *range(indices.ndim + position - batch, taken.ndim),
        )
        return taken.transpose(order)

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """As `compute`, which is asked only where machine code does not look up rows."""
        compute = super().bind(node, context)
        if context.xp is not np or node.attrs["batch_dims"]:
            return compute

        def run(params: Array, indices: Array, axis: Array) -> Array:
            if params.ndim and not axis.ndim and not axis:
                found = row_kernels.gather(params, indices)
                if found is not None:
                    return found
            return compute(params, indices, axis)

        return run

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """Fills the array with the slices; on the host and without batch dimensions only."""
        if context.xp is not np or node.attrs["batch_dims"]:
            return None

        def fill(params: Array, indices: Array, axis: Array, out: Array) -> None:
            if 0 < axis < params.ndim and gather_along(params, indices, int(axis), 0, out) is out:
                return
            if int(axis):
                out[...] = self.compute(np, params, indices, axis, batch_dims=0)
            else:
                gather_into(params, indices, out)

        return fill

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """Copies of rows; none along other dimensions."""
        axis = site.constants[2]
        if axis is None or int(axis) or node.attrs["batch_dims"]:
            return None
        return _call_of_rows(site)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """Sparse along the first dimension; dense, as a sum by index, along another."""
        params, indices, axis = op.inputs
        batch = op.attr("batch_dims")
        position = g.value(axis)
        if batch == 0 and position is not None and int(position) == 0:
            return _sparse_gradient(g, params, indices, dy), None, None
        return _dense_gradient(g, params, indices, axis, batch, dy), None, None


def _checked_batch(batch: int, params: Sequence[Dim], indices: Sequence[Dim]) -> int:
    rank = len(indices)
    if not -rank <= batch <= rank:
        raise InvalidArgumentError(
            message=f"Expected batch_dims in the range [{-rank}, {rank}], but got {batch}"
        )
    batch = batch + rank if batch < 0 else batch
    if batch >= len(params):
        raise InvalidArgumentError(
            message=f"batch_dims ({batch}) must be less than rank(params) ({len(params)})."
        )
    if not shapes.is_compatible(tuple(params[:batch]), tuple(indices[:batch])):
        raise InvalidArgumentError(
            message=f"The first {batch} dimensions of params and indices must be equal, but params "
            f"has shape {bracketed(params)} and indices has shape {bracketed(indices)}"
        )
    return batch


def _checked_axis(axis: int, rank: int, batch: int) -> int:
    shapes.require_at_least(
        rank, axis, f"Expected axis in the range [{-rank}, {rank}), but got {axis}"
    )
    axis %= rank
    if batch > axis:
        raise InvalidArgumentError(
            message=f"batch_dims ({batch}) must be less than or equal to axis ({axis})."
        )
    return axis


def _dense_gradient(
    g: GraphBuilder, params: Tensor, indices: Tensor, axis: Tensor, batch: int, dy: Tensor
) -> Tensor:
    """The sums of dy by index.

    Everything is reshaped to [batch, before, size, after] with one dimension per group: dy as
    [batch, before, index, after], moved to [batch, index, before, after] and summed by index + size
    · batch.
    """
    zero, one = (g.const(np.array(i, np.int32), int32) for i in (0, 1))
    shape, index_shape = shape_tensor(g, params), shape_tensor(g, indices)
    rank = g.Rank(params)
    position = g.FloorMod(g.Cast(axis, SrcT=axis.dtype, DstT=int32), rank)
    lead = g.const(np.array(batch, np.int32), int32)
    if batch < 0:
        lead = g.Add(lead, g.Rank(indices))

    def product(vector: Tensor, begin: Tensor, end: Tensor) -> Tensor:
        bounds = (g.Reshape(each, np.array([1], np.int32)) for each in (begin, g.Sub(end, begin)))
        return g.Prod(g.Slice(vector, *bounds), zero)

    batches = product(shape, zero, lead)
    before = product(shape, lead, position)
    size = product(shape, position, g.Add(position, one))
    after = product(shape, g.Add(position, one), rank)
    per_batch = product(index_shape, lead, g.Rank(indices))

    moved = g.Transpose(
        g.Reshape(dy, g.Pack([batches, before, per_batch, after])), np.array([0, 2, 1, 3], np.int32)
    )
    first = g.Mul(g.Range(zero, batches, one), size)
    rows = g.Add(
        g.Reshape(g.Cast(indices, SrcT=indices.dtype, DstT=int32), g.Pack([batches, per_batch])),
        g.Reshape(first, g.Pack([batches, one])),
    )
    sums = g.UnsortedSegmentSum(
        g.Reshape(moved, g.Pack([g.Mul(batches, per_batch), before, after])),
        g.Reshape(rows, g.Reshape(g.Mul(batches, per_batch), np.array([1], np.int32))),
        g.Mul(batches, size),
    )
    parts = g.Reshape(sums, g.Pack([batches, size, before, after]))
    return g.Reshape(g.Transpose(parts, np.array([0, 2, 1, 3], np.int32)), shape)


@register
class GatherNd(Op):
    """output[i, ...] = params[indices[i, 0], indices[i, 1], ..., ...]: each index is a vector."""

    inputs = "params: Tparams, indices: Tindices"
    outputs = "output: Tparams"
    attrs = {
        "Tparams": type_attr(),
        "Tindices": type_attr(INDEX | {int16}),
        "bad_indices_policy": string_attr("", frozenset({"", "DEFAULT", "ERROR"})),
    }
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """indices.shape[:-1] + params.shape[indices.shape[-1]:]."""
        params, indices = node.shapes
        if indices == ():
            raise InvalidArgumentError(message="indices must be at least a vector")
        if params is None or indices is None or indices[-1] is None:
            return [None]
        check_depth(indices[-1], len(params), "params")
        return [indices[:-1] + params[indices[-1] :]]

    def compute(self, xp: Any, params: Array, indices: Array) -> Array:
        """The slices.

        Raises:
            InvalidArgumentError: An index vector is too long or points outside of params.
        """
        if not indices.ndim:
            raise InvalidArgumentError(message="indices must be at least a vector")
        depth = indices.shape[-1]
        check_depth(depth, params.ndim, "params")
        rows = linear_rows(xp, indices, params.shape, "param ")
        flat = params.reshape(math.prod(params.shape[:depth]), *params.shape[depth:])
        found = row_kernels.gather(flat, rows) if xp is np else None
        found = flat[rows] if found is None else found
        return found.reshape(indices.shape[:-1] + params.shape[depth:])

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """Adds dy at indices; sparse where each index is a row number."""
        params, indices = op.inputs
        static = g.shape(indices)
        if static is not None and len(static) == 2 and static[1] == 1:
            rows = g.Squeeze(indices, squeeze_dims=[-1])
            return g.indexed_slices(dy, rows, shape_tensor(g, params)), None
        index_dtype = indices.dtype if indices.dtype in INDEX else int32
        wide = g.Cast(indices, SrcT=indices.dtype, DstT=index_dtype)
        return g.ScatterNd(wide, dy, shape_tensor(g, params, index_dtype)), None


def check_depth(depth: int, rank: int, name: str) -> None:
    """Checks that index vectors are no longer than the rank of the indexed tensor.

    Raises:
        InvalidArgumentError: They are longer.
    """
    if depth > rank:
        raise InvalidArgumentError(
            message=f"The innermost dimension length of indices must be <= rank of {name}, "
            f"but is {depth} and the rank is {rank}"
        )


def linear_rows(xp: Any, indices: Array, shape: Sequence[int], name: str) -> Array:
    """The row number of each index vector among all slices of its depth.

    Raises:
        InvalidArgumentError: One is out of bounds; the message shows it.
    """
    depth = indices.shape[-1]
    count = math.prod(indices.shape[:-1])
    if not depth:
        return xp.zeros(count, xp.int64)
    flat = indices.reshape(count, depth)
    quick = linear_indices(flat, shape[:depth]) if xp is np else None
    if quick is not None:
        return quick
    bounds = xp.asarray(shape[:depth], dtype=xp.int64)
    outside = ((flat < 0) | (flat >= bounds)).any(axis=1)
    if outside.any():
        at = int(xp.argmax(outside))
        place = ",".join(str(int(i)) for i in np.unravel_index(at, indices.shape[:-1]))
        raise InvalidArgumentError(
            message=f"indices{f'[{place}]' if place else ''} = {flat[at].tolist()} does not index "
            f"into {name}shape {bracketed(shape)}"
        )
    rows = xp.zeros(count, xp.int64)
    for axis in range(depth):
        rows = rows * shape[axis] + flat[:, axis]
    return rows


@register
class ScatterNd(Op):
    """Zeros of shape `shape` with updates[i, ...] added where the vector indices[i] points."""

    inputs = "indices: Tindices, updates: T, shape: Tindices"
    outputs = "output: T"
    attrs = {
        "T": type_attr(PLAIN | {string}),
        "Tindices": type_attr(INDEX | {int16}),
        "bad_indices_policy": string_attr("", frozenset({"", "DEFAULT", "ERROR"})),
    }
    kernels = SUMMED_BY_INDEX

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape given."""
        indices, updates = node.shapes[:2]
        if indices == ():
            raise InvalidArgumentError(message="indices must be at least a vector")
        shape = constant_shape(node, 2, "shape")
        if indices is not None and indices[-1] is not None and shape is not None:
            check_depth(indices[-1], len(shape), "shape")
            expected = indices[:-1] + shape[indices[-1] :]
            if not shapes.is_compatible(expected, updates):
                raise InvalidArgumentError(message=updates_text(updates, expected))
        return [shape]

    def compute(self, xp: Any, indices: Array, updates: Array, shape: Array) -> Array:
        """The sums; where an index appears several times, its updates add up.

        Raises:
            InvalidArgumentError: An index vector is too long or points outside, or the updates do
                not have the shape indices.shape[:-1] + shape[depth:].
        """
        dims = checked_dims(vector(shape, "shape"), "shape")
        if not indices.ndim:
            raise InvalidArgumentError(message="indices must be at least a vector")
        depth = indices.shape[-1]
        check_depth(depth, len(dims), "shape")
        expected = indices.shape[:-1] + dims[depth:]
        if updates.shape != expected:
            raise InvalidArgumentError(message=updates_text(updates.shape, expected))
        rows = linear_rows(xp, indices, dims, "")
        data = updates.reshape(rows.size, *dims[depth:])
        if data.dtype.hasobject:  # strings at the same index are concatenated
            texts = np.full((int(np.prod(dims[:depth])), *dims[depth:]), b"", object)
            np.add.at(texts, rows, data)
            return texts.reshape(dims)
        return sum_by_segment(xp, data, rows, int(np.prod(dims[:depth]))).reshape(dims)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The slices of dy at indices."""
        return None, g.GatherNd(dy, op.inputs[0]), None


def updates_text(updates: Shape, expected: Shape) -> str:
    """The error message for a wrong shape of updates."""
    return (
        f"updates must have shape indices.shape[:-1] + shape[depth:] = {bracketed(expected)}, "
        f"but has {bracketed(updates)}"
    )
