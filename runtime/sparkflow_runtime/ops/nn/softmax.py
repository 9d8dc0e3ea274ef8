"""Softmax and its logarithm along the last axis. Losses based on them are in `loss`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import FLOATING, float16
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.fusion import Fused, Fusion, NotFusableError
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.shapes import Shape

_LAST_AXIS = np.array([-1], np.int32)


def _check_rank(op_type: str, shape: Shape) -> None:
    if shape == ():
        raise InvalidArgumentError(
            message=f"The logits of {op_type} must have at least one dimension, got a scalar"
        )


def _shifted(xp: Any, logits: Array) -> Array:
    """The logits minus the maximum of their row, in float32 if they are float16."""
    if logits.dtype.itemsize == 2:
        logits = logits.astype(np.float32)
    if not logits.size:
        return logits
    return logits - logits.max(axis=-1, keepdims=True)


@dataclass(frozen=True, slots=True)
class SoftmaxOfRows:
    """In a kernel: the softmax of every row, its logarithm, and the intermediate values of both.

    Attributes:
        shifted: The logits minus the maximum of the row.
        log_sum: The logarithm of the sum of exponentials of `shifted` over the row.
        softmax, log_softmax: The results.
    """

    shifted: Fused
    log_sum: Fused
    softmax: Fused
    log_softmax: Fused


def softmax_of_rows(fusion: Fusion, logits: Fused) -> SoftmaxOfRows:
    """Softmax along the last axis as instructions.

    Raises:
        NotFusableError: The kernel cannot read reductions over the last axis.
    """
    call = fusion.builder.call
    last = [len(logits.shape) - 1]
    if logits.dims[-1] is None:
        raise NotFusableError("rows of one element")
    largest = fusion.reduce("reduce_max", logits, last, keep_dims=True)
    if largest.is_final:
        raise NotFusableError("the reduction is complete at the end only")
    shifted = call("subtract", logits.value, largest.value)
    exponentials = call("exp", shifted)
    total = fusion.reduce("reduce_sum", fusion.like(logits, exponentials), last, keep_dims=True)
    if total.is_final:
        raise NotFusableError("the reduction is complete at the end only")
    log_sum = fusion.like(total, call("log", total.value))
    return SoftmaxOfRows(
        fusion.like(logits, shifted),
        log_sum,
        fusion.like(logits, call("divide", exponentials, total.value)),
        fusion.like(logits, call("subtract", shifted, log_sum.value)),
    )


@register
class Softmax(Op):
    """`exp(logits) / sum(exp(logits))` along the last axis."""

    capturable = True
    flops = 5
    inputs = "logits: T"
    outputs = "softmax: T"
    attrs = {"T": type_attr(FLOATING)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        _check_rank(self.op_type, node.shapes[0])
        return [node.shapes[0]]

    def compute(self, xp: Any, logits: Array) -> Array:
        """A new array."""
        _check_rank(self.op_type, logits.shape)
        powers = xp.exp(_shifted(xp, logits))
        powers /= powers.sum(axis=-1, keepdims=True)
        return powers.astype(logits.dtype, copy=False)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """The same, into a given array; not for dtypes that are computed in a wider type."""
        if node.attrs["T"] is float16:
            return None
        xp = context.xp

        def run(logits: Array, out: Array) -> None:
            _check_rank(self.op_type, logits.shape)
            if logits.size:
                xp.subtract(logits, logits.max(axis=-1, keepdims=True), out)
                xp.exp(out, out)
                xp.divide(out, out.sum(axis=-1, keepdims=True), out)

        return run

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """Two reductions of every row."""
        rows = softmax_of_rows(fusion, fusion.whole(0))
        return [rows.softmax]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """The Jacobian applied: (dy - sum(dy * y)) * y."""
        y = op.outputs[0]
        mean = g.Sum(g.Mul(dy, y), _LAST_AXIS, keep_dims=True)
        return [g.Mul(g.Sub(dy, mean), y)]


@register
class LogSoftmax(Op):
    """`logits - log(sum(exp(logits)))` along the last axis."""

    capturable = True
    inputs = "logits: T"
    outputs = "logsoftmax: T"
    attrs = {"T": type_attr(FLOATING)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        _check_rank(self.op_type, node.shapes[0])
        return [node.shapes[0]]

    def compute(self, xp: Any, logits: Array) -> Array:
        """A new array."""
        _check_rank(self.op_type, logits.shape)
        shifted = _shifted(xp, logits)
        result = shifted - xp.log(xp.exp(shifted).sum(axis=-1, keepdims=True))
        return result.astype(logits.dtype, copy=False)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """The same; the difference is computed twice instead of kept."""
        if node.attrs["T"] is float16:
            return None
        xp = context.xp

        def run(logits: Array, out: Array) -> None:
            _check_rank(self.op_type, logits.shape)
            if logits.size:
                largest = logits.max(axis=-1, keepdims=True)
                xp.exp(xp.subtract(logits, largest, out), out)
                sums = xp.log(out.sum(axis=-1, keepdims=True))
                xp.subtract(xp.subtract(logits, largest, out), sums, out)

        return run

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """Two reductions of every row."""
        rows = softmax_of_rows(fusion, fusion.whole(0))
        return [rows.log_softmax]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """The Jacobian applied: dy - sum(dy) * softmax."""
        total = g.Sum(dy, _LAST_AXIS, keep_dims=True)
        return [g.Sub(dy, g.Mul(total, g.Exp(op.outputs[0])))]
