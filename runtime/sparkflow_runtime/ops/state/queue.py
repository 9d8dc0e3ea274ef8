"""Queues as ops. The handle of a queue is, at run time, the `resources.queue.Queue` itself.

Each op exists twice: with a resource handle (`QueueSizeV2`), which our front end creates, and with
the reference of TensorFlow's first releases (`QueueSize`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, list_attr, string_attr
from sparkflow_runtime.resources.queue import AnyOrder, LeastFirst, Queue, QueueState
from sparkflow_runtime.shapes import Shape

_numbers = itertools.count()
"""Numbers in the names of queues without a shared_name, as in TensorFlow: `_0_queue`."""

_TIMEOUT = {"timeout_ms": int_attr(-1)}


class _QueueOp(Op):
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


class _MakesQueue(_QueueOp):
    """A queue: of the task if it has a shared_name, else of its node in its session."""

    outputs = "handle: resource"
    pads: ClassVar = False

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
        """Finds or creates the queue; the kernel returns it.

        Raises:
            InvalidArgumentError: A queue of this name is of another kind.
        """
        attrs = node.attrs
        shared: str = attrs["shared_name"]
        scope = context.resources if shared else context.session

        def make() -> Queue:
            name = shared or f"_{next(_numbers)}_{node.name}"
            types, given = self.components(attrs)
            seeds = (attrs["seed"], attrs["seed2"]) if "seed" in attrs else None
            return Queue(self.make_state(name, node), types, given, self.pads, seeds)

        queue = scope.get_or_create(attrs["container"], shared or node.name, Queue, make)
        self._check_same(queue, node, shared or node.name)
        return lambda: queue

    def _check_same(self, queue: Queue, node: NodeView, name: str) -> None:
        """Checks that `queue`, found under `name`, is what `node` would have created."""
        label = f"Shared queue {name!r}"
        asked = self.make_state(name, node)
        if queue.kind != asked.kind:
            raise InvalidArgumentError(
                message=f"{label} has type '{queue.kind}' that does not match type of Node "
                f"{node.name!r}: {asked.kind}"
            )
        capacity = -1 if asked.capacity is None else asked.capacity
        if queue.limits[0] != capacity:
            raise InvalidArgumentError(
                message=f"{label} has capacity {queue.limits[0]} but requested capacity was "
                f"{capacity}."
            )
        if queue.limits[1] != asked.min_after_dequeue:
            raise InvalidArgumentError(
                message=f"{label} has min_after_dequeue {queue.limits[1]} but requested "
                f"min_after_dequeue was {asked.min_after_dequeue}."
            )
        types, given = self.components(node.attrs)
        if queue.component_types != tuple(types):
            raise InvalidArgumentError(
                message=f"{label} has component types {_types(queue.component_types)} but "
                f"requested component types were {_types(types)}"
            )
        if queue.component_shapes != tuple(given):
            raise InvalidArgumentError(
                message=f"{label} has component shapes {_shapes(queue.component_shapes)} but "
                f"requested component shapes were {_shapes(given)}"
            )

    def components(self, attrs: Mapping[str, Any]) -> tuple[list[dtypes.DType], list[Shape]]:
        """The dtypes and shapes of an element's components."""
        return attrs["component_types"], attrs["shapes"]

    def make_state(self, name: str, node: NodeView) -> QueueState:
        """The rules of a new queue."""
        return QueueState(name, self.op_type.removesuffix("V2"), _capacity(node.attrs))


def _capacity(attrs: Mapping[str, Any]) -> int | None:
    capacity: int = attrs["capacity"]
    return None if capacity < 0 else capacity


def _types(types: Sequence[dtypes.DType]) -> str:
    return f"[{', '.join(dtype.name for dtype in types)}]"


def _shapes(component_shapes: Sequence[Shape]) -> str:
    return f"[{','.join(map(shapes.bracketed, component_shapes))}]"


_MAKES_ATTRS = {
    "component_types": list_attr("type", minimum=1),
    "shapes": list_attr("shape", []),
    "capacity": int_attr(-1),
}
_NAME_ATTRS = {"container": string_attr(""), "shared_name": string_attr("")}


@register
class FIFOQueueV2(_MakesQueue):
    """A queue that returns elements in the order of arrival; capacity -1: no limit."""

    attrs = {**_MAKES_ATTRS, **_NAME_ATTRS}


