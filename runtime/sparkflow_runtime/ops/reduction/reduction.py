"""Reductions over axes: sums, means, extremes, products, norms; importing registers `scan` too.

The axes are a tensor, as in TensorFlow. Without axes an input is copied, never returned itself,
since it may be the buffer of a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.ir.kernel import DTYPES, NARROW
from sparkflow_runtime.dtypes import (
    FLOATING,
    INDEX,
    NUMERIC,
    REAL,
    bool_,
    float16,
    float64,
    int32,
)
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.composition import Composed
from sparkflow_runtime.ops.elementwise.elementwise_table import conjugated
from sparkflow_runtime.ops.fusion import Fused, Fusion, axes_of
from sparkflow_runtime.ops.inference import one_per_element_read, scalars
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.filling import remembering
from sparkflow_runtime.ops.native.row_sums import is_worth_it, sum_rows
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.reduction import scan
from sparkflow_runtime.ops.reduction.axes import (
    checked_axes,
    read_axes,
    reduced_mask,
    reduced_shape,
    restore_axes,
)
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import Attr, bool_attr, type_attr
from sparkflow_runtime.ops.static import ints, shape_tensor, static_rank
from sparkflow_runtime.ops.value import REDUCING
from sparkflow_runtime.shapes import Shape

__all__ = ["All", "Any_", "EuclideanNorm", "L2Loss", "Max", "Mean", "Min", "Prod", "Sum", "scan"]


class ReductionOp(Op):
    """Reduces the axes that the second input names.

    Attributes:
        reduce: `(xp, x, axes, keep_dims, out=None)`, with at least one axis where the next is true.
        takes_out: Whether it writes the result into `out` and needs no other memory.
        copies_without_axes: Whether reducing no axis leaves the values unchanged.
        fused: The reduction of kernels that is the same; "" where there is none.
    """

    widens = NARROW
    capturable = True
    host_inputs = frozenset({"reduction_indices"})
    reduction = True
    inputs = "input: T, reduction_indices: Tidx"
    outputs = "output: T"
    fuse_over = 0
    reduce: ClassVar[Callable[..., Any]]
    takes_out: ClassVar[bool] = True
    copies_without_axes: ClassVar[bool] = True
    fused: ClassVar[str] = ""
    value_rule = REDUCING

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape without the axes, if they are constant."""
        return [reduced_shape(node, node.attrs["keep_dims"])]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The reduction; constant axes are read in the first step only."""
        keep_dims, xp = node.attrs["keep_dims"], context.xp
        reduce, axes_of = type(self).reduce, remembering(read_axes)
        copies = self.copies_without_axes

        def run(x: Array, reduction_indices: Array) -> Array:
            axes = axes_of(x.shape, reduction_indices)
            return x.copy() if copies and not axes else reduce(xp, x, axes, keep_dims)

        return run

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """The reduction, if it needs no memory."""
        if not self.takes_out:
            return None
        keep_dims, xp = node.attrs["keep_dims"], context.xp
        reduce, axes_of = type(self).reduce, remembering(read_axes)

        def run(x: Array, reduction_indices: Array, out: Array) -> None:
            axes = axes_of(x.shape, reduction_indices)
            if axes:
                reduce(xp, x, axes, keep_dims, out)
            else:
                xp.copyto(out, x)

        return run

    def is_fusable(self, node: NodeView) -> bool:
        """Whether kernels support this reduction for the dtype."""
        return bool(self.fused) and node.attrs.get("T", bool_) in DTYPES

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """A reduction over constant axes."""
        x = fusion.whole(0)
        axes = axes_of(fusion.constants[1], len(x.shape))
        return [fusion.reduce(self.fused, x, axes, fusion.attrs["keep_dims"])]


def _attrs(allowed: frozenset[Any]) -> dict[str, Attr]:
    return {
        "keep_dims": bool_attr(False),
        "T": type_attr(allowed),
        "Tidx": type_attr(INDEX, int32),
    }


def _sum(
    xp: Any, x: Array, axes: tuple[int, ...], keep_dims: bool, out: Array | None = None
) -> Array:
    if xp is np:
        leading = len(axes)
        if leading < x.ndim and axes == tuple(range(leading)):
            rest = x.shape[leading:]
            columns = prod(rest)
            if is_worth_it(xp, x, columns):
                into = None if out is None else out.reshape(columns)
                sums = sum_rows(x.reshape(-1, columns), into)
                return sums.reshape((*(1,) * leading, *rest) if keep_dims else rest)
        # A third faster on small arrays than the method.
        return xp.add.reduce(x, axes, x.dtype, out, keep_dims)
    return x.sum(axis=axes, dtype=x.dtype, out=out, keepdims=keep_dims)


def _mean(
    xp: Any, x: Array, axes: tuple[int, ...], keep_dims: bool, out: Array | None = None
) -> Array:
    count = prod(x.shape[axis] for axis in axes)
    kind = x.dtype.kind
    if kind in "iu":
        wide = np.int64 if kind == "i" else np.uint64
        total = x.sum(axis=axes, dtype=wide, keepdims=keep_dims)
        quotient = xp.absolute(total) // wide(max(count, 1))  # towards zero, as in C
        return (quotient * xp.sign(total)).astype(x.dtype)
    if x.dtype.itemsize == 2:  # a sum of float16 overflows at 65504
        total = x.sum(axis=axes, dtype=np.float32, keepdims=keep_dims)
        return (total / np.float32(count)).astype(x.dtype)
    return xp.divide(_sum(xp, x, axes, keep_dims, out), x.dtype.type(count), out=out)


def _prod(
    xp: Any, x: Array, axes: tuple[int, ...], keep_dims: bool, out: Array | None = None
) -> Array:
    return x.prod(axis=axes, dtype=x.dtype, out=out, keepdims=keep_dims)


def _max(
    xp: Any, x: Array, axes: tuple[int, ...], keep_dims: bool, out: Array | None = None
) -> Array:
    if not x.size:
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        return _filled(xp, x, axes, keep_dims, out, lowest)
    return x.max(axis=axes, out=out, keepdims=keep_dims)


def _min(
    xp: Any, x: Array, axes: tuple[int, ...], keep_dims: bool, out: Array | None = None
) -> Array:
    if not x.size:
        highest = np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).max
        return _filled(xp, x, axes, keep_dims, out, highest)
    return x.min(axis=axes, out=out, keepdims=keep_dims)


def _filled(
    xp: Any, x: Array, axes: tuple[int, ...], keep_dims: bool, out: Array | None, value: Any
) -> Array:
    """The result of reducing no elements."""
    result = xp.asarray(_sum(xp, x, axes, keep_dims)) if out is None else out
    result.fill(value)
    return result


def _all(
    xp: Any, x: Array, axes: tuple[int, ...], keep_dims: bool, out: Array | None = None
) -> Array:
    return x.all(axis=axes, out=out, keepdims=keep_dims)


def _any(
    xp: Any, x: Array, axes: tuple[int, ...], keep_dims: bool, out: Array | None = None
) -> Array:
    return x.any(axis=axes, out=out, keepdims=keep_dims)


def _broadcast_back(g: GraphBuilder, op: OperationView, gradient: Tensor) -> Tensor:
    """A gradient in the shape of the output, repeated to the shape of the input."""
    x, axes = op.inputs
    restored = restore_axes(g, x, axes, gradient, op.attr("keep_dims"))
    return g.BroadcastTo(restored, shape_tensor(g, x))


@register
class Sum(ReductionOp):
    """The sum, in the input's own dtype."""

    by_segment = "UnsortedSegmentSum"
    attrs = _attrs(NUMERIC)
    reduce = _sum
    fused = "reduce_sum"
    float_operations = one_per_element_read

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The same for every element summed."""
        return _broadcast_back(g, op, dy), None


@register
class Mean(ReductionOp):
    """The mean; truncated for integers; of no elements NaN (0 for integers)."""

    attrs = _attrs(NUMERIC)
    reduce = _mean
    float_operations = one_per_element_read

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """The mean of numbers that are summed in their own dtype."""
        dtype = node.attrs["T"]
        return None if dtype.is_integer or dtype is float16 else super().bind_out(node, context)

    def is_fusable(self, node: NodeView) -> bool:
        """Of floating-point numbers."""
        return node.attrs["T"] in DTYPES and node.attrs["T"].is_floating

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """The sum, divided by the number of elements."""
        x = fusion.whole(0)
        axes = axes_of(fusion.constants[1], len(x.shape))
        count = float(prod(x.shape[axis] for axis in axes))
        total = fusion.reduce("reduce_sum", x, axes, fusion.attrs["keep_dims"])
        if total.is_final:
            return [replace(total, divisor=count)]
        return [fusion.like(total, fusion.builder.call("divide", total.value, count))]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """An equal share for every element."""
        whole, parts = g.shape(op.inputs[0]), g.shape(op.outputs[0])
        dtype = dy.dtype.base
        if whole is not None and parts is not None and None not in whole + parts:
            count: Any = prod(whole) // max(prod(parts), 1)  # type: ignore[arg-type]  # no None
        else:
            shares = g.Maximum(g.Size(op.outputs[0]), np.array(1, np.int32))
            count = g.Cast(g.FloorDiv(g.Size(op.inputs[0]), shares), DstT=dtype)
        return _broadcast_back(g, op, g.RealDiv(dy, count)), None


class _Extreme(ReductionOp):
    """The largest or smallest element."""

    attrs = _attrs(REAL)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Goes to the extreme element, in equal shares to ties."""
        x, axes = op.inputs
        keep_dims = op.attr("keep_dims")
        y = restore_axes(g, x, axes, op.outputs[0], keep_dims)
        dy = restore_axes(g, x, axes, dy, keep_dims)
        chosen = g.Cast(g.Equal(x, y), DstT=x.dtype.base)
        ties = g.Sum(chosen, axes, keep_dims=True)
        return g.Mul(g.RealDiv(chosen, ties), dy), None


