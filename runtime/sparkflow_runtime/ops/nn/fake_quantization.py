"""`FakeQuant*`: what training does to numbers so that they get used to being quantised.

The ends are moved a little so that zero is one of the integers (B. Jacob et al., Quantization and
training of neural networks for efficient integer-arithmetic-only inference, 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import Attr, bool_attr, float_attr, int_attr
from sparkflow_runtime.shapes import Shape

_WIDTH: dict[str, Attr] = {"num_bits": int_attr(8, minimum=2), "narrow_range": bool_attr(False)}
_ENDS: dict[str, Attr] = {"min": float_attr(-6.0), "max": float_attr(6.0), **_WIDTH}


def _nudged(xp: Any, low: Array, high: Array, num_bits: int, narrow: bool) -> tuple[Array, ...]:
    """The ends moved so that zero is exact, and the distance of two numbers."""
    least = np.float32(1 if narrow else 0)
    greatest = np.float32((1 << num_bits) - 1)
    scale = (high - low) / (greatest - least)
    zero = least - low / scale
    zero = xp.clip(xp.floor(zero + np.float32(0.5)), least, greatest)
    return (least - zero) * scale, (greatest - zero) * scale, scale


def _quantized(
    xp: Any, value: Array, low: Array, high: Array, num_bits: int, narrow: bool
) -> Array:
    lower, upper, scale = _nudged(xp, low, high, num_bits, narrow)
    steps = xp.floor((xp.clip(value, lower, upper) - lower) / scale + np.float32(0.5))
    both_zero = (low == 0) & (high == 0)
    return xp.where(both_zero, np.float32(0), steps * scale + lower).astype(np.float32)


def _inside(
    xp: Any, value: Array, low: Array, high: Array, num_bits: int, narrow: bool
) -> tuple[Array, Array]:
    """Which values lie below and above the ends."""
    lower, upper, _ = _nudged(xp, low, high, num_bits, narrow)
    both_zero = (low == 0) & (high == 0)
    return (value < lower) & ~both_zero, (value > upper) & ~both_zero


def _attrs_of(op: OperationView, *names: str) -> dict[str, Any]:
    return {name: op.attr(name) for name in names}


@register
class FakeQuantWithMinMaxArgs(Op):
    """Rounded to the numbers that integers between `min` and `max` stand for."""

    inputs = "inputs: float32"
    outputs = "outputs: float32"
    attrs = _ENDS
    infer = same_as(0)

    def compute(
        self, xp: Any, value: Array, *, min: float, max: float, num_bits: int, narrow_range: bool
    ) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: `min` is not below `max`.
        """
        if min >= max:
            raise InvalidArgumentError(
                message=f"min has to be smaller than max, was: {min} >= {max}"
            )
        return _quantized(xp, value, np.float32(min), np.float32(max), num_bits, narrow_range)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """What arrives, where the number lies between the ends."""
        attrs = _attrs_of(op, *_ENDS)
        return [g.FakeQuantWithMinMaxArgsGradient(dy, op.inputs[0], **attrs)]


@register
class FakeQuantWithMinMaxArgsGradient(Op):
    """The gradients where the inputs lie between the ends, 0 elsewhere."""

    inputs = "gradients: float32, inputs: float32"
    outputs = "backprops: float32"
    attrs = _ENDS
    gradient = not_differentiable
    infer = same_as(0)

    def compute(
        self,
        xp: Any,
        gradients: Array,
        value: Array,
        *,
        min: float,
        max: float,
        num_bits: int,
        narrow_range: bool,
    ) -> Array:
        """A new array."""
        ends = np.float32(min), np.float32(max)
        below, above = _inside(xp, value, *ends, num_bits, narrow_range)
        return xp.where(below | above, np.float32(0), gradients)


class _WithVariables(Op):
    """Rounded to the numbers that integers between the ends stand for."""

    inputs = "inputs: float32, min: float32, max: float32"
    outputs = "outputs: float32"
    attrs = _WIDTH
    infer = same_as(0)

    def compute(
        self, xp: Any, value: Array, low: Array, high: Array, *, num_bits: int, narrow_range: bool
    ) -> Array:
        """A new array."""
        return _quantized(xp, value, low, high, num_bits, narrow_range)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """To the numbers between the ends, and to the ends what lies beyond them."""
        make = getattr(g, f"{self.op_type}Gradient")
        return make(dy, *op.inputs, **_attrs_of(op, *_WIDTH))  # type: ignore[no-any-return]  # outputs


class _WithVariablesGradient(Op):
    """What goes to the numbers between the ends, and to each end."""

    inputs = "gradients: float32, inputs: float32, min: float32, max: float32"
    outputs = "backprops_wrt_input: float32, backprop_wrt_min: float32, backprop_wrt_max: float32"
    attrs = _WIDTH
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Of the input and of the ends."""
        return list(node.shapes[1:])

    def compute(
        self,
        xp: Any,
        gradients: Array,
        value: Array,
        low: Array,
        high: Array,
        *,
        num_bits: int,
        narrow_range: bool,
    ) -> tuple[Array, ...]:
        """Three arrays."""
        below, above = _inside(xp, value, low, high, num_bits, narrow_range)
        zero = np.float32(0)
        axes = tuple(range(value.ndim - low.ndim))
        to_low = xp.where(below, gradients, zero).sum(axis=axes, dtype=np.float32)
        to_high = xp.where(above, gradients, zero).sum(axis=axes, dtype=np.float32)
        return xp.where(below | above, zero, gradients), to_low, to_high


@register
class FakeQuantWithMinMaxVars(_WithVariables):
    """As `FakeQuantWithMinMaxArgs` with scalars as the ends."""


@register
class FakeQuantWithMinMaxVarsPerChannel(_WithVariables):
    """The same with an end of its own for every entry of the last axis."""


@register
class FakeQuantWithMinMaxVarsGradient(_WithVariablesGradient):
    """The gradients of `FakeQuantWithMinMaxVars`."""


@register
class FakeQuantWithMinMaxVarsPerChannelGradient(_WithVariablesGradient):
    """The gradients of `FakeQuantWithMinMaxVarsPerChannel`."""
