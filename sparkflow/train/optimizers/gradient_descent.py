"""Gradient descent."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.elementwise import elementwise
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.train.optimizers.slots import arithmetic_dtype
from sparkflow.variables.variable import Variable


@export("train.GradientDescentOptimizer")
class GradientDescentOptimizer(Optimizer):
    """w -= learning_rate * gradient.

    Args:
        learning_rate: A number, scalar tensor, or function giving one.
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op.
    """

    def __init__(
        self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._hyperparameter(self._learning_rate, "learning_rate")

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._changed("ApplyGradientDescent", var, self._learning_rate_tensor, grad)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Operation:
        # Subtracting twice is subtracting the sum: no need to add up rows first.
        dtype = arithmetic_dtype(var)
        rate = elementwise.cast(self._learning_rate_tensor, dtype)
        delta = elementwise.cast(grad.values, dtype) * rate
        return self._rows_subtracted(var, grad.indices, delta)
