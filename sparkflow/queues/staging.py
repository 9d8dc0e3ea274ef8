"""`StagingArea`: tensors that one step puts down and a later one picks up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.queues.components import type_list
from sparkflow_runtime.dtypes import DType


class StagingArea:
    """A place on a task for tuples of tensors, first in first out.

    Args:
        dtypes: The dtype of each component of an element.
        shapes: Their shapes; None where they are not known.
        names: Names of the components; elements are dictionaries then.
        shared_name: The name under which the task knows it; one of its own when None.
        capacity: The most elements it holds; 0 for no limit.
        memory_limit: The most bytes it holds; 0 for no limit.

    Raises:
        ValueError: There are not as many shapes or names as dtypes, or `shared_name` is no text.
    """

    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        if shared_name is None:
            self._name = get_default_graph().unique_name(type(self).__name__)
        elif isinstance(shared_name, str):
            self._name = shared_name
        else:
            raise ValueError(f"shared_name must be a string, got {shared_name}")
        self._dtypes = type_list(dtypes)
        count = len(self._dtypes)
        if shapes is not None and len(shapes) != count:
            raise ValueError("StagingArea shapes must be the same length as dtypes")
        if names and len(names) != count:
            raise ValueError("StagingArea names must be the same length as dtypes")
        self._shapes = [TensorShape(shape) for shape in shapes or [None] * count]
        self._names = list(names) if names else None
        self._capacity = capacity
        self._memory_limit = memory_limit

    @property
    def name(self) -> str:
        """The name under which the task knows it."""
        return self._name

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
        """The names of the components."""
        return self._names

    @property
    def capacity(self) -> int:
        """The most elements it holds; 0 for no limit."""
        return self._capacity

    @property
    def memory_limit(self) -> int:
        """The most bytes it holds; 0 for no limit."""
        return self._memory_limit

    def put(self, values: Any, name: str | None = None) -> Operation:
        """An operation that puts down an element; it waits while there is no room.

        Args:
            values: A tensor, a list of them, or a dictionary where the area has names.
            name: Name of the operation.

        Raises:
            ValueError: The components are not those of the area.
        """
        graph = get_default_graph()
        with graph.name_scope(name or f"{self._name}_put") as scope:
            parts = self._components(values)
            tensors = [
                graph.convert(part, dtype) for part, dtype in zip(parts, self._dtypes, strict=True)
            ]
            for tensor, shape in zip(tensors, self._shapes, strict=True):
                tensor.shape.assert_is_compatible_with(shape)
            made: Operation = graph.apply("Stage", (tensors,), self._attrs(), scope)
        return made

    def _components(self, values: Any) -> list[Any]:
        if isinstance(values, dict):
            if not self._names:
                raise ValueError("Staging areas must have names to enqueue a dictionary")
            if set(values) != set(self._names):
                raise ValueError(
                    "Keys in dictionary to put do not match names of staging area. Dictionary: "
                    f"{sorted(values)}Queue: {sorted(self._names)}"
                )
            return [values[name] for name in self._names]
        if self._names:
            raise ValueError("You must enqueue a dictionary in a staging area with names")
        parts = list(values) if isinstance(values, list | tuple) else [values]
        if len(parts) != len(self._dtypes):
            raise ValueError(f"Unexpected number of inputs {len(parts)} vs {len(self._dtypes)}")
        return parts

    def get(self, name: str | None = None) -> Any:
        """The oldest element, picked up; waits until there is one.

        Returns:
            A list of tensors; a dictionary where the area has names.
        """
        return self._taken("Unstage", (), name or f"{self._name}_get")

    def peek(self, index: Any, name: str | None = None) -> Any:
        """The element at an index, without removing it; waits until it exists. See `get`."""
        return self._taken("StagePeek", (index,), name or f"{self._name}_peek")

    def size(self, name: str | None = None) -> Tensor:
        """How many elements lie there: a scalar int32."""
        found: Tensor = get_default_graph().apply(
            "StageSize", (), self._attrs(), name or f"{self._name}_size"
        )
        return found

    def clear(self, name: str | None = None) -> Operation:
        """An operation that forgets all elements."""
        made: Operation = get_default_graph().apply(
            "StageClear", (), self._attrs(), name or f"{self._name}_clear"
        )
        return made

    def _taken(self, op_type: str, inputs: tuple[Any, ...], name: str) -> Any:
        tensors = get_default_graph().apply(op_type, inputs, self._attrs(), name)
        for tensor, shape in zip(tensors, self._shapes, strict=True):
            tensor.set_shape(shape)
        if self._names:
            return dict(zip(self._names, tensors, strict=True))
        return tensors

    def _attrs(self) -> dict[str, Any]:
        return {
            "dtypes": self._dtypes,
            "capacity": self._capacity,
            "memory_limit": self._memory_limit,
            "shared_name": self._name,
        }
