"""Adam (Kingma and Ba 2015), in the formulation before section 2.1 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.indexed_slices import IndexedSlices
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow.ops import elementwise, state
from sparkflow.ops.control import group
from sparkflow.train.optimizer import Optimizer
from sparkflow.variables.variable import Variable


class AdamOptimizer(Optimizer):
    """m = β1 m + (1-β1) g; v = β2 v + (1-β2) g²; w -= rate √(1-β2ᵗ) / (1-β1ᵗ) · m / (√v + ε).

    With sparse gradients m and v decay in every row, as in TensorFlow; only the rows' own gradients
    are added.

    Args:
        learning_rate: A number or scalar tensor.
        beta1, beta2: Decay rates of the moments.
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
        self._learning_rate = learning_rate
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon
        self._powers: dict[Any, tuple[Variable, Variable]] = {}

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        first = min(var_list, key=lambda each: each.name)
        graph = first.graph
        if graph not in self._powers:
            with graph.colocate_with(first, ignore_existing=True), graph.name_scope(None):
                self._powers[graph] = (
                    Variable(_number(self._beta1), trainable=False, name="beta1_power"),
                    Variable(_number(self._beta2), trainable=False, name="beta2_power"),
                )
        for var in var_list:
            self._slots.zeros(var, "m", self._name)
            self._slots.zeros(var, "v", self._name)

    def _prepare(self) -> None:
        self._rate = self._hyperparameter(self._learning_rate, "learning_rate")
        self._beta1_tensor = self._hyperparameter(self._beta1, "beta1")
        self._beta2_tensor = self._hyperparameter(self._beta2, "beta2")
        self._epsilon_tensor = self._hyperparameter(self._epsilon, "epsilon")

    def _numbers(self, var: Variable) -> tuple[Tensor, ...]:
        """The two powers, learning rate, betas and epsilon in the variable's dtype."""
        powers = self._powers[var.graph]
        tensors = (
            *(power.value() for power in powers),
            self._rate,
            self._beta1_tensor,
            self._beta2_tensor,
            self._epsilon_tensor,
        )
        return tuple(elementwise.cast(tensor, var.dtype.base) for tensor in tensors)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        updated: Tensor = apply_op(
            "ApplyAdam",
            var,
            self._slots.require(var, "m"),
            self._slots.require(var, "v"),
            *self._numbers(var),
            grad,
            use_locking=self._use_locking,
        )
        return updated.op

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        graph = var.graph
        power1, power2, rate, beta1, beta2, epsilon = self._numbers(var)
        step_size = rate * elementwise.sqrt(1 - power2) / (1 - power1)
        m, v = self._slots.require(var, "m"), self._slots.require(var, "v")
        new_m = self._decayed(m, beta1, grad.values * (1 - beta1), grad.indices)
        squares = grad.values * grad.values
        new_v = self._decayed(v, beta2, squares * (1 - beta2), grad.indices)
        change = step_size * new_m / (elementwise.sqrt(new_v) + epsilon)
        with graph.control_dependencies([new_m.op, new_v.op]):
            updated = state.assign_sub(var, change, use_locking=self._use_locking)
        return group(updated, new_m, new_v)

    def _decayed(self, slot: Variable, beta: Tensor, rows: Tensor, indices: Tensor) -> Tensor:
        """The slot after `slot = slot * beta`, then `slot[indices] += rows`."""
        graph = slot.graph
        decayed = state.assign(slot, slot * beta, use_locking=self._use_locking)
        with graph.control_dependencies([decayed]):
            return state.scatter_add(slot, indices, rows, self._use_locking)

    def _finish(self, updates: Sequence[Operation], name: str) -> Operation:
        power1, power2 = self._powers[updates[0].graph]
        graph = power1.graph
        with graph.control_dependencies(list(updates)), graph.colocate_with(power1):
            advanced = [
                state.assign(power1, power1 * self._beta1_tensor, use_locking=self._use_locking),
                state.assign(power2, power2 * self._beta2_tensor, use_locking=self._use_locking),
            ]
        return group(*updates, *advanced, name=name)

    def _own_variables(self) -> list[Variable]:
        return [power for pair in self._powers.values() for power in pair]


def _number(value: Any) -> Any:
    return value() if callable(value) else value
