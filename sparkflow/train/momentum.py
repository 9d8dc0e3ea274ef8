"""Gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.indexed_slices import IndexedSlices
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow.ops import elementwise
from sparkflow.train.optimizer import Optimizer
from sparkflow.variables.variable import Variable


class MomentumOptimizer(Optimizer):
    """a = momentum * a + gradient; w -= learning_rate * a.

    Args:
        learning_rate: A number or scalar tensor.
        momentum: A number or scalar tensor.
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
            self._slots.zeros(var, "momentum", self._name)

    def _prepare(self) -> None:
        self._rate = self._hyperparameter(self._learning_rate, "learning_rate")
        self._decay = self._hyperparameter(self._momentum, "momentum")

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        rate, decay = (elementwise.cast(t, var.dtype.base) for t in (self._rate, self._decay))
        updated: Tensor = apply_op(
            "ApplyMomentum",
            var,
            self._slots.require(var, "momentum"),
            rate,
            grad,
            decay,
            use_locking=self._use_locking,
            use_nesterov=self._use_nesterov,
        )
        return updated.op

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        rate, decay = (elementwise.cast(t, var.dtype.base) for t in (self._rate, self._decay))
        updated: Tensor = apply_op(
            "SparseApplyMomentum",
            var,
            self._slots.require(var, "momentum"),
            rate,
            grad.values,
            grad.indices,
            decay,
            use_locking=self._use_locking,
            use_nesterov=self._use_nesterov,
        )
        return updated.op
