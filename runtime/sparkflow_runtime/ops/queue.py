"""Queues as ops. The handle of a queue is, at run time, the `resources.queue.Queue` itself."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, list_attr, string_attr
from sparkflow_runtime.resources.queue import Queue, QueueState
from sparkflow_runtime.shapes import Shape

_numbers = itertools.count()
"""Numbers in the names of queues that no shared_name names, as in TensorFlow: `_0_queue`."""

_TIMEOUT = {"timeout_ms": int_attr(-1)}


class _QueueOp(Op):
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


class _MakesQueue(_QueueOp):
    """A queue: of the task where it has a shared_name, else of its node in its session."""

    outputs = "handle: resource"

    def infer(self, node: Inference) -> list[Shape]:
        """A scalar.

        Raises:
            InvalidArgumentError: Shapes are given, but not one per component.
        """
        types, given = node.attrs["component_types"], node.attrs["shapes"]
        if given and len(given) != len(types):
            raise InvalidArgumentError(
                message=f"{self.op_type} has {len(types)} component_types and {len(given)} shapes; "
                "give one shape per component, or none"
            )
        return [shapes.SCALAR]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Finds or makes the queue; the kernel returns it.

        Raises:
            InvalidArgumentError: A queue of this name has other components.
        """
        attrs = node.attrs
        shared: str = attrs["shared_name"]
        scope = context.resources if shared else context.session

        def make() -> Queue:
            name = shared or f"_{next(_numbers)}_{node.name}"
            state = self.make_state(name, attrs["capacity"], node)
            return Queue(state, attrs["component_types"], attrs["shapes"])

        queue = scope.get_or_create(attrs["container"], shared or node.name, Queue, make)
        asked = (tuple(attrs["component_types"]), tuple(attrs["shapes"]))
        if asked != (queue.component_types, queue.component_shapes):
            raise InvalidArgumentError(
                message=f"Queue {shared or node.name!r} exists on {context.device_name} with "
                f"{_components(queue.component_types, queue.component_shapes)}, but was asked for "
                f"with {_components(*asked)}"
            )
        return lambda: queue

    def make_state(self, name: str, capacity: int, node: NodeView) -> QueueState:
        """The rules of a new queue."""
        raise NotImplementedError(self.op_type)


def _components(types: Sequence[dtypes.DType], component_shapes: Sequence[Shape]) -> str:
    texts = [shapes.text(shape) for shape in component_shapes] or ["<unknown>"] * len(types)
    return ", ".join(f"{t.name} {s}" for t, s in zip(types, texts, strict=True))


_MAKES_ATTRS = {
    "component_types": list_attr("type", minimum=1),
    "shapes": list_attr("shape", []),
    "capacity": int_attr(-1),
}
_NAME_ATTRS = {"container": string_attr(""), "shared_name": string_attr("")}


@register
class FIFOQueueV2(_MakesQueue):
    """A queue that gives its elements in the order in which they came; capacity -1: no limit."""

    attrs = {**_MAKES_ATTRS, **_NAME_ATTRS}

    def make_state(self, name: str, capacity: int, node: NodeView) -> QueueState:
        """First in, first out."""
        return QueueState(name, capacity=None if capacity < 0 else capacity)


@register
class RandomShuffleQueueV2(_MakesQueue):
    """A queue that gives its elements in random order, seeded unless both seeds are 0.

    While it is open, `min_after_dequeue` elements stay behind to be mixed with what comes.
    """

    attrs = {
        **_MAKES_ATTRS,
        "min_after_dequeue": int_attr(0),
        "seed": int_attr(0),
        "seed2": int_attr(0),
        **_NAME_ATTRS,
    }

    def make_state(self, name: str, capacity: int, node: NodeView) -> QueueState:
        """Any of those inside."""
        seeds = (node.attrs["seed"], node.attrs["seed2"])
        return QueueState(
            name,
            "RandomShuffleQueue",
            None if capacity < 0 else capacity,
            node.attrs["min_after_dequeue"],
            random.Random(repr(seeds)) if any(seeds) else random.Random(),
        )


class _Waits(_QueueOp):
    """An op that may block until another step changes the queue."""

    takes_step = True

    def infer(self, node: Inference) -> list[Shape]:
        """Outputs of unknown shape, which only the queue knows.

        Raises:
            InvalidArgumentError: A timeout of its own is asked for.
        """
        if node.attrs["timeout_ms"] != -1:
            raise InvalidArgumentError(
                message=f"{self.op_type} has no timeout of its own (timeout_ms = "
                f"{node.attrs['timeout_ms']}); give the step one with RunOptions.timeout_in_ms"
            )
        return [None] * len(node.attrs.get("component_types", ()))


