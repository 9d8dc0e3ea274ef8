"""Staging areas as ops. The task knows an area by its shared_name, else by its node's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, list_attr, string_attr
from sparkflow_runtime.resources.staging import StagingArea
from sparkflow_runtime.shapes import Shape


def _attrs(least: int) -> dict[str, Any]:
    return {
        "capacity": int_attr(0, minimum=0),
        "memory_limit": int_attr(0, minimum=0),
        "dtypes": list_attr("type", minimum=least),
        "container": string_attr(""),
        "shared_name": string_attr(""),
    }


class _StagingOp(Op):
    stateful = True
    takes_step = True
    kernels: ClassVar = {"CPU": None, "GPU": None}
    gradient = not_differentiable
    attrs: ClassVar = _attrs(1)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Nothing is known of what was put down."""
        return [None] * (len(node.attrs["dtypes"]) if self.outputs else 0)

    def area(self, node: NodeView, context: KernelContext) -> StagingArea:
        """The area of the node."""
        attrs = node.attrs

        def make() -> StagingArea:
            return StagingArea(attrs["capacity"], attrs["memory_limit"])

        name = attrs["shared_name"] or node.name
        return context.resources.get_or_create(attrs["container"], name, StagingArea, make)


def _checked(found: tuple[Any, ...], node: NodeView) -> tuple[Any, ...]:
    types = [np.dtype(dtype.as_numpy_dtype) for dtype in node.attrs["dtypes"]]
    held = [each.dtype for each in found]
    if held != types:
        raise InvalidArgumentError(
            message=f"The staging area holds elements of {', '.join(map(str, held))}, not of "
            f"{', '.join(map(str, types))}"
        )
    return found


@register
class Stage(_StagingOp):
    """Stages an element; waits while there is no room."""

    may_block = True
    inputs = "values: dtypes"

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.staging.StagingArea.put`."""
        area = self.area(node, context)

        def put(step: StepContext, *values: Array) -> None:
            area.put(values, step)

        return put


@register
class Unstage(_StagingOp):
    """Removes the oldest element; waits until there is one."""

    may_block = True
    outputs = "values: dtypes"

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.staging.StagingArea.get`."""
        area = self.area(node, context)
        return lambda step: _checked(area.get(step), node)


@register
class StagePeek(_StagingOp):
    """An element without removing it; waits until there are enough."""

    may_block = True
    inputs = "index: int32"
    outputs = "values: dtypes"

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.staging.StagingArea.peek`."""
        area = self.area(node, context)
        return lambda step, index: _checked(area.peek(int(index), step), node)


@register
class StageSize(_StagingOp):
    """The number of staged elements."""

    outputs = "size: int32"
    takes_step = False
    attrs: ClassVar = _attrs(0)
    infer = scalars

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel."""
        area = self.area(node, context)
        return lambda: np.int32(len(area))


@register
class StageClear(_StagingOp):
    """Removes all elements."""

    takes_step = False
    attrs: ClassVar = _attrs(0)

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel."""
        return self.area(node, context).clear
