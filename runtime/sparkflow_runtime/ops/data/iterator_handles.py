"""Iterators that are initialised, passed as strings, or read as optionals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.data.iterator import (
    COMPONENTS,
    IteratorGetNext,
    IteratorOp,
    element_check,
    require_one_shape_each,
)
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView
from sparkflow_runtime.ops.registry import add, register
from sparkflow_runtime.ops.signature import Attr, list_attr, string_attr
from sparkflow_runtime.ops.strings.string_arrays import array_of, scalar_text
from sparkflow_runtime.resources.datasets.dataset import Dataset, Element
from sparkflow_runtime.resources.datasets.dataset_iterator import DatasetIterator, IteratorHandles
from sparkflow_runtime.shapes import Shape


class _Handle(IteratorOp):
    infer = scalars


@register
class AnonymousIterator(_Handle):
    """A new iterator in each run."""

    outputs = "handle: resource"
    attrs = COMPONENTS

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel creates it; it lives as long as the handle."""
        return lambda: DatasetIterator(node.name)


@register
class OneShotIterator(_Handle):
    """An iterator over the dataset that a function returns, initialised at first use."""

    outputs = "handle: resource"
    attrs = {
        "dataset_factory": Attr("func"),
        **COMPONENTS,
        "container": string_attr(""),
        "shared_name": string_attr(""),
    }
    takes_step = True

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel initialises it in the first step."""
        shared = node.attrs["shared_name"]
        scope = context.resources if shared else context.session
        name = shared or node.name
        factory = context.function(node.attrs["dataset_factory"])
        iterator = scope.get_or_create(
            node.attrs["container"], name, DatasetIterator, lambda: DatasetIterator(name)
        )

        def run(step: StepContext) -> DatasetIterator:
            if not iterator.is_initialized:
                (dataset,) = factory(step)
                iterator.initialize_once(dataset)
            return iterator

        return run


@register
class MakeIterator(IteratorOp):
    """Initialises an iterator."""

    inputs = "dataset: variant, iterator: resource"

    def compute(self, xp: Any, dataset: Dataset, iterator: Any) -> None:
        """Moves to the first element.

        Raises:
            InvalidArgumentError: The iterator is a data source of the task.
        """
        if not isinstance(iterator, DatasetIterator):
            raise InvalidArgumentError(
                message=f"A {type(iterator).__name__} cannot be initialized with a dataset: it is "
                "a data source of its own"
            )
        iterator.initialize(dataset)


@register
class DeleteIterator(IteratorOp):
    """Deletes an iterator."""

    inputs = "handle: resource, deleter: variant"

    def compute(self, xp: Any, iterator: Any, _: Any) -> None:
        """Closes it."""
        iterator.close()


@register
class IteratorToStringHandle(_Handle):
    """A string that identifies an iterator."""

    inputs = "resource_handle: resource"
    outputs = "string_handle: string"

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel."""
        handles = _handles(context)
        return lambda iterator: array_of([handles.text(iterator)], ())


def _handles(context: KernelContext) -> IteratorHandles:
    return context.resources.get_or_create(
        "", "sparkflow/iterator_handles", IteratorHandles, IteratorHandles
    )


class IteratorFromStringHandle(_Handle):
    """The iterator that a string identifies."""

    inputs = "string_handle: string"
    outputs = "resource_handle: resource"
    attrs = {
        "output_types": list_attr("type", []),
        "output_shapes": list_attr("shape", []),
    }

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel."""
        handles = _handles(context)
        return lambda text: handles.find(scalar_text(text, "string_handle"))


class IteratorFromStringHandleV2(IteratorFromStringHandle):
    """The same."""


class IteratorGetNextSync(IteratorGetNext):
    """The same as `IteratorGetNext`."""


class Optional:
    """An optional element, possibly empty."""

    __slots__ = ("element",)

    def __init__(self, element: Element | None) -> None:
        self.element = element


@register
class IteratorGetNextAsOptional(_Handle):
    """The next element as an optional, empty at the end."""

    inputs = "iterator: resource"
    outputs = "optional: variant"
    attrs = COMPONENTS
    takes_step = True
    may_block = True

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel."""
        check = element_check(node)

        def run(step: StepContext, iterator: DatasetIterator) -> Optional:
            element = iterator.next(step)
            if element is not None:
                check(element)
            return Optional(element)

        return run


@register
class OptionalFromValue(_Handle):
    """An optional with these components."""

    inputs = "components: Toutput_types"
    outputs = "optional: variant"
    attrs = {"Toutput_types": list_attr("type", minimum=1)}

    def compute(self, xp: Any, *components: Array) -> Optional:
        """It."""
        return Optional(components)


@register
class OptionalNone(_Handle):
    """An empty optional."""

    outputs = "optional: variant"

    def compute(self, xp: Any) -> Optional:
        """It."""
        return Optional(None)


@register
class OptionalHasValue(_Handle):
    """Whether an optional has a value."""

    inputs = "optional: variant"
    outputs = "has_value: bool"

    def compute(self, xp: Any, optional: Optional) -> Array:
        """A boolean."""
        return np.bool_(optional.element is not None)


@register
class OptionalGetValue(IteratorOp):
    """The components of an optional's value."""

    inputs = "optional: variant"
    outputs = "components: output_types"
    attrs = COMPONENTS

    def infer(self, node: Inference) -> list[Shape]:
        """The shapes in the attribute."""
        require_one_shape_each(node)
        return list(node.attrs["output_shapes"])

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel."""
        check = element_check(node)

        def run(optional: Optional) -> Element:
            if optional.element is None:
                raise InvalidArgumentError(message="The given optional does not have a value.")
            check(optional.element)
            return optional.element

        return run


for _op in (IteratorFromStringHandle, IteratorFromStringHandleV2, IteratorGetNextSync):
    add(_op())
