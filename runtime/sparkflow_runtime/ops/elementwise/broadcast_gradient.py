"""Undoes broadcasting in gradients: what was repeated in the forward op is summed in the gradient.

Here are the function that gradients of broadcasting ops call, and the op it falls back on if static
shapes do not determine which axes were repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, Tensor
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.shapes import Shape


def sum_to_operands(
    g: GraphBuilder,
    x: Tensor,
    y: Tensor,
    dx: Tensor | None,
    dy: Tensor | None,
    trailing_axes: int = 0,
) -> tuple[Tensor | None, Tensor | None]:
    """Returns the gradients of two broadcast operands, from gradients in the shape of the result.

    Adds no nodes where the shapes are known to be equal, a `Sum` over known axes where they are
    known to differ, else `BroadcastGradientArgs`, `Sum` and `Reshape`.

    Args:
        g: The builder that adds nodes.
        x: The first operand.
        y: The second operand.
        dx: The gradient of `x` in the shape of the broadcast result, or None, which stays None.
        dy: Likewise for `y`.
        trailing_axes: Number of last axes that are not broadcast.
    """
    if x is y:
        return dx, dy
    x_static, y_static = (_leading(g.shape(each), trailing_axes) for each in (x, y))
    x_axes, y_axes = repeated_axes(x_static, y_static), repeated_axes(y_static, x_static)
    if (dx is not None and x_axes is None) or (dy is not None and y_axes is None):
        x_shape, y_shape = g.Shape(x), g.Shape(y)
        x_sums, y_sums = g.BroadcastGradientArgs(
            *(_leading_sizes(g, shape, trailing_axes) for shape in (x_shape, y_shape))
        )
        if x_axes is None and dx is not None:
            dx = g.Reshape(g.Sum(dx, x_sums), x_shape)
        if y_axes is None and dy is not None:
            dy = g.Reshape(g.Sum(dy, y_sums), y_shape)
    return _sum_over(g, dx, x_axes), _sum_over(g, dy, y_axes)


def repeated_axes(own: Shape, other: Shape) -> tuple[int, tuple[int, ...]] | None:
    """How an operand of shape `own` is repeated when broadcast against `other`.

    Returns:
        The number of leading axes of the result that it lacks, and its own axes of size 1 that are
        repeated. None if the shapes do not determine them.

        >>> repeated_axes((3, 1), (2, 3, 4))
        (1, (1,))
        >>> repeated_axes((None, 4), (4,))
        (0, ())
        >>> repeated_axes((None, 4), (None, 4)) is None
        True
    """
    if own is None or other is None:
        return None
    lacking = max(len(other) - len(own), 0)
    padded = (1,) * (len(own) - len(other)) + other[lacking:]
    axes = []
    for axis, (mine, theirs) in enumerate(zip(own, padded, strict=True)):
        if mine == 1 and theirs != 1:
            axes.append(axis)
        elif mine is None and theirs != 1:
            return None
    return lacking, tuple(axes)


def _leading(shape: Shape, trailing_axes: int) -> Shape:
    return None if shape is None else shape[: len(shape) - trailing_axes]


def _leading_sizes(g: GraphBuilder, shape: Tensor, trailing_axes: int) -> Tensor:
    """A shape tensor without its last elements."""
    if not trailing_axes:
        return shape
    begin, end, step = (np.array([n], np.int32) for n in (0, -trailing_axes, 1))
    return g.StridedSlice(shape, begin, end, step)


def _sum_over(
    g: GraphBuilder, gradient: Tensor | None, repeated: tuple[int, tuple[int, ...]] | None
) -> Tensor | None:
    if gradient is None or repeated is None:
        return gradient
    lacking, axes = repeated
    if lacking:
        gradient = g.Sum(gradient, np.arange(lacking, dtype=np.int32))
    if axes:
        gradient = g.Sum(gradient, np.array(axes, np.int32), keep_dims=True)
    return gradient


@register
class BroadcastGradientArgs(Op):
    """The axes over which the gradients of two broadcast operands have to be summed.

    Its results are small vectors on the host on any device: only `Sum` reads them.
    """

    inputs = "s0: T, s1: T"
    outputs = "r0: T, r1: T"
    attrs = {"T": type_attr(dtypes.INDEX, dtypes.int32)}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Two vectors of unknown size."""
        first, second = node.value(0), node.value(1)
        node.with_rank(0, 1, "s0")
        node.with_rank(1, 1, "s1")
        if first is None or second is None:
            return [(None,), (None,)]
        return [(len(axes),) for axes in _axes_to_sum(first.tolist(), second.tolist())]

    def compute(self, xp: Any, s0: Array, s1: Array) -> Any:
        """The axes for the first and for the second operand."""
        first, second = _axes_to_sum(s0.tolist(), s1.tolist())
        return np.array(first, s0.dtype), np.array(second, s0.dtype)


def _axes_to_sum(first: list[int], second: list[int]) -> tuple[list[int], list[int]]:
    if first == second:
        return [], []
    rank = max(len(first), len(second))
    axes: tuple[list[int], list[int]] = ([], [])
    pairs = zip_longest(reversed(first), reversed(second), fillvalue=1)
    for axis, (x, y) in zip(range(rank - 1, -1, -1), pairs, strict=True):
        if x != y and 1 not in (x, y):
            raise InvalidArgumentError(message=f"Incompatible shapes: {first} vs. {second}")
        if x == 1:
            axes[0].insert(0, axis)
        if y == 1:
            axes[1].insert(0, axis)
    return axes
