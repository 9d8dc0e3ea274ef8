"""RMSProp (Hinton 2012, lecture 6e; centered: Graves 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.variables.variable import Variable


@export("train.RMSPropOptimizer")
class RMSPropOptimizer(Optimizer):
    """Gradients divided by a moving average of their size.

    Args:
        learning_rate: A number, scalar tensor, or function giving one.
        decay: The decay rate of the averages.
        momentum: A number or scalar tensor.
        epsilon: Keeps the denominator from 0.
        use_locking: Keep concurrent updates of a variable apart.
        centered: Divide by the standard deviation of gradients rather than by their size.
        name: Name of the train op and of the slots.
    """

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._decay = decay
        self._momentum = momentum
        self._epsilon = epsilon
        self._centered = centered

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._slots.filled(var, "rms", self._name, 1.0)
            if self._centered:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._hyperparameter(self._learning_rate, "learning_rate")
        self._decay_tensor = self._hyperparameter(self._decay, "decay")
        self._momentum_tensor = self._hyperparameter(self._momentum, "momentum")
        self._epsilon_tensor = self._hyperparameter(self._epsilon, "epsilon")

    def _inputs(self, var: Variable) -> list[Any]:
        names = ("mg", "rms", "momentum") if self._centered else ("rms", "momentum")
        return [
            *[self._slots.require(var, name) for name in names],
            self._learning_rate_tensor,
            self._decay_tensor,
            self._momentum_tensor,
            self._epsilon_tensor,
        ]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        op_type = "ApplyCenteredRMSProp" if self._centered else "ApplyRMSProp"
        return self._changed(op_type, var, *self._inputs(var), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        op_type = "SparseApplyCenteredRMSProp" if self._centered else "SparseApplyRMSProp"
        return self._changed(op_type, var, *self._inputs(var), grad.values, grad.indices)
