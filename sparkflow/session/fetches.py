"""Nested structures of things to fetch: flattened once, filled with values at every run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.graph.composite import Composite
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices, IndexedSlicesValue
from sparkflow.graph.values.sparse_tensor import SparseTensor, SparseTensorValue
from sparkflow.session.handles import TensorHandle, is_kept

Fill = Callable[[Sequence[Any]], Any]


class Fetches:
    """The fetches of one `run`.

    Args:
        graph: The session's graph.
        structure: A tensor, operation, variable, `IndexedSlices` or name, or lists, tuples,
            named tuples, classes made with attrs, and dictionaries of those.
        session: The session that runs them, which `TensorHandle`s need.

    Attributes:
        tensors: The tensors to fetch, each once.
        targets: The operations to run only.
        fill: Makes the result from the tensors' values, in the shape of the structure.
        is_flat_tensor: Whether the structure is one tensor.

    Raises:
        TypeError: Something cannot be fetched.
        ValueError: Something belongs to another graph or does not exist.
    """

    def __init__(self, graph: Graph, structure: Any, session: Any = None) -> None:
        self._graph = graph
        self._session = session
        self._positions: dict[Tensor, int] = {}
        self.targets: list[Operation] = []
        self.fill = self._visit(structure)
        self.tensors = list(self._positions)

    def _visit(self, item: Any) -> Fill:
        if item is None:
            raise TypeError("Fetch argument None has invalid type <class 'NoneType'>")
        if isinstance(item, Mapping):
            return self._mapping(item)
        if isinstance(item, list | tuple):
            return self._sequence(item)
        if hasattr(type(item), "__attrs_attrs__"):
            return self._attrs(item)
        if isinstance(item, IndexedSlices):
            return self._indexed_slices(item)
        if isinstance(item, SparseTensor):
            parts = [self._visit(each) for each in (item.indices, item.values, item.dense_shape)]
            return lambda values: SparseTensorValue(*[part(values) for part in parts])
        if isinstance(item, Composite):
            fills = [self._visit(each) for each in item._components()]
            composite = item
            return lambda values: composite._value_of([fill(values) for fill in fills])
        element = self._element(item)
        if isinstance(element, Operation):
            if element not in self.targets:
                self.targets.append(element)
            return _nothing
        index = self._position(element)
        if is_kept(element):
            dtype, session = element.op.inputs[0].dtype.base, self._session
            return lambda values: TensorHandle(values[index], dtype, session)
        return lambda values: values[index]

    def _element(self, item: Any) -> Tensor | Operation:
        if not isinstance(item, str | Symbolic | Operation):
            raise TypeError(
                f"Fetch argument {item!r} has invalid type {type(item)}, must be a string or "
                f"Tensor. (Can not convert a {type(item).__name__} into a Tensor or Operation.)"
            )
        try:
            element = self._graph.as_graph_element(item)
        except KeyError as error:
            raise ValueError(
                f"Fetch argument {item!r} cannot be interpreted as a Tensor. ({error.args[0]})"
            ) from error
        except ValueError as error:
            raise ValueError(
                f"Fetch argument {item!r} cannot be interpreted as a Tensor. ({error})"
            ) from error
        if not self._graph.is_fetchable(element):
            raise ValueError(f"Operation {element.name!r} has been marked as not fetchable.")
        return element

    def _position(self, tensor: Tensor) -> int:
        return self._positions.setdefault(tensor, len(self._positions))

    def _sequence(self, items: Sequence[Any]) -> Fill:
        fills = [self._visit(item) for item in items]
        kind: Any = type(items)
        if isinstance(items, tuple) and hasattr(items, "_fields"):
            return lambda values: kind(*[fill(values) for fill in fills])
        if kind not in (list, tuple):
            kind = list if isinstance(items, list) else tuple
        return lambda values: kind([fill(values) for fill in fills])

    def _mapping(self, items: Mapping[Any, Any]) -> Fill:
        fills = {key: self._visit(item) for key, item in items.items()}
        kind: Any = type(items)

        def fill(values: Sequence[Any]) -> Any:
            result = {key: each(values) for key, each in fills.items()}
            if isinstance(items, defaultdict):
                return kind(items.default_factory, result)
            return result if kind is dict else kind(result)

        return fill

    def _attrs(self, item: Any) -> Fill:
        kind = type(item)
        fills = [self._visit(getattr(item, each.name)) for each in kind.__attrs_attrs__]
        return lambda values: kind(*[fill(values) for fill in fills])

    def _indexed_slices(self, item: IndexedSlices) -> Fill:
        rows, indices = (self._visit(each) for each in (item.values, item.indices))
        shape = None if item.dense_shape is None else self._visit(item.dense_shape)
        return lambda values: IndexedSlicesValue(
            rows(values), indices(values), None if shape is None else shape(values)
        )


def _nothing(values: Sequence[Any]) -> None:
    return None


def key_of(structure: Any) -> Any:
    """Something hashable that is equal for the same structure of the same things.

    Tensors and operations stand for themselves. Keys hold references, so that an `id` cannot come
    to mean another object.

    Raises:
        TypeError: Something in the structure is not hashable.
    """
    kind = type(structure)
    if kind is Tensor or kind is Operation:
        return structure
    if isinstance(structure, list | tuple):
        return (kind, *[key_of(item) for item in structure])
    if isinstance(structure, Mapping):
        return (kind, *[(key, key_of(item)) for key, item in structure.items()])
    return structure
