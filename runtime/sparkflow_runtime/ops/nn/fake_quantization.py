"""`FakeQuant*`: simulated quantisation for quantisation-aware training.

The range is nudged so that zero is exactly representable (B. Jacob et al., Quantization and
training of neural networks for efficient integer-arithmetic-only inference, 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.dtypes import float32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.composition import Composed
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.op import Inference, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import Attr, bool_attr, float_attr, int_attr
from sparkflow_runtime.shapes import Shape

_WIDTH: dict[str, Attr] = {"num_bits": int_attr(8, minimum=2), "narrow_range": bool_attr(False)}
_ENDS: dict[str, Attr] = {"min": float_attr(-6.0), "max": float_attr(6.0), **_WIDTH}


class _Ends(NamedTuple):
    """The nudged range with exact zero, the step size, and whether all is 0."""

    low: Tensor
    high: Tensor
    step: Tensor
    are_zero: Tensor


def _nudged(g: Any, low: Tensor, high: Tensor, num_bits: int, narrow: bool) -> _Ends:
    least, greatest = float(narrow), float((1 << num_bits) - 1)
    step = g.RealDiv(g.Sub(high, low), greatest - least)
    zero = g.Floor(g.Add(g.Sub(least, g.RealDiv(low, step)), 0.5))
    zero = g.Minimum(g.Maximum(zero, least), greatest)
    are_zero = g.LogicalAnd(g.Equal(low, 0.0), g.Equal(high, 0.0))
    return _Ends(
        g.Mul(g.Sub(least, zero), step), g.Mul(g.Sub(greatest, zero), step), step, are_zero
    )


def _quantized(g: Any, value: Tensor, ends: _Ends) -> Tensor:
    inside = g.Minimum(g.Maximum(value, ends.low), ends.high)
    steps = g.Floor(g.Add(g.RealDiv(g.Sub(inside, ends.low), ends.step), 0.5))
    return g.SelectV2(ends.are_zero, 0.0, g.Add(g.Mul(steps, ends.step), ends.low))


def _beyond(g: Any, value: Tensor, ends: _Ends) -> tuple[Tensor, Tensor]:
    """Which values are below and above the range."""
    counts = g.LogicalNot(ends.are_zero)
    below = g.LogicalAnd(g.Less(value, ends.low), counts)
    return below, g.LogicalAnd(g.Greater(value, ends.high), counts)


def _constants(g: Any, low: float, high: float) -> tuple[Tensor, Tensor]:
    if low >= high:
        raise InvalidArgumentError(message=f"min has to be smaller than max, was: {low} >= {high}")
    return g.const(low, float32), g.const(high, float32)


@register
class FakeQuantWithMinMaxArgs(Composed):
    """Rounds to the numbers that integers between `min` and `max` represent."""

    inputs = "inputs: float32"
    outputs = "outputs: float32"
    attrs = _ENDS
    infer = same_as(0)

    def define(
        self, g: Any, value: Tensor, *, min: float, max: float, num_bits: int, narrow_range: bool
    ) -> Tensor:
        """The nearest number that can be represented.

        Raises:
            InvalidArgumentError: `min` is not below `max`.
        """
        ends = _nudged(g, *_constants(g, min, max), num_bits, narrow_range)
        return _quantized(g, value, ends)

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> Sequence[Tensor]:
        """The incoming gradient if the number is in the range."""
        attrs = {name: op.attr(name) for name in _ENDS}
        return [g.FakeQuantWithMinMaxArgsGradient(grads[0], op.inputs[0], **attrs)]


@register
class FakeQuantWithMinMaxArgsGradient(Composed):
    """The gradients where the inputs are in the range, 0 elsewhere."""

    inputs = "gradients: float32, inputs: float32"
    outputs = "backprops: float32"
    attrs = _ENDS
    gradient = not_differentiable  # type: ignore[assignment]  # Op allows functions
    infer = same_as(0)

    def define(
        self,
        g: Any,
        gradients: Tensor,
        value: Tensor,
        *,
        min: float,
        max: float,
        num_bits: int,
        narrow_range: bool,
    ) -> Tensor:
        """A choice."""
        ends = _nudged(g, *_constants(g, min, max), num_bits, narrow_range)
        return g.SelectV2(g.LogicalOr(*_beyond(g, value, ends)), 0.0, gradients)


class _WithVariables(Composed):
    """Rounds to the numbers that integers in the range represent."""

    inputs = "inputs: float32, min: float32, max: float32"
    outputs = "outputs: float32"
    attrs = _WIDTH
    infer = same_as(0)

    def define(
        self,
        g: Any,
        value: Tensor,
        low: Tensor,
        high: Tensor,
        *,
        num_bits: int,
        narrow_range: bool,
    ) -> Tensor:
        """The nearest number that can be represented."""
        return _quantized(g, value, _nudged(g, low, high, num_bits, narrow_range))

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> Sequence[Tensor]:
        """Passes to numbers in the range; that of other numbers goes to the limits of the range."""
        make = getattr(g, f"{self.op_type}Gradient")
        attrs = {name: op.attr(name) for name in _WIDTH}
        return make(grads[0], *op.inputs, **attrs)  # type: ignore[no-any-return]  # outputs


class _WithVariablesGradient(Composed):
    """The gradients of the numbers in the range, and of each limit."""

    inputs = "gradients: float32, inputs: float32, min: float32, max: float32"
    outputs = "backprops_wrt_input: float32, backprop_wrt_min: float32, backprop_wrt_max: float32"
    attrs = _WIDTH
    gradient = not_differentiable  # type: ignore[assignment]  # Op allows functions

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The gradients of the input and of the limits."""
        return list(node.shapes[1:])

    def define(
        self,
        g: Any,
        gradients: Tensor,
        value: Tensor,
        low: Tensor,
        high: Tensor,
        *,
        num_bits: int,
        narrow_range: bool,
    ) -> tuple[Tensor, ...]:
        """A selection, and sums over the numbers that share a limit."""
        below, above = _beyond(g, value, _nudged(g, low, high, num_bits, narrow_range))
        axes = g.Range(np.int32(0), g.Sub(g.Rank(value), g.Rank(low)), np.int32(1))
        to_low, to_high = (g.Sum(g.SelectV2(each, gradients, 0.0), axes) for each in (below, above))
        return g.SelectV2(g.LogicalOr(below, above), 0.0, gradients), to_low, to_high


@register
class FakeQuantWithMinMaxVars(_WithVariables):
    """Like `FakeQuantWithMinMaxArgs`, with the range as scalar inputs."""


@register
class FakeQuantWithMinMaxVarsPerChannel(_WithVariables):
    """The same with a separate range for every entry of the last axis."""


@register
class FakeQuantWithMinMaxVarsGradient(_WithVariablesGradient):
    """The gradients of `FakeQuantWithMinMaxVars`."""


@register
class FakeQuantWithMinMaxVarsPerChannelGradient(_WithVariablesGradient):
    """The gradients of `FakeQuantWithMinMaxVarsPerChannel`."""
