"""Local response normalisation over channels (Krizhevsky et al. 2012) and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.tiles import channel_norm
from sparkflow_runtime.dtypes import FLOATING, float32
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.by_shape import ByShape, Chosen
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import float_attr, int_attr, type_attr
from sparkflow_runtime.shapes import Shape

if TYPE_CHECKING:
    from sparkflow_runtime.device.gpu import Gpu

_ATTRS = {
    "depth_radius": int_attr(5),
    "bias": float_attr(1.0),
    "alpha": float_attr(1.0),
    "beta": float_attr(0.5),
    "T": type_attr(FLOATING, float32),
}


def _neighbours(xp: Any, values: Array, radius: int) -> Array:
    """For every channel, the sum over the channels within `radius`."""
    depth = values.shape[-1]
    result = values.copy()
    for distance in range(1, min(radius, depth - 1) + 1):
        result[..., distance:] += values[..., :-distance]
        result[..., :-distance] += values[..., distance:]
    return result


def _wide(xp: Any, values: Array) -> Array:
    return values.astype(xp.float32) if values.dtype == xp.float16 else values


class _LrnOp(Op):
    """A normalisation or its gradient.

    Attributes:
        is_gradient: Whether it is the gradient.
    """

    capturable = True
    is_gradient: ClassVar[bool]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """`compute`, or equivalent CUDA code."""
        plain = super().bind(node, context)
        if context.xp is np:
            return ByShape(self._chooser(node)).kernel(plain)
        fill = None if context.gpu is None else self._on_gpu(node, context.gpu)
        if fill is None:
            return plain
        empty_like = context.xp.empty_like

        def kernel(*inputs: Array) -> Array:
            out = empty_like(inputs[0])
            return out if fill(*inputs, out) else plain(*inputs)

        return kernel

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., None] | None:
        """The same in machine code, into a given array."""
        if context.xp is not np or not native.available():
            return None
        return ByShape(self._chooser(node)).kernel_out(super().bind(node, context))

    def _chooser(self, node: NodeView) -> Callable[..., Chosen | None]:
        numbers = (float(node.attrs[name]) for name in ("bias", "alpha", "beta"))
        bias, alpha, beta = numbers
        radius = int(node.attrs["depth_radius"])

        def choose(*inputs: Array) -> Chosen | None:
            x = inputs[-1]
            if x.ndim != 4 or any(each.shape != x.shape for each in inputs):
                return None
            channels = x.shape[-1]
            rows = x.size // channels if channels else 0
            run = channel_norm.bind(
                self.is_gradient, x.dtype, rows, channels, radius, bias, alpha, beta
            )
            return None if run is None else Chosen(x.shape, lambda given, out: run(*given, out))

        return choose

    def bind_out_gpu(self, node: NodeView, gpu: Gpu) -> Callable[..., Any] | None:
        """The same in CUDA."""
        fill = self._on_gpu(node, gpu)
        if fill is None:
            return None
        attrs = {name: node.attrs[name] for name in _ATTRS if name != "T"}
        plain = partial(self.compute, gpu.cupy, **attrs)

        def kernel(*arrays: Array) -> None:
            *inputs, out = arrays
            if not fill(*arrays):
                gpu.cupy.copyto(out, plain(*inputs))

        return kernel

    def _on_gpu(self, node: NodeView, gpu: Gpu) -> Callable[..., bool] | None:
        from sparkflow_runtime.ops.nn import lrn_gpu

        return lrn_gpu.bind(gpu.cupy, self.is_gradient, node.attrs)


@register
class LRN(_LrnOp):
    """input / (bias + alpha · Σ of the squares of the channels around)^beta."""

    is_gradient = False
    inputs = "input: T"
    outputs = "output: T"
    attrs = _ATTRS
    infer = same_as(0, 4, "input")

    def compute(
        self, xp: Any, x: Array, *, depth_radius: int, bias: float, alpha: float, beta: float
    ) -> Array:
        """The quotient."""
        wide = _wide(xp, x)
        kind = wide.dtype.type
        norm = kind(bias) + kind(alpha) * _neighbours(xp, wide * wide, depth_radius)
        return (wide * norm ** kind(-beta)).astype(x.dtype, copy=False)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """One op, which has no gradient itself, as in TensorFlow."""
        attrs = {name: op.attr(name) for name in _ATTRS if name != "T"}
        return (g.LRNGrad(dy, op.inputs[0], op.outputs[0], **attrs),)


@register
class LRNGrad(_LrnOp):
    """The gradient of `LRN`."""

    is_gradient = True
    inputs = "input_grads: T, input_image: T, output_image: T"
    outputs = "output: T"
    attrs = _ATTRS

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape all three share."""
        first, second, third = (node.with_rank(i, 4, "input_grads") for i in range(3))
        return [shapes.merge(shapes.merge(first, second), third)]

    def compute(
        self,
        xp: Any,
        dy: Array,
        x: Array,
        y: Array,
        *,
        depth_radius: int,
        bias: float,
        alpha: float,
        beta: float,
    ) -> Array:
        """Dy · n^-beta - 2·alpha·beta · x · Σ of dy·y/n around, n being the base of the power."""
        wide = _wide(xp, x)
        kind = wide.dtype.type
        slopes, outputs = _wide(xp, dy), _wide(xp, y)
        norm = kind(bias) + kind(alpha) * _neighbours(xp, wide * wide, depth_radius)
        around = _neighbours(xp, slopes * outputs / norm, depth_radius)
        result = slopes * norm ** kind(-beta) - kind(2 * alpha * beta) * wide * around
        return result.astype(x.dtype, copy=False)
