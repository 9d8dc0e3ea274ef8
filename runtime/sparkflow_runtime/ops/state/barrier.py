"""Barriers as ops. The handle is, at run time, the `resources.barrier.Barrier` itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, list_attr, string_attr, type_attr
from sparkflow_runtime.ops.strings.string_arrays import array_of
from sparkflow_runtime.resources import barrier as resource
from sparkflow_runtime.shapes import Shape

_HANDLE = "handle: Ref(string)"


class _BarrierOp(Op):
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable
    infer = scalars


@register
class Barrier(_BarrierOp):
    """A barrier: of the task where it has a shared_name, else of its node in its session."""

    outputs = _HANDLE
    attrs = {
        "component_types": list_attr("type", minimum=1),
        "shapes": list_attr("shape", []),
        "capacity": int_attr(-1),
        "container": string_attr(""),
        "shared_name": string_attr(""),
    }

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Finds or makes it; the kernel returns it."""
        attrs = node.attrs
        scope = context.resources if attrs["shared_name"] else context.session
        name = attrs["shared_name"] or node.name

        def make() -> resource.Barrier:
            return resource.Barrier(name, attrs["component_types"], attrs["shapes"])

        found = scope.get_or_create(attrs["container"], name, resource.Barrier, make)
        return lambda: found


@register
class BarrierInsertMany(_BarrierOp):
    """Inserts one component for each of several keys."""

    inputs = f"{_HANDLE}, keys: string, values: T"
    attrs = {"T": type_attr(), "component_index": int_attr()}

    def compute(
        self, xp: Any, held: resource.Barrier, keys: Array, values: Array, *, component_index: int
    ) -> None:
        """See `resources.barrier.Barrier.insert_many`."""
        held.insert_many(component_index, keys.reshape(-1).tolist(), values)


@register
class BarrierTakeMany(_BarrierOp):
    """Removes complete elements; waits until there are enough."""

    inputs = f"{_HANDLE}, num_elements: int32"
    outputs = "indices: int64, keys: string, values: component_types"
    takes_step = True
    may_block = True
    attrs = {
        "component_types": list_attr("type", minimum=1),
        "allow_small_batch": bool_attr(False),
        "wait_for_incomplete": bool_attr(False),
        "timeout_ms": int_attr(-1),
    }

    def infer(self, node: Inference) -> list[Shape]:
        """Vectors; the values are known to the barrier only."""
        return [(None,), (None,), *([None] * len(node.attrs["component_types"]))]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.barrier.Barrier.take_many`."""
        small = node.attrs["allow_small_batch"]

        def run(step: StepContext, held: resource.Barrier, count: Array) -> tuple[Array, ...]:
            taken = held.take_many(int(count), small, step)
            indices = np.array([index for index, _, _ in taken], np.int64)
            keys = array_of([key for _, key, _ in taken], (len(taken),))
            columns = [np.stack(each) for each in zip(*(parts for *_, parts in taken), strict=True)]
            return (indices, keys, *columns)

        return run


@register
class BarrierClose(_BarrierOp):
    """Closes the barrier to new keys."""

    inputs = _HANDLE
    attrs = {"cancel_pending_enqueues": bool_attr(False)}

    def compute(self, xp: Any, held: resource.Barrier, *, cancel_pending_enqueues: bool) -> None:
        """See `resources.barrier.Barrier.shut`."""
        held.shut(cancel_pending_enqueues)


@register
class BarrierReadySize(_BarrierOp):
    """The number of complete elements."""

    inputs = _HANDLE
    outputs = "size: int32"

    def compute(self, xp: Any, held: resource.Barrier) -> Array:
        """The count."""
        return np.int32(held.sizes[0])


@register
class BarrierIncompleteSize(_BarrierOp):
    """The number of incomplete elements."""

    inputs = _HANDLE
    outputs = "size: int32"

    def compute(self, xp: Any, held: resource.Barrier) -> Array:
        """The count."""
        return np.int32(held.sizes[1])
