"""Accumulators as ops: the gradients of several replicas, averaged by weight.

These ops are sparkflow's own: TensorFlow's ConditionalAccumulator knows no weights and no replicas.
A handle is, at run time, the accumulator of `resources.accumulator` itself; replicas whose graphs
name the same accumulator on the same task meet in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import shape_attr, string_attr, type_attr
from sparkflow_runtime.resources import accumulator
from sparkflow_runtime.shapes import Shape

_DTYPE = type_attr(dtypes.FLOATING | dtypes.COMPLEX)
_WEIGHT = type_attr(frozenset({dtypes.float32, dtypes.float64}))


class _AccumulatorOp(Op):
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


class _MakesAccumulator(_AccumulatorOp):
    outputs = "handle: resource"
    attrs = {
        "dtype": _DTYPE,
        "shape": shape_attr(),
        "container": string_attr(""),
        "shared_name": string_attr(""),
    }
    kind: ClassVar[type[Any]]

    def infer(self, node: Inference) -> list[Shape]:
        """A scalar."""
        return [shapes.SCALAR]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Finds or makes the accumulator of the task; the kernel returns it.

        Raises:
            InvalidArgumentError: It exists with another dtype or shape.
        """
        name = node.attrs["shared_name"] or node.name
        dtype, shape = node.attrs["dtype"], node.attrs["shape"]
        found = context.resources.get_or_create(
            node.attrs["container"], name, self.kind, lambda: self.kind(name, dtype, shape)
        )
        if (found.dtype, found.shape) != (dtype, shape):
            raise InvalidArgumentError(
                message=f"Accumulator {name!r} exists on {context.device_name} as "
                f"{found.dtype.name} {shapes.text(found.shape)}, but was asked for as "
                f"{dtype.name} {shapes.text(shape)}"
            )
        return lambda: found


@register
class WeightedAccumulator(_MakesAccumulator):
    """An accumulator of arrays of the shape of a variable."""

    kind = accumulator.WeightedAccumulator


@register
class SparseWeightedAccumulator(_MakesAccumulator):
    """An accumulator of rows of a variable of this shape."""

    kind = accumulator.SparseWeightedAccumulator


class _Applies(_AccumulatorOp):
    def infer(self, node: Inference) -> list[Shape]:
        """No outputs.

        Raises:
            InvalidArgumentError: Step, replica or weight is no scalar.
        """
        for index, name in ((1, "step"), (2, "replica"), (3, "weight")):
            node.with_rank(index, 0, name)
        return []


@register
class WeightedAccumulatorApply(_Applies):
    """Contributes a replica's gradient to a step; counts once per (replica, step)."""

    inputs = "handle: resource, step: int64, replica: int64, weight: Tweight, gradient: dtype"
    attrs = {"dtype": _DTYPE, "Tweight": _WEIGHT}

    def compute(
        self,
        xp: Any,
        handle: accumulator.WeightedAccumulator,
        step: Array,
        replica: Array,
        weight: Array,
        gradient: Array,
    ) -> None:
        """See `resources.accumulator.WeightedAccumulator.apply`."""
        handle.apply(int(step), int(replica), float(weight), gradient)


@register
class SparseWeightedAccumulatorApply(_Applies):
    """Contributes a replica's rows to a step; counts once per (replica, step)."""

    inputs = (
        "handle: resource, step: int64, replica: int64, weight: Tweight, "
        "gradient_indices: Tindices, gradient_values: dtype"
    )
    attrs = {"dtype": _DTYPE, "Tindices": type_attr(dtypes.INDEX), "Tweight": _WEIGHT}

    def infer(self, node: Inference) -> list[Shape]:
        """No outputs.

        Raises:
            InvalidArgumentError: Indices and values do not fit.
        """
        (count,) = node.with_rank(4, 1, "gradient_indices")
        values = node.shapes[5]
        if values is not None and not shapes.is_compatible(values[:1], (count,)):
            raise InvalidArgumentError(
                message=f"gradient_values of shape {shapes.text(values)} do not have one row per "
                f"index in gradient_indices of shape {shapes.text((count,))}"
            )
        return super().infer(node)

    def compute(
        self,
        xp: Any,
        handle: accumulator.SparseWeightedAccumulator,
        step: Array,
        replica: Array,
        weight: Array,
        gradient_indices: Array,
        gradient_values: Array,
    ) -> None:
        """See `resources.accumulator.SparseWeightedAccumulator.apply`."""
        handle.apply(int(step), int(replica), float(weight), gradient_indices, gradient_values)


class _Takes(_AccumulatorOp):
    inputs = "handle: resource, step: int64, num_required: int32"
    takes_step = True

    def infer(self, node: Inference) -> list[Shape]:
        """The shape in the attribute.

        Raises:
            InvalidArgumentError: Step or num_required is no scalar.
        """
        for index, name in ((1, "step"), (2, "num_required")):
            node.with_rank(index, 0, name)
        return [node.attrs["shape"]]


@register
class WeightedAccumulatorTake(_Takes):
    """The weighted mean of a step, once so many replicas contributed; blocks until then."""

    outputs = "average: dtype"
    attrs = {"dtype": _DTYPE, "shape": shape_attr(None)}

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.accumulator.WeightedAccumulator.take`."""

        def run(
            running: StepContext,
            handle: accumulator.WeightedAccumulator,
            step: Array,
            num_required: Array,
        ) -> Array:
            return handle.take(int(step), int(num_required), running)

        return run


@register
class SparseWeightedAccumulatorTake(_Takes):
    """The rows of a step, scaled by their replicas' shares; equal indices are not summed."""

    outputs = "indices: Tindices, values: dtype"
    attrs = {
        "dtype": _DTYPE,
        "Tindices": type_attr(dtypes.INDEX, dtypes.int64),
        "shape": shape_attr(None),
    }

    def infer(self, node: Inference) -> list[Shape]:
        """Rows in unknown number of the variable whose shape is in the attribute."""
        (shape,) = super().infer(node)
        return [(None,), None if shape is None else (None, *shape[1:])]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.accumulator.SparseWeightedAccumulator.take`."""
        kind = node.attrs["Tindices"].as_numpy_dtype

        def run(
            running: StepContext,
            handle: accumulator.SparseWeightedAccumulator,
            step: Array,
            num_required: Array,
        ) -> tuple[Array, Array]:
            indices, values = handle.take(int(step), int(num_required), running)
            return indices.astype(kind, copy=False), values

        return run