@register
class RandomShuffleQueueV2(_MakesQueue):
    """A queue that returns elements in random order, seeded unless both seeds are 0.

    While it is open, `min_after_dequeue` elements remain, to be mixed with later ones.
    """

    attrs = {
        **_MAKES_ATTRS,
        "min_after_dequeue": int_attr(0),
        "seed": int_attr(0),
        "seed2": int_attr(0),
        **_NAME_ATTRS,
    }

    def make_state(self, name: str, node: NodeView) -> QueueState:
        """Any of its elements."""
        attrs = node.attrs
        seeds = (attrs["seed"], attrs["seed2"])
        chooser = random.Random(repr(seeds)) if any(seeds) else random.Random()
        return QueueState(
            name,
            "RandomShuffleQueue",
            _capacity(attrs),
            attrs["min_after_dequeue"],
            AnyOrder(chooser),
        )

    def _check_same(self, queue: Queue, node: NodeView, name: str) -> None:
        super()._check_same(queue, node, name)
        asked = (node.attrs["seed"], node.attrs["seed2"])
        if any(asked) and queue.seeds not in (None, asked):
            raise InvalidArgumentError(
                message=f"Shared queue {name!r} has random seeds {queue.seeds} but requested "
                f"seeds are {asked}."
            )


@register
class PaddingFIFOQueueV2(_MakesQueue):
    """A FIFOQueue whose components may vary in size: elements dequeued together are zero-padded.

    The rank of each component is fixed; sizes that vary are unknown in `shapes`.
    """

    attrs = {**_MAKES_ATTRS, **_NAME_ATTRS}
    pads: ClassVar = True


@register
class PriorityQueueV2(_MakesQueue):
    """A queue that returns the element of least priority, an int64 scalar as first component."""

    attrs = {
        "component_types": list_attr("type", []),
        "shapes": list_attr("shape"),
        "capacity": int_attr(-1),
        **_NAME_ATTRS,
    }

    def components(self, attrs: Mapping[str, Any]) -> tuple[list[dtypes.DType], list[Shape]]:
        """The priority and the attributes' components."""
        types, given = super().components(attrs)
        return [dtypes.int64, *types], [(), *(given or [None] * len(types))]

    def make_state(self, name: str, node: NodeView) -> QueueState:
        """Least first."""
        return QueueState(name, "PriorityQueue", _capacity(node.attrs), 0, LeastFirst())


class _Waits(_QueueOp):
    """An op that may block until another step changes the queue."""

    takes_step = True
    may_block = True
    parks = True

    def infer(self, node: Inference) -> list[Shape]:
        """Outputs of unknown shape, which only the queue knows.

        Raises:
            InvalidArgumentError: The op has its own timeout.
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
    """Removes one element from a queue; waits while it is empty."""

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
            InvalidArgumentError: `n` is not a scalar, or is negative.
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
    """Removes `n` elements from a queue and stacks them; waits until they are available."""

    allow_fewer = False


@register
class QueueDequeueUpToV2(_DequeueSeveral):
    """The same, but a closed queue returns its remaining elements."""

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
    """Closes a queue; pending enqueue operations are cancelled if requested, else served first."""

    inputs = "handle: resource"
    attrs = {"cancel_pending_enqueues": bool_attr(False)}
    takes_step = True
    may_block = True
    parks = True

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
    infer = scalars

    def compute(self, xp: Any, handle: Queue) -> Array:
        """Without elements that an unfinished QueueDequeueMany holds."""
        return np.int32(len(handle))


@register
class QueueIsClosedV2(_QueueOp):
    """Whether a queue is closed."""

    inputs = "handle: resource"
    outputs = "is_closed: bool"
    infer = scalars

    def compute(self, xp: Any, handle: Queue) -> Array:
        """True even while elements are left in it."""
        return np.bool_(handle.is_closed)


@register
class SelectHandle(_QueueOp):
    """One of several handles. Ours, for `QueueBase.from_list`."""

    is_ours = True
    inputs = "index: int32, handles: N * resource"
    outputs = "handle: resource"
    attrs = {"N": int_attr(minimum=1)}
    infer = scalars

    def compute(self, xp: Any, index: Array, *handles: Queue) -> Queue:
        """The handle at `index`.

        Raises:
            InvalidArgumentError: There is none.
        """
        if not 0 <= int(index) < len(handles):
            raise InvalidArgumentError(
                message=f"index {int(index)} is not in [0, {len(handles)}), the queues given"
            )
        return handles[int(index)]


def _by_reference(op: type[Op]) -> None:
    """Registers the op of TensorFlow's first releases, whose handle is a reference to a string."""
    old = "handle: Ref(string)"
    changed = {
        "type": op.__name__.removesuffix("V2"),
        "inputs": op.inputs.replace("handle: resource", old),
        "outputs": op.outputs.replace("handle: resource", old),
        "__doc__": op.__doc__,
        "__module__": __name__,
    }
    register(type(f"{op.__name__}WithReference", (op,), changed))


for _op in (
    FIFOQueueV2,
    RandomShuffleQueueV2,
    PaddingFIFOQueueV2,
    PriorityQueueV2,
    QueueEnqueueV2,
    QueueEnqueueManyV2,
    QueueDequeueV2,
    QueueDequeueManyV2,
    QueueDequeueUpToV2,
    QueueCloseV2,
    QueueSizeV2,
    QueueIsClosedV2,
):
    _by_reference(_op)
