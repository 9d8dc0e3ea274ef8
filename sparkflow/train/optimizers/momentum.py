"""Gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.variables.variable import Variable


@export("train.MomentumOptimizer")
class MomentumOptimizer(Optimizer):
    """a = momentum * a + gradient; w -= learning_rate * a.

    Args:
        learning_rate: A number, scalar tensor, or function giving one.
        momentum: A number, scalar tensor, or function giving one.
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op and of the slots.
        use_nesterov: Use the gradient at the point momentum leads to (Sutskever et al. 2013).
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._hyperparameter(self._learning_rate, "learning_rate")
        self._momentum_tensor = self._hyperparameter(self._momentum, "momentum")

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._changed(
            "ApplyMomentum",
            var,
            self._slots.require(var, "momentum"),
            self._learning_rate_tensor,
            grad,
            self._momentum_tensor,
            use_nesterov=self._use_nesterov,
        )

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return self._changed(
            "SparseApplyMomentum",
            var,
            self._slots.require(var, "momentum"),
            self._learning_rate_tensor,
            grad.values,
            grad.indices,
            self._momentum_tensor,
            use_nesterov=self._use_nesterov,
        )
