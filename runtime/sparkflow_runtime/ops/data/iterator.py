"""Iterators as ops: of datasets (`tf.data`), and of a task's own source of batches.

At run time, the handle is the `DatasetIterator` or `BatchSource` itself. Other kinds of handles are
in `iterator_handles`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import list_attr, string_attr
from sparkflow_runtime.resources.datasets.batch_source import BatchSource
from sparkflow_runtime.resources.datasets.dataset import shape_of
from sparkflow_runtime.resources.datasets.dataset_iterator import DatasetIterator
from sparkflow_runtime.shapes import Shape

COMPONENTS = {
    "output_types": list_attr("type", minimum=1),
    "output_shapes": list_attr("shape", minimum=1),
}


def require_one_shape_each(node: Inference) -> None:
    """Checks that there is one shape per type.

    Raises:
        InvalidArgumentError: There are more or fewer.
    """
    types, given = node.attrs["output_types"], node.attrs["output_shapes"]
    if len(types) != len(given):
        raise InvalidArgumentError(
            message=f"An iterator needs as many output_shapes as output_types, "
            f"got {len(given)} and {len(types)}"
        )


class IteratorOp(Op):
    """The base of ops on iterators."""

    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


@register
class IteratorV2(IteratorOp):
    """An iterator, or the data source that the task's host registered under `shared_name`."""

    outputs = "handle: resource"
    attrs = {"shared_name": string_attr(), "container": string_attr(), **COMPONENTS}

    def infer(self, node: Inference) -> list[Shape]:
        """A scalar."""
        require_one_shape_each(node)
        return [shapes.SCALAR]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """An iterator of the task if it has a shared_name, else of its node in its session.

        The kernel looks it up in each step: a data source may be registered after the graph.
        """
        container, shared = node.attrs["container"], node.attrs["shared_name"]
        scope = context.resources if shared else context.session
        name = shared or node.name

        def run() -> Any:
            found = scope.get_or_create(container, name, object, lambda: DatasetIterator(name))
            if not isinstance(found, DatasetIterator | BatchSource):
                raise InvalidArgumentError(
                    message=f"Resource {name!r} on {context.device_name} is a "
                    f"{type(found).__name__}, which is no data source (no next_batch)"
                )
            return found

        return run


@register
class IteratorGetNext(IteratorOp):
    """The next element, checked against the graph's dtypes and shapes."""

    inputs = "iterator: resource"
    outputs = "components: output_types"
    attrs = COMPONENTS
    takes_step = True
    may_block = True

    def infer(self, node: Inference) -> list[Shape]:
        """The shapes in the attribute."""
        require_one_shape_each(node)
        return list(node.attrs["output_shapes"])

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel: returns the element.

        It raises OutOfRangeError at the end of the data, and InvalidArgumentError if a component's
        dtype or shape is not what the graph expects.
        """
        check = element_check(node)

        def run(step: StepContext, source: Any) -> tuple[Array, ...]:
            step.check_cancelled()
            if isinstance(source, DatasetIterator):
                element = source.next_batch(step)
            else:
                element = source.next_batch()
            check(element)
            return element

        return run


def element_check(node: NodeView) -> Callable[[Sequence[Array]], None]:
    """Checks that an element has the types and shapes that a node expects."""
    expected = node.attrs["output_shapes"]
    types = [
        None if dtype in (dtypes.variant, dtypes.resource) else np.dtype(dtype.as_numpy_dtype)
        for dtype in node.attrs["output_types"]
    ]
    return lambda element: _check(element, types, expected)


def _check(batch: Sequence[Array], types: Sequence[Any], expected: Sequence[Shape]) -> None:
    if len(batch) != len(types):
        raise InvalidArgumentError(
            message=f"The data source gave {len(batch)} components, the graph expects {len(types)}"
        )
    for index, (array, kind, shape) in enumerate(zip(batch, types, expected, strict=True)):
        if kind is None:
            continue
        if array.dtype != kind or not shapes.is_compatible(shape, array.shape):
            raise InvalidArgumentError(
                message=f"Component {index} of the batch is {array.dtype} "
                f"{shapes.text(shape_of(array))}, the graph expects {kind} {shapes.text(shape)}"
            )