@register
class Max(_Extreme):
    """The largest element; of no elements -inf, or the smallest integer."""

    by_segment = "UnsortedSegmentMax"
    reduce = _max
    fused = "reduce_max"
    float_operations = one_per_element_read


@register
class Min(_Extreme):
    """The smallest element; of no elements inf, or the largest integer."""

    by_segment = "UnsortedSegmentMin"
    reduce = _min
    fused = "reduce_min"


@register
class Prod(ReductionOp):
    """The product, in the input's own dtype; 1 of no elements."""

    by_segment = "UnsortedSegmentProd"
    attrs = _attrs(NUMERIC)
    reduce = _prod
    fused = "reduce_prod"
    float_operations = one_per_element_read

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The product of all others, which is correct for zeros, too."""
        x, axes = op.inputs
        rank, value = static_rank(g, x), g.value(axes)
        if rank is None or value is None:
            others = _product_of_others_over_unknown(g, x, axes)
        else:
            found = checked_axes(ints(value), (None,) * rank, twice=True)
            others = _product_of_others(g, x, sorted(set(found), reverse=True))
        if others is None:
            return _broadcast_back(g, op, dy), None
        return g.Mul(conjugated(g, others), _broadcast_back(g, op, dy)), None


def _product_of_others(g: GraphBuilder, x: Tensor, axes: Sequence[int]) -> Tensor | None:
    """The product of all elements over the axes but the element itself; None over no axes.

    Axis by axis, by cumulative products from both ends: the products of the elements before and
    after along one axis, times the product of all others along the next axes.
    """
    result: Tensor | None = None
    rest = x
    for axis in axes:
        place = g.const(axis, int32)
        before = g.Cumprod(rest, place, exclusive=True)
        after = g.Cumprod(rest, place, exclusive=True, reverse=True)
        others = g.Mul(before, after)
        result = others if result is None else g.Mul(result, others)
        if axis != axes[-1]:
            rest = g.Prod(rest, place, keep_dims=True)
    return result


def _product_of_others_over_unknown(g: GraphBuilder, x: Tensor, axes: Tensor) -> Tensor:
    """The same for unknown axes or rank.

    The axes are moved to the front and flattened.
    """
    shape = g.Shape(x)
    reduced = reduced_mask(g, x, axes)
    ones = g.const(1, int32)
    _, order = g.TopKV2(g.Cast(reduced, DstT=int32), g.Size(reduced))  # stable: ties in order
    first = np.array(0, np.int32)
    sizes = g.Pack(
        [
            g.Prod(g.SelectV2(reduced, shape, ones), first),
            g.Prod(g.SelectV2(reduced, ones, shape), first),
        ]
    )
    moved = g.Transpose(x, order)
    flat = g.Reshape(moved, sizes)
    before = g.Cumprod(flat, first, exclusive=True)
    after = g.Cumprod(flat, first, exclusive=True, reverse=True)
    others = g.Reshape(g.Mul(before, after), g.Shape(moved))
    return g.Transpose(others, g.InvertPermutation(order))


@register
class EuclideanNorm(Composed):
    """The square root of the sum of squared absolute values."""

    host_inputs = ReductionOp.host_inputs
    inputs = ReductionOp.inputs
    outputs = ReductionOp.outputs
    attrs = _attrs(NUMERIC)
    fuse_over = 0
    value_rule = REDUCING

    def define(self, g: Any, x: Tensor, axes: Tensor, *, keep_dims: bool) -> Tensor:
        """Of integers in double precision."""
        wide = g.Cast(x, DstT=float64) if x.dtype.is_integer else x
        squares = g.Mul(g.Conj(wide), wide) if x.dtype.is_complex else g.Mul(wide, wide)
        norm = g.Sqrt(g.Sum(squares, axes, keep_dims=keep_dims))
        return g.Cast(norm, DstT=x.dtype) if x.dtype.is_integer else norm

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> Sequence[Tensor | None]:
        """The input times dy / y: NaN where the norm is 0."""
        x, dy = op.inputs[0], grads[0]
        if x.dtype.is_complex:  # the norm is real: only the real part of dy counts
            dy = g.Mul(g.Add(dy, g.Conj(dy)), 0.5)
        return g.Mul(x, _broadcast_back(g, op, g.RealDiv(dy, op.outputs[0]))), None


class _Truth(ReductionOp):
    """Of truth values."""

    inputs = "input: bool, reduction_indices: Tidx"
    outputs = "output: bool"
    attrs = {"keep_dims": bool_attr(False), "Tidx": type_attr(INDEX, int32)}
    gradient = not_differentiable


@register
class All(_Truth):
    """Whether all are true."""

    reduce = _all
    fused = "reduce_min"


@register
class Any_(_Truth):
    """Whether one is true."""

    type = "Any"
    reduce = _any
    fused = "reduce_max"


def _dot(xp: Any, x: Array, y: Array) -> Array:
    """The dot product of two vectors; cupy's `dot` cannot be captured in a CUDA graph."""
    return xp.dot(x, y) if xp is np else (x * y).sum()


