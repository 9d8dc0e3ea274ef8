"""Ops along one axis: cumulative sums and products, and the positions of extreme elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar, Final

import numpy as np

from sparkflow_runtime.codegen.ir.kernel import NARROW
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows import fixed_rows, scans
from sparkflow_runtime.dtypes import (
    COMPLEX,
    FLOATING,
    INDEX,
    NUMERIC,
    PLAIN,
    DType,
    as_dtype,
    int16,
    int32,
    int64,
    uint16,
)
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.once import latest
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.elementwise.elementwise_table import conjugated
from sparkflow_runtime.ops.inference import one_per_element_read, same_as
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.joining import concatenated
from sparkflow_runtime.ops.machine_call import CallSite, MachineCall
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.static import bracketed, constant_scalar, scalar
from sparkflow_runtime.ops.value import SCANNING
from sparkflow_runtime.shapes import Shape


def _checked_axis(op_type: str, axis: int, shape: Sequence[int | None]) -> int:
    rank = len(shape)
    if not -rank <= axis < rank:
        raise InvalidArgumentError(
            message=f"Dimension ({axis}) must be in the range [{-rank}, {rank}), where {rank} is "
            f"the number of dimensions in the input of {op_type}"
        )
    return axis % rank


def _scan_axis(axis: Array, rank: int) -> int:
    if axis.ndim:
        raise InvalidArgumentError(
            message=f"ScanOp: axis must be a scalar, not {bracketed(axis.shape)}"
        )
    if not -rank <= int(axis) < rank:
        raise InvalidArgumentError(
            message=f"ScanOp: Expected scan axis in the range [{-rank}, {rank}), but got {axis}"
        )
    return int(axis) % rank


class _CumulativeOp(Op):
    """Of the elements up to each one along an axis.

    `exclusive` leaves the element itself out, `reverse` starts from the end.
    """

    widens = NARROW
    inputs = "x: T, axis: Tidx"
    outputs = "out: T"
    attrs = {
        "exclusive": bool_attr(False),
        "reverse": bool_attr(False),
        "T": type_attr(NUMERIC),
        "Tidx": type_attr(INDEX, int32),
    }
    function: ClassVar[str]
    identity: ClassVar[int]
    value_rule = SCANNING
    infer = same_as(0)

    def compute(self, xp: Any, x: Array, axis: Array, *, exclusive: bool, reverse: bool) -> Array:
        """A new array of the input's shape and dtype."""
        position = _scan_axis(axis, x.ndim)
        if xp is np and self.function in ("cumsum", "cumprod"):
            quick = scans.scan(x, position, self.function, exclusive, reverse)
            if quick is not None:
                return quick
        x = xp.moveaxis(x, position, 0)
        if reverse:
            x = x[::-1]
        result = getattr(xp, self.function)(x, axis=0, dtype=x.dtype)
        if exclusive and len(result):
            first = xp.full_like(result[:1], self.identity)
            result = concatenated(xp, [first, result[:-1]])
        return xp.moveaxis(result[::-1] if reverse else result, 0, position)


def _call_of_scan(self: _CumulativeOp, node: NodeView, site: CallSite) -> MachineCall | None:
    """A sequential scan."""
    shape, axis, number = site.shapes[0], site.constants[1], site.dtypes[0]
    if axis is None or number not in fixed_rows.NUMBERS:
        return None
    place = _scan_axis(axis, len(shape))
    sizes = prod(shape[:place]), shape[place], prod(shape[place + 1 :])
    flags = self.function == "cumsum", node.attrs["exclusive"], node.attrs["reverse"]
    kernel = scans.bind_scan(np.dtype(number.as_numpy_dtype), sizes, *flags)
    return None if kernel is None else MachineCall(kernel, (0,))


@register
class Cumsum(_CumulativeOp):
    """The cumulative sum."""

    capturable = True
    host_inputs = frozenset({"axis"})
    function = "cumsum"
    identity = 0

    machine_call = _call_of_scan

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The cumulative sum of the gradient, from the other end."""
        exclusive, reverse = op.attr("exclusive"), op.attr("reverse")
        return g.Cumsum(dy, op.inputs[1], exclusive=exclusive, reverse=not reverse), None


@register
class Cumprod(_CumulativeOp):
    """The cumulative product."""

    capturable = True
    host_inputs = frozenset({"axis"})
    function = "cumprod"
    identity = 1
    machine_call = _call_of_scan

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Sums of products that contain the element, divided by the element: 0 where that is 0."""
        x, axis = op.inputs
        exclusive, reverse = op.attr("exclusive"), op.attr("reverse")
        products = g.Mul(conjugated(g, op.outputs[0]), dy)
        sums = g.Cumsum(products, axis, exclusive=exclusive, reverse=not reverse)
        return g.DivNoNan(sums, conjugated(g, x)), None


