"""Adding a bias per channel, and its gradient: the sum over everything but channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import NUMERIC
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.fusion import Fused, Fusion
from sparkflow_runtime.ops.images import IMAGE, Images
from sparkflow_runtime.ops.inference import one_per_element_read
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.native.row_sums import is_worth_it, sum_rows
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import string_attr, type_attr
from sparkflow_runtime.ops.static import bracketed, shape_tensor
from sparkflow_runtime.shapes import Dim, Shape

_DATA_FORMAT = string_attr("NHWC", frozenset({"NHWC", "NCHW"}))


def _channel_axis(rank: int, data_format: str) -> int:
    if rank < 2:
        raise InvalidArgumentError(message=f"Input tensor must be at least 2D: rank {rank}")
    return 1 if data_format == "NCHW" else rank - 1


@register
class BiasAdd(Op):
    """`value` with bias[c] added to channel c: the last dimension, or dimension 1 for NCHW."""

    flops = 1
    capturable = True
    images = IMAGE
    inputs = "value: T, bias: T"
    outputs = "output: T"
    attrs = {"T": type_attr(NUMERIC), "data_format": _DATA_FORMAT}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of `value`, with the channels from either input."""
        value = node.shapes[0]
        (channels,) = node.with_rank(1, 1, "bias")
        if value is None:
            return [None]
        axis = _channel_axis(len(value), node.attrs["data_format"])
        known = value[axis]
        if None not in (known, channels) and known != channels:
            raise InvalidArgumentError(
                message=f"Dimensions must be equal, but are {known} and {channels}: "
                f"{_misfit(value, (channels,), axis)}"
            )
        return [(*value[:axis], channels if known is None else known, *value[axis + 1 :])]

    def compute(self, xp: Any, value: Array, bias: Array, *, data_format: str) -> Array:
        """The sum.

        Raises:
            InvalidArgumentError: Not one bias per channel.
        """
        return value + _fitting(value, bias, data_format)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The sum."""
        add, data_format = context.xp.add, node.attrs["data_format"]
        return lambda value, bias, out: add(value, _fitting(value, bias, data_format), out)

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """A sum along the channels."""
        value = fusion.whole(0)
        axis = _channel_axis(len(value.shape), fusion.attrs["data_format"])
        bias = fusion.input(1, (value.dims[axis],))
        return [fusion.like(value, fusion.builder.call("add", value.value, bias))]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """For the value dy, for the bias dy summed over all but channels."""
        return dy, g.BiasAddGrad(dy, data_format=op.attr("data_format"))


def _fitting(value: Array, bias: Array, data_format: str) -> Array:
    """Reshapes the bias to broadcast against the value."""
    axis = _channel_axis(value.ndim, data_format)
    if bias.shape != (value.shape[axis],):
        raise InvalidArgumentError(message=_misfit(value.shape, bias.shape, axis))
    return bias if axis == value.ndim - 1 else bias.reshape(-1, *(1,) * (value.ndim - 2))


def _misfit(value: Sequence[Dim], bias: Sequence[Dim], axis: int) -> str:
    return (
        f"Must provide as many biases as the channel dimension (dimension {axis}) of the input "
        f"tensor: {bracketed(bias)} vs. {bracketed(value)}"
    )


def sum_per_channel(xp: Any, values: Array, axis: int, out: Array | None = None) -> Array:
    """The sums over all dimensions but `axis`, a vector."""
    channels = values.shape[axis]
    if axis == values.ndim - 1 and is_worth_it(xp, values, channels):
        return sum_rows(values.reshape(-1, channels), out)
    rest = tuple(i for i in range(values.ndim) if i != axis)
    return values.sum(axis=rest, dtype=values.dtype, out=out)


@register
class BiasAddGrad(Op):
    """The sum over all dimensions but that of channels: a vector."""

    capturable = True
    images = Images((0,), is_output=False)
    inputs = "out_backprop: T"
    outputs = "output: T"
    attrs = {"T": type_attr(NUMERIC), "data_format": _DATA_FORMAT}
    fuse_over = 0
    float_operations = one_per_element_read

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(channels,)."""
        shape = node.shapes[0]
        if shape is None:
            return [(None,)]
        return [(shape[_channel_axis(len(shape), node.attrs["data_format"])],)]

    def compute(self, xp: Any, dy: Array, *, data_format: str) -> Array:
        """The sums.

        Raises:
            InvalidArgumentError: Fewer than two dimensions.
        """
        axis = _channel_axis(dy.ndim, data_format)
        return sum_per_channel(xp, dy, axis)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The sums."""
        xp, data_format = context.xp, node.attrs["data_format"]
        return lambda dy, out: sum_per_channel(xp, dy, _channel_axis(dy.ndim, data_format), out)

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """A sum."""
        value = fusion.whole(0)
        axis = _channel_axis(len(value.shape), fusion.attrs["data_format"])
        rest = [position for position in range(len(value.shape)) if position != axis]
        return [fusion.reduce("reduce_sum", value, rest, keep_dims=False)]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """The gradient of each channel, broadcast to all its positions."""
        source = op.inputs[0]
        shape = shape_tensor(g, source)
        if op.attr("data_format") == "NCHW":
            one = np.array([1], np.int32)
            count = g.Sub(g.Reshape(g.Rank(source), one), np.array([2], np.int32))
            trailing = g.Fill(count, np.array(1, np.int32))
            column = g.ConcatV2([np.array([-1], np.int32), trailing], np.array(0, np.int32))
            dy = g.Reshape(dy, column)
        return (g.BroadcastTo(dy, shape),)
