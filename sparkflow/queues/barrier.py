"""`Barrier`: elements that several steps complete, component by component."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.queues.components import shape_attr, shape_list, type_list


class Barrier:
    """A place on a task where elements wait under a key until all their components are there.

    Args:
        types: The dtype of each component.
        shapes: Their complete shapes; None where they are not known.
        shared_name: The name under which sessions of the task share it; its session's when None.
        name: Name of the operation.

    Raises:
        ValueError: There are not as many shapes as dtypes, or one is not complete.
    """

    def __init__(
        self,
        types: Any,
        shapes: Any = None,
        shared_name: str | None = None,
        name: str = "barrier",
    ) -> None:
        self._types = type_list(types)
        self._shapes = shape_list(shapes)
        if self._shapes is not None and len(self._shapes) != len(self._types):
            raise ValueError(
                f"Barrier has {len(self._types)} types and {len(self._shapes)} shapes: give one "
                "shape per type, or none"
            )
        attrs = {
            "component_types": self._types,
            "shapes": shape_attr(self._shapes),
            "shared_name": shared_name or "",
        }
        self._graph = get_default_graph()
        self._barrier_ref: Tensor = self._graph.add_node("Barrier", (), attrs, name).outputs[0]

    @property
    def barrier_ref(self) -> Tensor:
        """The handle."""
        return self._barrier_ref

    @property
    def name(self) -> str:
        """The name of the operation that makes the handle."""
        return self._barrier_ref.op.name

    def _apply(
        self, op_type: str, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None
    ) -> Any:
        label = name or f"{self.name.rpartition('/')[2]}_{op_type}"
        return self._graph.apply(op_type, (self._barrier_ref, *inputs), attrs, label)

    def insert_many(
        self, component_index: int, keys: Any, values: Any, name: str | None = None
    ) -> Operation:
        """An operation that inserts component `component_index` for each of `keys`.

        Args:
            component_index: Which component.
            keys: [n] strings.
            values: [n, ...] of the component's dtype.
            name: Name of the operation.
        """
        values = self._graph.convert(values, self._types[component_index])
        attrs = {"component_index": component_index}
        made: Operation = self._apply("BarrierInsertMany", (keys, values), attrs, name)
        return made

    def take_many(
        self,
        num_elements: Any,
        allow_small_batch: bool = False,
        timeout: int | None = None,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Complete elements; waits until there are enough.

        Args:
            num_elements: How many.
            allow_small_batch: Whether a closed barrier may give those it has left.
            timeout: Kept as TensorFlow's attribute, milliseconds; give the step one with
                `RunOptions.timeout_in_ms`.
            name: Name of the operation.

        Returns:
            Their numbers in the order of insertion [n] int64, their keys [n], and one tensor [n,
            ...] per component.
        """
        attrs = {
            "component_types": self._types,
            "allow_small_batch": allow_small_batch,
            "timeout_ms": -1 if timeout is None else timeout,
        }
        indices, keys, *values = self._apply("BarrierTakeMany", (num_elements,), attrs, name)
        for tensor, shape in zip(values, self._shapes or (), strict=False):
            tensor.set_shape([None, *shape])
        return indices, keys, values

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """An operation that lets no new keys in; nothing at all if `cancel_pending_enqueues`."""
        attrs = {"cancel_pending_enqueues": cancel_pending_enqueues}
        made: Operation = self._apply("BarrierClose", (), attrs, name)
        return made

    def ready_size(self, name: str | None = None) -> Tensor:
        """How many elements are complete: a scalar int32."""
        found: Tensor = self._apply("BarrierReadySize", (), {}, name)
        return found

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """How many elements lack a component: a scalar int32."""
        found: Tensor = self._apply("BarrierIncompleteSize", (), {}, name)
        return found
