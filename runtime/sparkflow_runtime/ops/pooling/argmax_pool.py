"""Max pooling that also returns the argmaxes, and its gradients.

As in TensorFlow, the gradient has no gradient itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.dtypes import INDEX, REAL, int64
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.combining import combine_at
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.pooling import pool_arithmetic as arithmetic
from sparkflow_runtime.ops.pooling.pool_arithmetic import Pooling
from sparkflow_runtime.ops.pooling.pool_ops import PLAIN_ATTRS
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.static import check_indices
from sparkflow_runtime.shapes import Shape

_ATTRS = {
    "ksize": PLAIN_ATTRS["ksize"],
    "strides": PLAIN_ATTRS["strides"],
    "padding": PLAIN_ATTRS["padding"],
    "include_batch_in_index": bool_attr(False),
}


def _geometry(op: OperationView) -> dict[str, Any]:
    return {name: op.attr(name) for name in _ATTRS}


@register
class MaxPoolWithArgmax(Op):
    """The largest element of every window, and its flat index in its image (y·w + x)·c + k."""

    inputs = "input: T"
    outputs = "output: T, argmax: Targmax"
    attrs = {
        "ksize": _ATTRS["ksize"],
        "strides": _ATTRS["strides"],
        "Targmax": type_attr(INDEX, int64),
        "padding": _ATTRS["padding"],
        "include_batch_in_index": _ATTRS["include_batch_in_index"],
        "T": type_attr(REAL),
    }

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Twice (batch, rows, columns, channels)."""
        shape = Pooling.of(node.attrs).static_shape(node.with_rank(0, 4, "input"))
        return [shape, shape]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., tuple[Array, Array]]:
        """The kernel with its geometry read once."""
        attrs = node.attrs
        kind = attrs["Targmax"].as_numpy_dtype
        pooling = Pooling.of(attrs)
        return partial(_with_places, context.xp, pooling, attrs["include_batch_in_index"], kind)

    def gradient(
        self, g: GraphBuilder, op: OperationView, dy: Tensor | None, _: Tensor | None
    ) -> tuple[Tensor | None]:
        """Each window's gradient goes to its maximum."""
        if dy is None:
            return (None,)
        return (g.MaxPoolGradWithArgmax(op.inputs[0], dy, op.outputs[1], **_geometry(op)),)


def _with_places(
    xp: Any, pooling: Pooling, batched: bool, kind: Any, images: Array
) -> tuple[Array, Array]:
    images = pooling.channels_last(images, "input")
    windows = pooling.windows(images.shape)
    pooled = arithmetic.maximum(xp, images, windows)
    places = xp.zeros(pooled.shape, np.int64)
    for place, _, mask in arithmetic.winners(xp, images, pooled, windows):
        flat = arithmetic.flat_places(xp, windows, place, images.shape)
        xp.copyto(places, xp.broadcast_to(flat, places.shape), where=mask)
    if batched:
        size = images[0].size if len(images) else 0
        places += xp.arange(len(images)).reshape(-1, 1, 1, 1) * size
    return pooled, places.astype(kind, copy=False)


class _Routed(Op):
    outputs = "output: T"
    attrs = {**_ATTRS, "Targmax": type_attr(INDEX), "T": type_attr(REAL)}
    route: ClassVar[Callable[..., Array]]

    def compute(
        self,
        xp: Any,
        images: Array,
        grad: Array,
        argmax: Array,
        *,
        include_batch_in_index: bool,
    ) -> Array:
        """The gradient.

        Raises:
            InvalidArgumentError: An index is outside its image.
        """
        batch = len(images)
        places = argmax.reshape(batch, -1).astype(np.int64)
        each = images.size // batch if batch else 0
        if not include_batch_in_index:
            places = places + xp.arange(batch).reshape(-1, 1) * each
        check_indices(xp, places, images.size)
        return type(self).route(xp, images, grad, argmax, places.reshape(-1))


@register
class MaxPoolGradWithArgmax(_Routed):
    """Each window's `grad` at the position of its maximum, summed."""

    inputs = "input: T, grad: T, argmax: Targmax"
    infer = same_as(0, 4, "input")

    @staticmethod
    def route(xp: Any, images: Array, grad: Array, argmax: Array, places: Array) -> Array:
        """Adds the gradients at their positions."""
        flat = xp.zeros(images.size, grad.dtype)
        combine_at(xp, "add", flat, places, grad.reshape(-1))
        return flat.reshape(images.shape)


@register
class MaxPoolGradGradWithArgmax(_Routed):
    """For every window the element of `grad` at the position of its maximum."""

    inputs = "input: T, grad: T, argmax: Targmax"
    infer = same_as(2, 4, "argmax")

    @staticmethod
    def route(xp: Any, images: Array, grad: Array, argmax: Array, places: Array) -> Array:
        """Gathers the gradients."""
        return grad.reshape(-1)[places].reshape(argmax.shape)
