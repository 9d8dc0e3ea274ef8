"""Softmax cross entropy, with dense or integer labels, and its gradient in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import FLOATING, INDEX, float16, int32, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.fusion import Check, Fused, Fusion, NotFusableError
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.nn.softmax import softmax_of_rows
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Shape

_SHOWN_LABELS = 100
_FEW_CLASSES = 16
_MANY_ROWS = 256
"""From this many rows, of at most `_FEW_CLASSES` columns, numpy is faster with one call per column.

4096 rows of 3 take 0.87 instead of 2.3 ms, but 100 rows of 10 would take 43 instead of 25 µs.
Measured 2026-11-21 with numpy 2.4 on a busy machine.
"""


def _by_columns(xp: Any, features: Array) -> bool:
    rows, classes = features.shape
    return xp is np and classes <= _FEW_CLASSES and rows >= _MANY_ROWS


def _shift(xp: Any, features: Array, shifted: Array) -> None:
    """Writes the features minus the maximum of their row."""
    if _by_columns(xp, features):
        largest = features[:, 0].copy()
        for column in features.T[1:]:
            np.maximum(largest, column, out=largest)
        for column, target in zip(features.T, shifted.T, strict=True):
            np.subtract(column, largest, out=target)
    else:
        xp.subtract(features, features.max(axis=1, keepdims=True), out=shifted)


def _normalise(xp: Any, shifted: Array) -> Array:
    """Turns the result of `_shift` into softmax; returns the logs of the exponentials' sums."""
    xp.exp(shifted, out=shifted)
    if _by_columns(xp, shifted):
        sums = shifted[:, 0].copy()
        for column in shifted.T[1:]:
            sums += column
        for column in shifted.T:
            column /= sums
    else:
        sums = shifted.sum(axis=1)
        shifted /= sums[:, None]
    return xp.log(sums)


def _wide(xp: Any, features: Array) -> Array:
    """The features, float16 as float32."""
    return features.astype(xp.float32) if features.dtype == xp.float16 else features


def _column(g: GraphBuilder, vector: Tensor) -> Tensor:
    return g.ExpandDims(vector, np.array(-1, np.int32))


def _through_backprop(g: GraphBuilder, logits: Tensor, grad: Tensor | None) -> Tensor | None:
    """The contribution of a gradient of `backprop` = softmax - labels to that of the logits."""
    if grad is None:
        return None
    softmax = g.Softmax(logits)
    inner = g.Sum(g.Mul(grad, softmax), np.array([1], np.int32), keep_dims=True)
    return g.Mul(g.Sub(grad, inner), softmax)


