"""`Optional`: an element or its absence."""

from __future__ import annotations

from typing import Any

from sparkflow.data import nest, structure
from sparkflow.data.iterator import Iterator
from sparkflow.data.registered import of_datasets
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.tensor import Tensor


class Optional:
    """An element or its absence.

    Args:
        variant: The tensor that represents it.
        element: The structure of the element.
    """

    def __init__(self, variant: Tensor, element: Any) -> None:
        self._variant_tensor = variant
        self._structure = element

    @property
    def element_spec(self) -> Any:
        """The type of the element: a nested structure of `TensorSpec` and related specs."""
        return nest.mapped(structure.spec_of, self._structure)

    def has_value(self, name: str | None = None) -> Tensor:
        """Returns whether there is an element, a scalar boolean."""
        graph = self._variant_tensor.graph
        found: Tensor = graph.apply("OptionalHasValue", [self._variant_tensor], {}, name)
        return found

    def get_value(self, name: str | None = None) -> Any:
        """Returns the element; raises InvalidArgumentError at run time if there is none."""
        attrs = structure.attrs(self._structure)
        op = self._variant_tensor.graph.add_node(
            "OptionalGetValue", [self._variant_tensor], attrs, name
        )
        return structure.of_flat(self._structure, op.outputs)

    @staticmethod
    def from_value(value: Any) -> Optional:
        """Returns an `Optional` with an element."""
        element, flat = structure.of_values(value)
        op = get_default_graph().add_node("OptionalFromValue", [flat])
        return Optional(op.outputs[0], element)

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """Returns an `Optional` without an element, for a structure of `TensorSpec`."""
        op = get_default_graph().add_node("OptionalNone")
        return Optional(op.outputs[0], nest.mapped(structure.of_spec, element_spec))

    @staticmethod
    def none_from_structure(value_structure: Any) -> Optional:
        """Returns an `Optional` without an element.

        Args:
            value_structure: Another `Optional` or a dataset with the same element structure.
        """
        op = get_default_graph().add_node("OptionalNone")
        return Optional(op.outputs[0], value_structure._structure)


@of_datasets
def get_next_as_optional(iterator: Iterator) -> Optional:
    """Returns the next element of an iterator, or no element at its end."""
    resource = iterator._iterator_resource
    attrs = structure.attrs(iterator._structure)
    op = resource.graph.add_node("IteratorGetNextAsOptional", [resource], attrs)
    return Optional(op.outputs[0], iterator._structure)
