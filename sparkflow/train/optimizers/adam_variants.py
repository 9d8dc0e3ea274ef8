"""Relatives of Adam that TensorFlow 1 keeps in `tf.contrib.opt`: lazy, Nesterov's, AdaMax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.ordering import group
from sparkflow.ops.state import state
from sparkflow.train.optimizers.adam import AdamOptimizer
from sparkflow.variables.variable import Variable
from sparkflow_runtime.ops.optimizers.other_rows import SLOTS_DECAY, UNCHANGED


class LazyAdamOptimizer(AdamOptimizer):
    """Adam whose moments of rows without a gradient do not decay: faster for large tables.

    Arguments as for `AdamOptimizer`.
    """

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return self._apply_rows(grad, var, UNCHANGED)


class NadamOptimizer(AdamOptimizer):
    """Adam with Nesterov's look-ahead (Dozat 2016). Arguments as for `AdamOptimizer`.

    With sparse gradients m and v decay in every row, but only rows with a gradient change.
    """

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        moments, numbers = self._moments(var), self._numbers()
        return self._changed("ApplyAdam", var, *moments, *numbers, grad, use_nesterov=True)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return self._apply_rows(grad, var, SLOTS_DECAY, use_nesterov=True)


class AdaMaxOptimizer(AdamOptimizer):
    """Adam by the largest gradient (Kingma and Ba 2015, section 7.1).

    Args:
        learning_rate: As for `AdamOptimizer`, as all the others.
        beta1: As there.
        beta2: As there.
        epsilon: As there.
        use_locking: As there.
        name: Name of the train op and of the slots.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdaMax",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        first = min(var_list, key=lambda each: each.name)
        beta1 = self._call_if_callable(self._beta1)
        self._create_non_slot_variable(beta1, "beta1_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _numbers(self) -> tuple[Tensor, ...]:
        """The power, learning rate, betas and epsilon."""
        power = self._non_slot_value("beta1_power")
        return (power, self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._changed("ApplyAdaMax", var, *self._moments(var), *self._numbers(), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        moments, numbers = self._moments(var), self._numbers()
        return self._changed(
            "SparseApplyAdaMax", var, *moments, *numbers, grad.values, grad.indices
        )

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        power = self._get_non_slot_variable("beta1_power")
        graph = graph_of((power,))
        with graph.control_dependencies(list(update_ops)), graph.colocate_with(power):
            advanced = state.assign(power, power * self._beta1_t, use_locking=self._use_locking)
        return group(*update_ops, advanced, name=name_scope)
