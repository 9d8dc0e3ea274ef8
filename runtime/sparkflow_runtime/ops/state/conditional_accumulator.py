"""TensorFlow's accumulators as ops, which `SyncReplicasOptimizer` and programs use.

A handle is, at run time, the accumulator of `resources.conditional_accumulator` itself. Replicas
whose graphs name the same accumulator on the same task share it. Our own accumulators, which know
weights and replicas, are in `accumulator`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import scalars, sizes
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.native.equal_rows import sum_equal
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, shape_attr, string_attr, type_attr
from sparkflow_runtime.resources import conditional_accumulator as resource
from sparkflow_runtime.shapes import Shape

_DTYPE = {"dtype": type_attr(dtypes.NUMERIC)}


class _AccumulatorOp(Op):
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


class _MakesAccumulator(_AccumulatorOp):
    outputs = "handle: Ref(string)"
    attrs = {
        **_DTYPE,
        "shape": shape_attr(),
        "container": string_attr(""),
        "shared_name": string_attr(""),
        "reduction_type": string_attr("MEAN", frozenset({"MEAN", "SUM"})),
    }
    kind: ClassVar[type[Any]]
    given: ClassVar[tuple[Any, ...]] = ()
    """Constructor arguments of such an accumulator that the node does not determine."""
    infer = sizes((2,))

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Finds or creates the accumulator of the task; the kernel returns it.

        Raises:
            InvalidArgumentError: It exists with another dtype or shape.
        """
        name = node.attrs["shared_name"] or node.name
        asked = node.attrs["dtype"], node.attrs["shape"], node.attrs["reduction_type"] == "MEAN"
        found = context.resources.get_or_create(
            node.attrs["container"], name, self.kind, lambda: self.kind(name, *asked, *self.given)
        )
        if (found.dtype, found.shape, found.mean) != asked:
            raise InvalidArgumentError(
                message=f"Accumulator {name!r} exists on {context.device_name} as "
                f"{found.dtype.name} {shapes.text(found.shape)}, but was asked for as "
                f"{asked[0].name} {shapes.text(asked[1])} or with another reduction"
            )
        return lambda: found


@register
class ConditionalAccumulator(_MakesAccumulator):
    """An accumulator of arrays."""

    kind = resource.ConditionalAccumulator


@register
class SparseConditionalAccumulator(_MakesAccumulator):
    """An accumulator of rows."""

    kind = resource.SparseConditionalAccumulator
    given = (sum_equal,)


@register
class AccumulatorNumAccumulated(_AccumulatorOp):
    """The number of accumulated gradients."""

    inputs = "handle: Ref(string)"
    outputs = "num_accumulated: int32"
    infer = scalars

    def compute(self, xp: Any, handle: Any) -> Array:
        """The number."""
        return np.int32(handle.num_accumulated)


@register
class AccumulatorSetGlobalStep(_AccumulatorOp):
    """Drops gradients for earlier steps from now on."""

    inputs = "handle: Ref(string), new_global_step: int64"

    def infer(self, node: Inference) -> list[Shape]:
        """No outputs.

        Raises:
            InvalidArgumentError: The step is not a scalar.
        """
        node.with_rank(1, 0, "new_global_step")
        return []

    def compute(self, xp: Any, handle: Any, new_global_step: Array) -> None:
        """See `resources.conditional_accumulator`."""
        handle.set_global_step(int(new_global_step))


@register
class AccumulatorCancelTakes(_AccumulatorOp):
    """Ends all takes until the step is set: sparkflow's own, to stop the chief of replicas."""

    is_ours = True
    inputs = "handle: Ref(string)"

    def compute(self, xp: Any, handle: Any) -> None:
        """See `resources.conditional_accumulator`."""
        handle.cancel_takes()


class AppliesGradient(_AccumulatorOp):
    """Adds a gradient to the accumulator of the first input."""

    collects_gradients = True

    def infer(self, node: Inference) -> list[Shape]:
        """No outputs.

        Raises:
            InvalidArgumentError: The step is not a scalar.
        """
        node.with_rank(1, 0, "local_step")
        return []


@register
class AccumulatorApplyGradient(AppliesGradient):
    """Adds a gradient, unless its step is outdated."""

    inputs = "handle: Ref(string), local_step: int64, gradient: dtype"
    attrs = _DTYPE

    def compute(
        self, xp: Any, handle: resource.ConditionalAccumulator, local_step: Array, gradient: Array
    ) -> None:
        """See `resources.conditional_accumulator.ConditionalAccumulator.apply`."""
        handle.apply(int(local_step), gradient)


@register
class SparseAccumulatorApplyGradient(AppliesGradient):
    """Adds rows, unless their step is outdated."""

    sums_rows = ("gradient_values", "gradient_indices")
    inputs = (
        "handle: Ref(string), local_step: int64, gradient_indices: int64, gradient_values: dtype, "
        "gradient_shape: int64"
    )
    attrs = {**_DTYPE, "has_known_shape": bool_attr()}

    def compute(
        self,
        xp: Any,
        handle: resource.SparseConditionalAccumulator,
        local_step: Array,
        gradient_indices: Array,
        gradient_values: Array,
        gradient_shape: Array,
        *,
        has_known_shape: bool,
    ) -> None:
        """See `resources.conditional_accumulator.SparseConditionalAccumulator.apply`."""
        shape = gradient_shape if has_known_shape else ()
        handle.apply(int(local_step), gradient_indices, gradient_values, shape)


class TakesGradient(_AccumulatorOp):
    """Takes the mean of the gradients out of the accumulator of the first input."""

    inputs = "handle: Ref(string), num_required: int32"
    attrs = _DTYPE
    gives_collected = True
    takes_step = True
    may_block = True
    parks = True

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `take` in `resources.conditional_accumulator`."""

        def run(step: StepContext, handle: Any, num_required: Array) -> Any:
            return handle.take(int(num_required), step)

        return run


@register
class AccumulatorTakeGradient(TakesGradient):
    """The mean or sum once the required number of gradients has arrived; blocks until then."""

    outputs = "average: dtype"

    def infer(self, node: Inference) -> list[Shape]:
        """Unknown: only the accumulator knows."""
        node.with_rank(1, 0, "num_required")
        return [None]


@register
class SparseAccumulatorTakeGradient(TakesGradient):
    """Rows once the required number of gradients has arrived; blocks until then."""

    outputs = "indices: int64, values: dtype, shape: int64"

    def infer(self, node: Inference) -> list[Shape]:
        """Rows in unknown number."""
        node.with_rank(1, 0, "num_required")
        return [(None,), None, (None,)]