@register
class QueueEnqueueV2(_Waits):
    """Puts one element into a queue; waits while it is full."""

    inputs = "handle: resource, components: Tcomponents"
    attrs = {"Tcomponents": list_attr("type", minimum=1), **_TIMEOUT}

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.queue.Queue.enqueue`."""

        def run(step: StepContext, queue: Queue, *components: Array) -> None:
            queue.enqueue(components, step)

        return run


@register
class QueueEnqueueManyV2(_Waits):
    """Puts one element per row into a queue; waits while it is full."""

    inputs = "handle: resource, components: Tcomponents"
    attrs = {"Tcomponents": list_attr("type", minimum=1), **_TIMEOUT}

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.queue.Queue.enqueue_many`."""

        def run(step: StepContext, queue: Queue, *components: Array) -> None:
            queue.enqueue_many(components, step)

        return run


class _Dequeue(_Waits):
    outputs = "components: component_types"
    attrs = {"component_types": list_attr("type", minimum=1), **_TIMEOUT}


@register
class QueueDequeueV2(_Dequeue):
    """Takes one element out of a queue; waits while it is empty."""

    inputs = "handle: resource"

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.queue.Queue.dequeue`."""
        types = node.attrs["component_types"]

        def run(step: StepContext, queue: Queue) -> tuple[Array, ...]:
            _check_types(queue, types)
            return queue.dequeue(step)

        return run


class _DequeueSeveral(_Dequeue):
    inputs = "handle: resource, n: int32"
    allow_fewer: ClassVar[bool]

    def infer(self, node: Inference) -> list[Shape]:
        """Outputs of unknown rank.

        Raises:
            InvalidArgumentError: `n` is no scalar or is negative.
        """
        node.with_rank(1, 0, "n")
        count = node.value(1)
        if count is not None and count < 0:
            raise InvalidArgumentError(message=f"Input 'n' must be >= 0, but is {count}")
        return super().infer(node)

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.queue.Queue.dequeue_many`."""
        types, allow_fewer = node.attrs["component_types"], self.allow_fewer

        def run(step: StepContext, queue: Queue, n: Array) -> tuple[Array, ...]:
            _check_types(queue, types)
            return queue.dequeue_many(int(n), step, allow_fewer)

        return run


@register
class QueueDequeueManyV2(_DequeueSeveral):
    """Takes `n` elements out of a queue and stacks them; waits until they are there."""

    allow_fewer = False


@register
class QueueDequeueUpToV2(_DequeueSeveral):
    """The same, but a closed queue gives what it has left."""

    allow_fewer = True


def _check_types(queue: Queue, asked: Sequence[dtypes.DType]) -> None:
    if tuple(asked) != queue.component_types:
        given = ", ".join(dtype.name for dtype in queue.component_types)
        raise InvalidArgumentError(
            message=f"The queue's components are {given}, but "
            f"{', '.join(dtype.name for dtype in asked)} were asked for"
        )


@register
class QueueCloseV2(_QueueOp):
    """Closes a queue; waiting enqueue operations are cancelled if asked for, else served first."""

    inputs = "handle: resource"
    attrs = {"cancel_pending_enqueues": bool_attr(False)}
    takes_step = True

    def infer(self, node: Inference) -> list[Shape]:
        """No outputs."""
        return []

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.queue.Queue.request_close`."""
        cancel = node.attrs["cancel_pending_enqueues"]

        def run(step: StepContext, queue: Queue) -> None:
            queue.request_close(cancel, step)

        return run


@register
class QueueSizeV2(_QueueOp):
    """The number of elements in a queue."""

    inputs = "handle: resource"
    outputs = "size: int32"

    def infer(self, node: Inference) -> list[Shape]:
        """A scalar."""
        return [shapes.SCALAR]

    def compute(self, xp: Any, handle: Queue) -> Array:
        """Without elements that an unfinished QueueDequeueMany holds."""
        return np.int32(len(handle))


@register
class QueueIsClosedV2(_QueueOp):
    """Whether a queue is closed."""

    inputs = "handle: resource"
    outputs = "is_closed: bool"

    def infer(self, node: Inference) -> list[Shape]:
        """A scalar."""
        return [shapes.SCALAR]

    def compute(self, xp: Any, handle: Queue) -> Array:
        """True even while elements are left in it."""
        return np.bool_(handle.is_closed)