@register
class CumulativeLogsumexp(_CumulativeOp):
    """The logarithm of the cumulative sum of exponentials; of no elements the lowest number."""

    attrs = {**_CumulativeOp.attrs, "T": type_attr(FLOATING)}

    def compute(self, xp: Any, x: Array, axis: Array, *, exclusive: bool, reverse: bool) -> Array:
        """A new array of the input's shape and dtype."""
        position = _scan_axis(axis, x.ndim)
        x = xp.moveaxis(x, position, 0)
        if reverse:
            x = x[::-1]
        result = xp.empty_like(x)
        running = xp.full_like(x[:1].sum(axis=0), np.finfo(x.dtype).min)
        for index in range(len(x)):
            if exclusive:
                result[index] = running
            running = xp.logaddexp(running, x[index])
            if not exclusive:
                result[index] = running
        return xp.moveaxis(result[::-1] if reverse else result, 0, position)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient's sum weighted by exp(x - y), positive and negative parts separately."""
        x, axis = op.inputs
        exclusive, reverse = op.attr("exclusive"), op.attr("reverse")
        least = g.const(dy.dtype.min, dy.dtype)

        def part(chosen: Tensor, size: Tensor) -> Tensor:
            safe = g.SelectV2(chosen, size, g.OnesLike(size))
            log = g.SelectV2(chosen, g.Log(safe), least)
            terms = g.Sub(log, op.outputs[0])
            sums = g.CumulativeLogsumexp(terms, axis, exclusive=exclusive, reverse=not reverse)
            return g.Exp(g.Add(sums, x))

        zero = g.const(0, dy.dtype)
        positive = part(g.Greater(dy, zero), dy)
        return g.Sub(positive, part(g.Less(dy, zero), g.Neg(dy))), None


_PART_BYTES: Final = 1 << 16
"""Size of the block that is transposed at a time, so that it stays in a fast cache."""
_MOST_SHORT: Final = 256
"""Along longer rows numpy is faster; for 2000 rows of 20 it takes six times as long."""
_FEW: Final = 4096
"""Among as many elements NaN is looked for faster than at the positions that were found."""


def _fill_positions(
    function: Callable[..., Any], value: Array, axis: int, out: np.ndarray[Any, Any]
) -> None:
    """`argmax` or `argmin`, but NaN is no extreme; its rows have position 0 if nothing else is."""
    if _walks(function, value, axis, out):
        return
    _fill_by_numpy(function, value, axis, out)
    if value.dtype.kind in "fV":  # V is bfloat16
        _pass_nan(function, value, axis, out)


def _pass_nan(
    function: Callable[..., Any], value: Array, axis: int, out: np.ndarray[Any, Any]
) -> None:
    """Searches again where numpy's extreme is NaN, which is its rule for rows with one."""
    if value.size == value.shape[axis]:
        best = value.item(out.item())
        if best == best:
            return
    number, is_least = as_dtype(value.dtype), function is np.argmin
    if axis == value.ndim - 1 and number in fixed_rows.FLOATS and _in_order(value, out):
        _again(number, is_least, (out.size, value.shape[axis]))(value, out)
        return
    found = (
        value if value.size <= _FEW else np.take_along_axis(value, np.expand_dims(out, axis), axis)
    )
    if np.isnan(found).any():
        worst = value.dtype.type(np.inf if is_least else -np.inf)
        _fill_by_numpy(function, np.where(np.isnan(value), worst, value), axis, out)


def _in_order(value: Array, out: np.ndarray[Any, Any]) -> bool:
    return value.flags.c_contiguous and out.flags.c_contiguous and native.available()


@latest(256)
def _again(number: DType, is_least: bool, shape: tuple[int, int]) -> Callable[..., bool]:
    return fixed_rows.bind_extreme_again(number, is_least, shape)


