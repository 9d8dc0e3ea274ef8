"""Optimizers with a proximal step for l1 and l2 (Duchi, Singer 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.variables.variable import Variable


@export("train.ProximalGradientDescentOptimizer")
class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent, then w = shrink(w, rate * l1) / (1 + rate * l2).

    Args:
        learning_rate: A number, scalar tensor, or function giving one.
        l1_regularization_strength: At least 0.
        l2_regularization_strength: At least 0.
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op.
    """

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _prepare(self) -> None:
        self._numbers = [
            self._hyperparameter(self._learning_rate, "learning_rate"),
            self._hyperparameter(self._l1_regularization_strength, "l1_regularization_strength"),
            self._hyperparameter(self._l2_regularization_strength, "l2_regularization_strength"),
        ]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._changed("ApplyProximalGradientDescent", var, *self._numbers, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return self._changed(
            "SparseApplyProximalGradientDescent", var, *self._numbers, grad.values, grad.indices
        )


@export("train.ProximalAdagradOptimizer")
class ProximalAdagradOptimizer(Optimizer):
    """Adagrad, then the proximal step at Adagrad's rates.

    Args:
        learning_rate: A number, scalar tensor, or function giving one.
        initial_accumulator_value: What the sum of squared gradients starts from; positive.
        l1_regularization_strength: At least 0.
        l2_regularization_strength: At least 0.
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op and of the slots.

    Raises:
        ValueError: `initial_accumulator_value` is not positive.
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive: {initial_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._slots.filled(var, "accumulator", self._name, self._initial_accumulator_value)

    def _prepare(self) -> None:
        self._numbers = [
            self._hyperparameter(self._learning_rate, "learning_rate"),
            self._hyperparameter(self._l1_regularization_strength, "l1_regularization_strength"),
            self._hyperparameter(self._l2_regularization_strength, "l2_regularization_strength"),
        ]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        accumulator = self._slots.require(var, "accumulator")
        return self._changed("ApplyProximalAdagrad", var, accumulator, *self._numbers, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return self._changed(
            "SparseApplyProximalAdagrad",
            var,
            self._slots.require(var, "accumulator"),
            *self._numbers,
            grad.values,
            grad.indices,
        )