@register
class L2Loss(Op):
    """Half the sum of squares of all elements, a scalar."""

    capturable = True
    inputs = "t: T"
    outputs = "output: T"
    attrs = {"T": type_attr(FLOATING)}
    fuse_over = 0
    infer = scalars

    def float_operations(self, node: Inference, outputs: Sequence[Shape]) -> int:
        """A square and a sum per element, and one product."""
        return max(0, 3 * shapes.size(node.shapes[0]) - 1)

    def compute(self, xp: Any, t: Array) -> Array:
        """A scalar, summed in float32 if the input is float16."""
        flat = t.ravel()
        if t.dtype.itemsize == 2:
            flat = flat.astype(np.float32)
        return (_dot(xp, flat, flat) * flat.dtype.type(0.5)).astype(t.dtype)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """The scalar, where it is summed in its own dtype."""
        if node.attrs["T"] is float16:
            return None
        xp = context.xp

        def run(t: Array, out: Array) -> None:
            flat = t.ravel()
            xp.multiply(_dot(xp, flat, flat), flat.dtype.type(0.5), out=out)

        return run

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """The sum of halves of squares."""
        t = fusion.whole(0)
        half = fusion.builder.constant(0.5, fusion.dtypes[0])
        square = fusion.builder.call("multiply", t.value, t.value)
        halves = fusion.like(t, fusion.builder.call("multiply", square, half))
        return [fusion.reduce("reduce_sum", halves, range(len(t.shape)), keep_dims=False)]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """The input times dy."""
        return [g.Mul(op.inputs[0], dy)]