def _fill_by_numpy(
    function: Callable[..., Any], value: Array, axis: int, out: np.ndarray[Any, Any]
) -> None:
    """In parts if numpy would make a transposed copy of everything."""
    if axis == value.ndim - 1 or value.nbytes <= _PART_BYTES or not value.flags.c_contiguous:
        function(value, axis, out)
        return
    count, inner = value.shape[axis], prod(value.shape[axis + 1 :])
    whole, found = value.reshape(-1, count, inner), out.reshape(-1, inner)
    wide = max(1, _PART_BYTES // (count * value.itemsize))
    if wide >= inner:
        step = wide // inner
        for first in range(0, len(whole), step):
            function(whole[first : first + step], 1, found[first : first + step])
        return
    for matrix, positions in zip(whole, found, strict=True):
        for first in range(0, inner, wide):
            part = slice(first, first + wide)
            function(matrix[:, part], 0, positions[part])


def _walks(
    function: Callable[..., Any], value: Array, axis: int, out: np.ndarray[Any, Any]
) -> bool:
    """Computes the positions by machine code if that is faster; returns whether it did."""
    count, behind = value.shape[axis], prod(value.shape[axis + 1 :])
    if (behind == 1 and count > _MOST_SHORT) or not value.flags.c_contiguous:
        return False
    number = as_dtype(value.dtype)
    if number not in fixed_rows.NUMBERS or not native.available():
        return False
    shape = prod(value.shape[:axis]), count, behind
    return _walk(number, function is np.argmin, shape)(value, out)


@latest(256)
def _walk(number: DType, is_least: bool, shape: tuple[int, int, int]) -> Callable[..., bool]:
    return fixed_rows.bind_extreme(number, int64, is_least, shape)


class _ArgOp(Op):
    """The position of the first extreme element along one axis, where NaN counts as the last."""

    capturable = True
    host_inputs = frozenset({"dimension"})
    inputs = "input: T, dimension: Tidx"
    outputs = "output: output_type"
    attrs = {
        "T": type_attr(PLAIN - COMPLEX),
        "Tidx": type_attr(INDEX | {int16}, int32),
        "output_type": type_attr(INDEX | {int16, uint16}, int64),
    }
    gradient = not_differentiable
    function: ClassVar[str]
    float_operations = one_per_element_read

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape without the dimension."""
        axis, shape = constant_scalar(node, 1, "dimension"), node.shapes[0]
        if shape is None:
            return [None]
        if axis is None:
            return [(None,) * (len(shape) - 1)]
        position = _checked_axis(self.op_type, axis, shape)
        return [shape[:position] + shape[position + 1 :]]

    def compute(self, xp: Any, value: Array, dimension: Array, *, output_type: DType) -> Array:
        """Positions.

        Raises:
            InvalidArgumentError: The axis does not exist, or has no element.
        """
        position = self._axis(value, dimension)
        if xp is np:
            shape = value.shape[:position] + value.shape[position + 1 :]
            result = np.empty(shape, np.intp)
            _fill_positions(getattr(np, self.function), value, position, result)
            return result.astype(output_type.numpy, copy=False)
        if value.dtype.kind == "f":  # for cupy, too, NaN would be the extreme
            is_least = self.function == "argmin"
            value = xp.fmin(value, np.inf) if is_least else xp.fmax(value, -np.inf)
        return getattr(xp, self.function)(value, axis=position).astype(output_type.numpy)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """For int64 only, numpy's index dtype."""
        if node.attrs["output_type"].as_numpy_dtype is not np.int64:
            return None
        function = getattr(np, self.function)

        def run(value: Array, dimension: Array, out: Array) -> None:
            _fill_positions(function, value, self._axis(value, dimension), out)

        return run

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """A walk along the dimension."""
        shape, axis = site.shapes[0], site.constants[1]
        number, position = site.dtypes[0], node.attrs["output_type"]
        if axis is None or number not in fixed_rows.NUMBERS or position not in fixed_rows.INDICES:
            return None
        place = _checked_axis(self.op_type, int(axis), shape)
        if not shape[place]:
            return None
        before, behind = prod(shape[:place]), prod(shape[place + 1 :])
        sizes = before, shape[place], behind
        is_least = self.function == "argmin"
        return MachineCall(fixed_rows.bind_extreme(number, position, is_least, sizes), (0,))

    def _axis(self, value: Array, dimension: Array) -> int:
        position = _checked_axis(self.op_type, scalar(dimension, "dimension"), value.shape)
        if not value.shape[position]:
            raise InvalidArgumentError(
                message=f"Reduction axis {position} is empty in shape {bracketed(value.shape)}"
            )
        return position


@register
class ArgMax(_ArgOp):
    """The position of the largest element."""

    function = "argmax"


@register
class ArgMin(_ArgOp):
    """The position of the smallest element."""

    function = "argmin"
