"""`ConditionalAccumulator`, `SparseConditionalAccumulator`: combine replicas' gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op, convert_to_tensor, output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.elementwise import elementwise
from sparkflow_runtime.dtypes import DType, as_dtype, int32, int64


class SparseAccumulatorTakeGradient(NamedTuple):
    """The result of `SparseConditionalAccumulator.take_grad`, under TensorFlow's name."""

    indices: Tensor
    values: Tensor
    shape: Tensor


@export("ConditionalAccumulatorBase")
class ConditionalAccumulatorBase:
    """Base of both accumulators.

    Args:
        dtype: The gradients' dtype.
        shape: The gradients' shape, None if unknown.
        accumulator_ref: The handle.
    """

    def __init__(self, dtype: Any, shape: Any, accumulator_ref: Tensor) -> None:
        self._dtype = as_dtype(dtype)
        self._shape = TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.rpartition("/")[2]

    @property
    def accumulator_ref(self) -> Tensor:
        """The handle."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """The name of the accumulator's operation, without scopes."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The dtype of the gradients."""
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """Returns the number of gradients received: [] int32."""
        return output_of(
            "AccumulatorNumAccumulated",
            self._accumulator_ref,
            name=name or f"{self._name}_NumAccumulated",
        )

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """Returns an operation after which gradients for earlier steps are dropped."""
        step = elementwise.cast(convert_to_tensor(new_global_step), int64)
        operation: Operation = apply_op(
            "AccumulatorSetGlobalStep", self._accumulator_ref, step, name=name
        )
        return operation

    def cancel_takes(self, name: str | None = None) -> Operation:
        """Returns an operation that ends all takes with CancelledError until the step is set."""
        operation: Operation = apply_op("AccumulatorCancelTakes", self._accumulator_ref, name=name)
        return operation


@export("ConditionalAccumulator")
class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulates gradients until enough have been received.

    Args:
        dtype: The gradients' dtype.
        shape: The gradients' shape, None if unknown.
        shared_name: The name under which graphs of several sessions find it on its task.
        name: Name of the operation.
        reduction_type: `MEAN` or `SUM`.
    """

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        super().__init__(
            dtype,
            shape,
            _made("ConditionalAccumulator", dtype, shape, shared_name, name, reduction_type),
        )

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Operation:
        """Returns an operation that adds a gradient.

        Args:
            grad: The gradient.
            local_step: The step for which it was computed; dropped if that is over.
            name: Name of the operation.

        Raises:
            ValueError: The gradient has another shape.
        """
        gradient = convert_to_tensor(grad, self._dtype)
        gradient.shape.assert_is_compatible_with(self._shape)
        step = elementwise.cast(convert_to_tensor(local_step), int64)
        operation: Operation = apply_op(
            "AccumulatorApplyGradient", self._accumulator_ref, step, gradient, name=name
        )
        return operation

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        """Returns the mean or sum of `num_required` gradients; running it waits for them."""
        taken: Tensor = apply_op(
            "AccumulatorTakeGradient",
            self._accumulator_ref,
            convert_to_tensor(num_required, int32),
            dtype=self._dtype,
            name=name,
        )
        taken.set_shape(self._shape)
        return taken


@export("SparseConditionalAccumulator", "sparse.SparseConditionalAccumulator")
class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulates rows until enough gradients have been received.

    Args:
        dtype: The values' dtype.
        shape: The dense shape, or its first dimensions; None or () if unknown.
        shared_name: The name under which graphs of several sessions find it on its task.
        name: Name of the operation.
        reduction_type: `MEAN`, over the gradients with the row, or `SUM`.
    """

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        super().__init__(
            dtype,
            shape,
            _made("SparseConditionalAccumulator", dtype, shape, shared_name, name, reduction_type),
        )

    def apply_indexed_slices_grad(
        self, grad: IndexedSlices, local_step: Any = 0, name: str | None = None
    ) -> Operation:
        """Returns an operation that adds a sparse gradient, see `apply_grad`."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self,
        grad_indices: Any,
        grad_values: Any,
        grad_shape: Any = None,
        local_step: Any = 0,
        name: str | None = None,
    ) -> Operation:
        """Returns an operation that adds rows.

        Args:
            grad_indices: [n] integers.
            grad_values: [n, ...].
            grad_shape: The dense shape, if known.
            local_step: The step for which they were computed; dropped if that is over.
            name: Name of the operation.
        """
        shape = [] if grad_shape is None else grad_shape
        known = grad_shape is not None
        operation: Operation = apply_op(
            "SparseAccumulatorApplyGradient",
            self._accumulator_ref,
            elementwise.cast(convert_to_tensor(local_step), int64),
            elementwise.cast(convert_to_tensor(grad_indices), int64),
            convert_to_tensor(grad_values, self._dtype),
            elementwise.cast(convert_to_tensor(shape, None if known else int64), int64),
            has_known_shape=known,
            name=name,
        )
        return operation

    def take_grad(
        self, num_required: Any, name: str | None = None
    ) -> SparseAccumulatorTakeGradient:
        """Returns indices, values, shape of `num_required` gradients; running it waits for them."""
        taken = apply_op(
            "SparseAccumulatorTakeGradient",
            self._accumulator_ref,
            convert_to_tensor(num_required, int32),
            dtype=self._dtype,
            name=name,
        )
        return SparseAccumulatorTakeGradient(*taken)

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        """Like `take_grad`, as `IndexedSlices`."""
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)


def _made(
    op_type: str, dtype: Any, shape: Any, shared_name: str | None, name: str, reduction_type: str
) -> Tensor:
    return output_of(
        op_type,
        dtype=as_dtype(dtype),
        shape=TensorShape(shape).as_tuple(),
        shared_name=shared_name or "",
        reduction_type=reduction_type,
        name=name,
    )
