"""Adadelta (Zeiler 2012)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.variables.variable import Variable


@export("train.AdadeltaOptimizer")
class AdadeltaOptimizer(Optimizer):
    """Steps in units of the parameter: no learning rate needs to be found.

    Args:
        learning_rate: A number, scalar tensor, or function giving one; 1 is the paper's.
        rho: The decay rate of both averages.
        epsilon: Keeps the denominator from 0.
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op and of the slots.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._rho = rho
        self._epsilon = epsilon

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "accum", self._name)
            self._zeros_slot(var, "accum_update", self._name)

    def _prepare(self) -> None:
        self._lr_t = self._hyperparameter(self._lr, "lr")
        self._rho_t = self._hyperparameter(self._rho, "rho")
        self._epsilon_t = self._hyperparameter(self._epsilon, "epsilon")

    def _inputs(self, var: Variable) -> list[Any]:
        slots = [self._slots.require(var, name) for name in ("accum", "accum_update")]
        return [*slots, self._lr_t, self._rho_t, self._epsilon_t]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._changed("ApplyAdadelta", var, *self._inputs(var), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return self._changed(
            "SparseApplyAdadelta", var, *self._inputs(var), grad.values, grad.indices
        )
