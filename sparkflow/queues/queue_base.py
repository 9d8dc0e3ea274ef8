"""`QueueBase`: what all queues can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.conversion import convert
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op, get_default_graph, graph_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.queues.components import type_list
from sparkflow_runtime.dtypes import DType


@export("QueueBase", "queue.QueueBase", "io.QueueBase")
class QueueBase:
    """A queue of elements, each a tuple of tensors, that lives on its task between steps.

    Args:
        dtypes: The dtype of each component of an element.
        shapes: Their shapes; None where elements may differ in shape.
        names: Names of the components; elements are dictionaries then.
        queue_ref: The handle.

    Raises:
        ValueError: There are not as many shapes or names as dtypes.
    """

    def __init__(
        self, dtypes: Sequence[Any], shapes: Any, names: Sequence[str] | None, queue_ref: Tensor
    ) -> None:
        self._dtypes = type_list(list(dtypes))
        if shapes is None:
            self._shapes = [TensorShape(None) for _ in self._dtypes]
        else:
            if len(shapes) != len(self._dtypes):
                raise ValueError(
                    f"Queue shapes must have the same length as dtypes, received "
                    f"len(shapes)={len(shapes)}, len(dtypes)={len(self._dtypes)}"
                )
            self._shapes = [TensorShape(shape) for shape in shapes]
        if names is not None and len(names) != len(self._dtypes):
            raise ValueError("Queue names must have the same length as dtypes")
        self._names = None if names is None else list(names)
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.rpartition("/")[2]

    @staticmethod
    def from_list(index: Any, queues: Sequence[QueueBase]) -> QueueBase:
        """The queue at a position that a step computes.

        Args:
            index: A scalar integer.
            queues: Queues with the same component dtypes and names, on one task.

        Raises:
            TypeError: It is no list of queues, or their dtypes or names differ.
        """
        if (
            not isinstance(queues, list | tuple)
            or not queues
            or not all(isinstance(queue, QueueBase) for queue in queues)
        ):
            raise TypeError("A list of queues expected")
        first = queues[0]
        if not all(queue.dtypes == first.dtypes for queue in queues[1:]):
            raise TypeError("Queues do not have matching component dtypes.")
        if not all(queue.names == first.names for queue in queues[1:]):
            raise TypeError("Queues do not have matching component names.")
        shapes = [_common(each) for each in zip(*[queue.shapes for queue in queues], strict=True)]
        handles = [queue.queue_ref for queue in queues]
        selected = apply_op("SelectHandle", index, handles)
        return QueueBase(first.dtypes, shapes, first.names, selected)

    @property
    def queue_ref(self) -> Tensor:
        """The handle."""
        return self._queue_ref

    @property
    def name(self) -> str:
        """The name of the operation that makes the handle."""
        return self._queue_ref.op.name

    @property
    def dtypes(self) -> list[DType]:
        """The dtype of each component."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """The shape of each component."""
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        """The names of the components, None where elements are tuples."""
        return self._names

    # ------------------------------------------------------------------ putting in

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """An operation that puts in one element; it waits while the queue is full.

        Args:
            vals: A tensor, a list or tuple of them, or a dictionary where the queue has names.
            name: Name of the operation.

        Raises:
            ValueError: The components do not fit the queue.
        """
        graph = graph_of((self._queue_ref,))
        with graph.as_default(), graph.name_scope(name or f"{self._name}_enqueue") as scope:
            tensors = self._components(vals)
            # The kernel refuses another number of components.
            for tensor, shape in zip(tensors, self._shapes, strict=False):
                tensor.shape.assert_is_compatible_with(shape)
            result: Operation = graph.apply("QueueEnqueueV2", (self._queue_ref, tensors), {}, scope)
        return result

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """An operation that puts in one element per row; it waits while the queue is full.

        Args:
            vals: As for `enqueue`, each with one more dimension in front.
            name: Name of the operation.

        Raises:
            ValueError: The components do not fit the queue, or differ in their number of rows.
        """
        graph = graph_of((self._queue_ref,))
        with graph.as_default(), graph.name_scope(name or f"{self._name}_EnqueueMany") as scope:
            tensors = self._components(vals)
            rows: Any = tensors[0].shape.with_rank_at_least(1)[0]
            for tensor, shape in zip(tensors, self._shapes, strict=False):
                given = tensor.shape.with_rank_at_least(1)
                rows = rows.merge_with(given[0])
                given[1:].assert_is_compatible_with(shape)
            result: Operation = graph.apply(
                "QueueEnqueueManyV2", (self._queue_ref, tensors), {}, scope
            )
        return result

    def _components(self, vals: Any) -> list[Tensor]:
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names) != sorted(vals):
                raise ValueError(
                    "Keys in dictionary to enqueue do not match names of Queue.  Dictionary: "
                    f"{sorted(vals)}, Queue: {sorted(self._names)}"
                )
            values = [vals[name] for name in self._names]
        else:
            if self._names:
                raise ValueError("You must enqueue a dictionary in a Queue with names")
            values = list(vals) if isinstance(vals, list | tuple) else [vals]
        graph = graph_of((self._queue_ref,))
        return [
            convert(graph, value, dtype, f"component_{index}")
            for index, (value, dtype) in enumerate(zip(values, self._dtypes, strict=False))
        ]

    # ------------------------------------------------------------------ taking out

    def dequeue(self, name: str | None = None) -> Any:
        """One element; the step waits while the queue is empty.

        Returns:
            A tensor, a list of them, or a dictionary where the queue has names.
        """
        tensors = self._take("QueueDequeueV2", (), name or f"{self._name}_Dequeue")
        for tensor, shape in zip(tensors, self._shapes, strict=True):
            tensor.set_shape(shape)
        return self._element(tensors)

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """`n` elements, stacked; the step waits until they are there.

        Args:
            n: How many.
            name: Name of the operation.
        """
        tensors = self._take("QueueDequeueManyV2", (n,), name or f"{self._name}_DequeueMany")
        count = constant_value(tensors[0].op.inputs[1])
        rows = TensorShape([None if count is None else int(count)])
        for tensor, shape in zip(tensors, self._shapes, strict=True):
            tensor.set_shape(rows.concatenate(shape))
        return self._element(tensors)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """`n` elements, stacked, or what is left once the queue is closed.

        Args:
            n: How many at most.
            name: Name of the operation.
        """
        tensors = self._take("QueueDequeueUpToV2", (n,), name or f"{self._name}_DequeueUpTo")
        for tensor, shape in zip(tensors, self._shapes, strict=True):
            tensor.set_shape(TensorShape([None]).concatenate(shape))
        return self._element(tensors)

    def _take(self, op_type: str, inputs: tuple[Any, ...], name: str) -> list[Tensor]:
        graph = graph_of((self._queue_ref,))
        attrs = {"component_types": self._dtypes}
        tensors: list[Tensor] = graph.apply(op_type, (self._queue_ref, *inputs), attrs, name)
        return tensors

    def _element(self, tensors: list[Tensor]) -> Any:
        if self._names:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else tensors

    # ------------------------------------------------------------------ closing, asking

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """An operation that closes the queue: nothing more goes in.

        Args:
            cancel_pending_enqueues: End the enqueue operations that wait, with CancelledError;
                otherwise they are served first.
            name: Name of the operation.
        """
        result: Operation = graph_of((self._queue_ref,)).apply(
            "QueueCloseV2",
            (self._queue_ref,),
            {"cancel_pending_enqueues": cancel_pending_enqueues},
            name or f"{self._name}_Close",
        )
        return result

    def is_closed(self, name: str | None = None) -> Tensor:
        """Whether the queue is closed: a bool."""
        result: Tensor = graph_of((self._queue_ref,)).apply(
            "QueueIsClosedV2", (self._queue_ref,), {}, name or f"{self._name}_Is_Closed"
        )
        return result

    def size(self, name: str | None = None) -> Tensor:
        """How many elements the queue holds: an int32."""
        result: Tensor = graph_of((self._queue_ref,)).apply(
            "QueueSizeV2", (self._queue_ref,), {}, name or f"{self._name}_Size"
        )
        return result


def new_queue(op_type: str, name: str, **attrs: Any) -> Tensor:
    """The handle of a new queue of the default graph."""
    handle: Tensor = get_default_graph().apply(op_type, (), attrs, name)
    return handle


def _common(shapes: Sequence[TensorShape]) -> TensorShape:
    """What several shapes agree on."""
    first = shapes[0]
    if any(shape.ndims != first.ndims or shape.ndims is None for shape in shapes):
        return TensorShape(None)
    columns = zip(*[shape.as_list() for shape in shapes], strict=True)
    return TensorShape([sizes[0] if len(set(sizes)) == 1 else None for sizes in columns])
