"""Relatives of Adam that TensorFlow 1 keeps in `tf.contrib.opt`: lazy, Nesterov's, AdaMax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.ordering import group
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.shape.arrays import gather
from sparkflow.ops.state import state
from sparkflow.train.optimizers.adam import AdamOptimizer
from sparkflow.train.optimizers.slots import arithmetic_dtype, rows_of
from sparkflow.variables.variable import Variable


class LazyAdamOptimizer(AdamOptimizer):
    """Adam whose moments of rows without a gradient do not decay: faster for large tables.

    Arguments as for `AdamOptimizer`.
    """

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return self._apply_to_rows(grad, var)


class NadamOptimizer(AdamOptimizer):
    """Adam with Nesterov's look-ahead (Dozat 2016). Arguments as for `AdamOptimizer`."""

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        slots = [self._slots.require(var, name) for name in ("m", "v")]
        return self._changed("ApplyAdam", var, *slots, *self._numbers(), grad, use_nesterov=True)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        dtype, rows = arithmetic_dtype(var), grad.indices
        values = elementwise.cast(grad.values, dtype)
        power1, power2, rate, beta1, beta2, epsilon = (
            elementwise.cast(each, dtype) for each in self._numbers()
        )
        step_size = rate * elementwise.sqrt(1 - power2) / (1 - power1)
        m, v = self._slots.require(var, "m"), self._slots.require(var, "v")
        scaled = values * (1 - beta1)
        new_m = self._decayed(m, beta1, scaled, rows)
        new_v = self._decayed(v, beta2, elementwise.square(values) * (1 - beta2), rows)
        ahead = scaled + beta1 * gather(new_m, rows)
        change = step_size * ahead / (elementwise.sqrt(gather(new_v, rows)) + epsilon)
        updated = self._rows_subtracted(var, rows, change)
        return group(updated, new_m, new_v)


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
        slots = [self._slots.require(var, name) for name in ("m", "v")]
        return self._changed("ApplyAdaMax", var, *slots, *self._numbers(), grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        dtype, rows, locking = arithmetic_dtype(var), grad.indices, self._use_locking
        values = elementwise.cast(grad.values, dtype)
        power, rate, beta1, beta2, epsilon = (
            elementwise.cast(each, dtype) for each in self._numbers()
        )
        m, v = self._slots.require(var, "m"), self._slots.require(var, "v")
        new_m = beta1 * rows_of(m, rows) + (1 - beta1) * values
        new_v = elementwise.maximum(beta2 * rows_of(v, rows), elementwise.abs(values))
        change = rate / (1 - power) * new_m / (new_v + epsilon)
        return group(
            state.scatter_update(m, rows, new_m, locking),
            state.scatter_update(v, rows, new_v, locking),
            self._rows_subtracted(var, rows, change),
        )

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        power = self._get_non_slot_variable("beta1_power")
        graph = graph_of((power,))
        with graph.control_dependencies(list(update_ops)), graph.colocate_with(power):
            advanced = state.assign(power, power * self._beta1_t, use_locking=self._use_locking)
        return group(*update_ops, advanced, name=name_scope)
