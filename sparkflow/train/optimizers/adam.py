"""Adam (Kingma and Ba 2015), in the formulation before section 2.1 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.ordering import group
from sparkflow.ops.state import state
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.train.optimizers.slots import reached
from sparkflow.variables.variable import Variable
from sparkflow_runtime.ops.optimizers.other_rows import ZERO_GRADIENT


@export("train.AdamOptimizer")
class AdamOptimizer(Optimizer):
    """m = β1 m + (1-β1) g; v = β2 v + (1-β2) g²; w -= rate √(1-β2ᵗ) / (1-β1ᵗ) · m / (√v + ε).

    With sparse gradients m and v decay in every row, as in TensorFlow; only the rows' own gradients
    are added. Of embedding variables only the rows that have a gradient change.

    Args:
        learning_rate: A number, scalar tensor, or function giving one.
        beta1: Decay rate of m.
        beta2: Decay rate of v.
        epsilon: Keeps the denominator from 0.
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op and of the slots.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon

    def _get_beta_accumulators(self) -> tuple[Variable, Variable]:
        """β1ᵗ and β2ᵗ of the default graph."""
        return (
            self._get_non_slot_variable("beta1_power"),
            self._get_non_slot_variable("beta2_power"),
        )

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        first = min(var_list, key=lambda each: each.name)
        for name, beta in (("beta1_power", self._beta1), ("beta2_power", self._beta2)):
            self._create_non_slot_variable(self._call_if_callable(beta), name, first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        self._lr_t = self._hyperparameter(self._lr, "learning_rate")
        self._beta1_t = self._hyperparameter(self._beta1, "beta1")
        self._beta2_t = self._hyperparameter(self._beta2, "beta2")
        self._epsilon_t = self._hyperparameter(self._epsilon, "epsilon")

    def _numbers(self) -> tuple[Tensor, ...]:
        """The two powers, learning rate, betas and epsilon."""
        powers = map(self._non_slot_value, ("beta1_power", "beta2_power"))
        return (*powers, self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)

    def _moments(self, var: Variable) -> list[Variable]:
        """The slots m and v."""
        return [self._slots.require(var, name) for name in ("m", "v")]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._changed("ApplyAdam", var, *self._moments(var), *self._numbers(), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return self._apply_rows(grad, var, ZERO_GRADIENT)

    def _apply_rows(
        self, grad: IndexedSlices, var: Variable, other_rows: str, use_nesterov: bool = False
    ) -> Operation:
        return self._changed(
            "SparseApplyAdam",
            var,
            *self._moments(var),
            *self._numbers(),
            grad.values,
            grad.indices,
            other_rows=reached(var, other_rows),
            use_nesterov=use_nesterov,
        )

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        power1, power2 = self._get_beta_accumulators()
        graph = graph_of((power1,))
        with graph.control_dependencies(list(update_ops)), graph.colocate_with(power1):
            advanced = [
                state.assign(power1, power1 * self._beta1_t, use_locking=self._use_locking),
                state.assign(power2, power2 * self._beta2_t, use_locking=self._use_locking),
            ]
        return group(*update_ops, *advanced, name=name_scope)
