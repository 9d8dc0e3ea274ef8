"""Adagrad (Duchi, Hazan, Singer 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.variables.variable import Variable


@export("train.AdagradOptimizer")
class AdagradOptimizer(Optimizer):
    """a += gradient²; w -= learning_rate * gradient / √a.

    Args:
        learning_rate: A number, scalar tensor, or function giving one.
        initial_accumulator_value: What a starts from; positive.
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op and of the slots.

    Raises:
        ValueError: `initial_accumulator_value` is not positive.
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive: {initial_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._slots.filled(var, "accumulator", self._name, self._initial_accumulator_value)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._hyperparameter(self._learning_rate, "learning_rate")

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        accumulator = self._slots.require(var, "accumulator")
        return self._changed("ApplyAdagrad", var, accumulator, self._learning_rate_tensor, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return self._changed(
            "SparseApplyAdagrad",
            var,
            self._slots.require(var, "accumulator"),
            self._learning_rate_tensor,
            grad.values,
            grad.indices,
        )
