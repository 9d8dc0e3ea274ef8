"""Batches of a task's data source as ops. The handle is, at run time, the `BatchSource` itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import list_attr, string_attr
from sparkflow_runtime.resources.batch_source import BatchSource
from sparkflow_runtime.shapes import Shape

_COMPONENTS = {
    "output_types": list_attr("type", minimum=1),
    "output_shapes": list_attr("shape", minimum=1),
}


def _require_one_shape_each(node: Inference) -> None:
    types, given = node.attrs["output_types"], node.attrs["output_shapes"]
    if len(types) != len(given):
        raise InvalidArgumentError(
            message=f"An iterator needs as many output_shapes as output_types, "
            f"got {len(given)} and {len(types)}"
        )


class _IteratorOp(Op):
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


@register
class IteratorV2(_IteratorOp):
    """The data source that the process hosting this task entered under `shared_name`."""

    outputs = "handle: resource"
    attrs = {"shared_name": string_attr(), "container": string_attr(), **_COMPONENTS}

    def infer(self, node: Inference) -> list[Shape]:
        """A scalar."""
        _require_one_shape_each(node)
        return [shapes.SCALAR]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel looks for the source in each step: it may be entered after the graph."""
        container, name = node.attrs["container"], node.attrs["shared_name"] or node.name
        resources = context.resources

        def run() -> BatchSource:
            try:
                source = resources.get(container, name, object)
            except NotFoundError as error:
                raise FailedPreconditionError(
                    message=f"There is no data source named {name!r} on {context.device_name}; "
                    "the process that hosts the task must enter one before training"
                ) from error
            if not isinstance(source, BatchSource):
                raise InvalidArgumentError(
                    message=f"Resource {name!r} on {context.device_name} is a "
                    f"{type(source).__name__}, which is no data source (no next_batch)"
                )
            return source

        return run


@register
class IteratorGetNext(_IteratorOp):
    """The next batch of a source, checked against the graph's dtypes and shapes."""

    inputs = "iterator: resource"
    outputs = "components: output_types"
    attrs = _COMPONENTS
    takes_step = True

    def infer(self, node: Inference) -> list[Shape]:
        """The shapes in the attribute."""
        _require_one_shape_each(node)
        return list(node.attrs["output_shapes"])

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel: gives the batch.

        It raises OutOfRangeError at the end of the data, and InvalidArgumentError where a component
        has another dtype or shape than the graph expects.
        """
        types = [dtype.as_numpy_dtype for dtype in node.attrs["output_types"]]
        expected = node.attrs["output_shapes"]

        def run(step: StepContext, source: BatchSource) -> tuple[Array, ...]:
            step.check_cancelled()
            batch = source.next_batch()
            _check(batch, types, expected)
            return batch

        return run


def _check(batch: Sequence[Array], types: Sequence[Any], expected: Sequence[Shape]) -> None:
    if len(batch) != len(types):
        raise InvalidArgumentError(
            message=f"The data source gave {len(batch)} components, the graph expects {len(types)}"
        )
    for index, (array, kind, shape) in enumerate(zip(batch, types, expected, strict=True)):
        if array.dtype != kind or not shapes.is_compatible(shape, array.shape):
            raise InvalidArgumentError(
                message=f"Component {index} of the batch is {array.dtype} "
                f"{shapes.text(array.shape)}, the graph expects {np.dtype(kind)} "
                f"{shapes.text(shape)}"
            )