@register
class SoftmaxCrossEntropyWithLogits(Op):
    """Per row: loss = -sum(labels · log softmax(features)), backprop = softmax(features) - labels.

    features and labels: [batch, classes], sizes of 1 are broadcast. Labels should sum to 1 per row:
    only then is backprop the gradient of the loss.
    """

    capturable = True
    inputs = "features: T, labels: T"
    outputs = "loss: T, backprop: T"
    attrs = {"T": type_attr(FLOATING)}
    fuse_over = 0

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch,) and (batch, classes)."""
        both = shapes.broadcast(node.with_rank(0, 2, "logits"), node.with_rank(1, 2, "labels"))
        assert both is not None
        return [both[:1], both]

    def compute(self, xp: Any, features: Array, labels: Array) -> tuple[Array, Array]:
        """(loss, backprop).

        Raises:
            InvalidArgumentError: Not two matrices, or their shapes cannot be broadcast.
        """
        _check_dense(features, labels)
        wide, wide_labels = _wide(xp, features), _wide(xp, labels)
        shape = np.broadcast_shapes(features.shape, labels.shape)
        loss, backprop = xp.empty(shape[:1], wide.dtype), xp.empty(shape, wide.dtype)
        _fill_dense(xp, wide, wide_labels, loss, backprop)
        return loss.astype(labels.dtype, copy=False), backprop.astype(labels.dtype, copy=False)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """The same, into given arrays; not for dtypes that are computed in a wider type."""
        if node.attrs["T"] is float16:
            return None
        xp = context.xp

        def run(features: Array, labels: Array, loss: Array, backprop: Array) -> None:
            _check_dense(features, labels)
            _fill_dense(xp, features, labels, loss, backprop)

        return run

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """Reductions of every row; the loss as sum(labels · (log sum - shifted))."""
        features = fusion.whole(0)
        if fusion.shapes[1] != features.shape:
            raise NotFusableError("features and labels are broadcast")
        call = fusion.builder.call
        rows = softmax_of_rows(fusion, features)
        labels = fusion.input(1, features.dims)
        costs = call("negative", call("multiply", labels, rows.log_softmax.value))
        loss = fusion.reduce("reduce_sum", fusion.like(features, costs), [1], keep_dims=False)
        return [loss, fusion.like(features, call("subtract", rows.softmax.value, labels))]

    def gradient(
        self, g: GraphBuilder, op: OperationView, dloss: Tensor | None, dbackprop: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """The gradients of features, dloss · backprop, and of labels, -dloss · log softmax.

        A gradient of `backprop`, which second derivatives bring, adds its part to the features'.
        """
        features = op.inputs[0]
        second = _through_backprop(g, features, dbackprop)
        if dloss is None:
            return second, None
        column = _column(g, dloss)
        first = g.Mul(column, op.outputs[1])
        dlabels = g.Neg(g.Mul(column, g.LogSoftmax(features)))
        return first if second is None else g.Add(first, second), dlabels


def _check_dense(features: Array, labels: Array) -> None:
    if features.ndim != 2 or labels.ndim != 2 or not _broadcastable(features, labels):
        raise InvalidArgumentError(
            message="logits and labels must be broadcastable: logits_size="
            f"{bracketed(features.shape)} labels_size={bracketed(labels.shape)}"
        )


def _fill_dense(xp: Any, features: Array, labels: Array, loss: Array, backprop: Array) -> None:
    """The loss is computed as sum(labels) · log sum - sum(labels · shifted), in two passes."""
    if not backprop.size:
        loss.fill(0)
        return
    if features.shape != labels.shape:
        features, labels = xp.broadcast_arrays(features, labels)
    _shift(xp, features, backprop)
    # cupy's einsum cannot be captured in a CUDA graph.
    taken = np.einsum("ij,ij->i", labels, backprop) if xp is np else (labels * backprop).sum(1)
    log_sums = _normalise(xp, backprop)
    log_sums *= labels.sum(axis=1)
    xp.subtract(log_sums, taken, out=loss)
    backprop -= labels


def _broadcastable(a: Array, b: Array) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(a.shape, b.shape, strict=True))


@register
class SparseSoftmaxCrossEntropyWithLogits(Op):
    """Per row: loss = -log softmax(features)[label], backprop = softmax(features) - one_hot(label).

    features: [batch, classes]; labels: [batch] integers in [0, classes).
    """

    inputs = "features: T, labels: Tlabels"
    outputs = "loss: T, backprop: T"
    attrs = {"T": type_attr(FLOATING), "Tlabels": type_attr(INDEX, int64)}
    fuse_over = 0

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch,) and (batch, classes)."""
        features = node.with_rank(0, 2, "logits")
        (rows,) = node.with_rank(1, 1, "labels")
        if None not in (features[0], rows) and features[0] != rows:
            raise InvalidArgumentError(message=_batch_text(features, (rows,)))
        batch = rows if features[0] is None else features[0]
        return [(batch,), (batch, features[1])]

    def compute(self, xp: Any, features: Array, labels: Array) -> tuple[Array, Array]:
        """(loss, backprop).

        Raises:
            InvalidArgumentError: A label outside [0, classes), or shapes that do not fit.
        """
        _check_sparse(features, labels)
        wide = _wide(xp, features)
        loss, backprop = xp.empty(labels.shape, wide.dtype), xp.empty(wide.shape, wide.dtype)
        _fill_sparse(xp, wide, labels, loss, backprop)
        return loss.astype(features.dtype, copy=False), backprop.astype(features.dtype, copy=False)

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """The same, into given arrays; not for dtypes that are computed in a wider type."""
        if node.attrs["T"] is float16:
            return None
        xp = context.xp

        def run(features: Array, labels: Array, loss: Array, backprop: Array) -> None:
            _check_sparse(features, labels)
            _fill_sparse(xp, features, labels, loss, backprop)

        return run

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """Reductions of every row, in which the label's element is the one with its number."""
        features = fusion.whole(0)
        builder, call = fusion.builder, fusion.builder.call
        rows = softmax_of_rows(fusion, features)
        column = features.dims[1]
        assert column is not None  # or there is no softmax of rows
        classes = features.shape[1]
        labels = builder.cast(fusion.input(1, features.dims[:1]), int64)
        chosen = call("equal", builder.index(column), labels)
        zero = builder.constant(0.0, fusion.dtypes[0])
        picked = fusion.like(features, call("where", chosen, rows.shifted.value, zero))
        of_label = fusion.reduce("reduce_sum", picked, [1], keep_dims=False)
        if of_label.is_final:
            raise NotFusableError("the reduction is complete at the end only")
        loss = fusion.like(of_label, call("subtract", rows.log_sum.value, of_label.value))
        hot = builder.cast(chosen, fusion.dtypes[0])
        backprop = fusion.like(features, call("subtract", rows.softmax.value, hot))
        wrong = call(
            "logical_or",
            call("less", labels, builder.constant(0, int64)),
            call("greater_equal", labels, builder.constant(classes, int64)),
        )
        wrong_rows = Fused(builder.cast(wrong, int32), features.shape[:1], features.dims[:1])
        any_wrong = fusion.reduce("reduce_max", wrong_rows, [0], keep_dims=False)
        fusion.checks.append(
            Check(any_wrong.value, (1,), lambda given: _check_labels(given, classes))
        )
        return [loss, backprop]

    def gradient(
        self, g: GraphBuilder, op: OperationView, dloss: Tensor | None, dbackprop: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """The gradient of features is dloss · backprop.

        A gradient of `backprop`, which second derivatives bring, adds its part.
        """
        second = _through_backprop(g, op.inputs[0], dbackprop)
        if dloss is None:
            return second, None
        first = g.Mul(_column(g, dloss), op.outputs[1])
        return first if second is None else g.Add(first, second), None


def _check_sparse(features: Array, labels: Array) -> None:
    if labels.ndim != 1:
        raise InvalidArgumentError(
            message=f"labels must be 1-D, but got shape {bracketed(labels.shape)}"
        )
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise InvalidArgumentError(message=_batch_text(features.shape, labels.shape))
    _check_labels(labels, features.shape[1])


def _fill_sparse(xp: Any, features: Array, labels: Array, loss: Array, backprop: Array) -> None:
    if not backprop.size:
        return
    _shift(xp, features, backprop)
    where = (xp.arange(len(labels)), labels)
    taken = backprop[where]
    xp.subtract(_normalise(xp, backprop), taken, out=loss)
    backprop[where] -= 1


def _batch_text(features: Shape, labels: Shape) -> str:
    return (
        "logits and labels must have the same first dimension, "
        f"got logits shape {bracketed(features)} and labels shape {bracketed(labels)}"
    )


def _check_labels(labels: Array, classes: int) -> None:
    if not labels.size or (int(labels.min()) >= 0 and int(labels.max()) < classes):
        return
    values = labels.tolist()
    offending = next(label for label in values if not 0 <= label < classes)
    shown = " ".join(map(str, values[:_SHOWN_LABELS]))
    more = " ..." if len(values) > _SHOWN_LABELS else ""
    raise InvalidArgumentError(
        message=f"Received a label value of {offending} which is outside the valid range of "
        f"[0, {classes}).  Label values: {shown}{more}"
    )
