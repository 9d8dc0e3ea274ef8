"""Adagrad with dual averaging, for sparse linear models (Duchi, Hazan, Singer 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.ordering import identity
from sparkflow.ops.elementwise import elementwise
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.variables.variable import Variable
from sparkflow_runtime.dtypes import int64


@export("train.AdagradDAOptimizer")
class AdagradDAOptimizer(Optimizer):
    """g += gradient; s += gradient²; w = -rate * shrink(g, l1 t) / (l2 t rate + √s).

    t counts steps from 1. Features that are not in a batch are regularised in closed form.

    Args:
        learning_rate: A number, scalar tensor, or function giving one.
        global_step: The variable that counts steps.
        initial_gradient_squared_accumulator_value: What s starts from; positive.
        l1_regularization_strength: At least 0.
        l2_regularization_strength: At least 0.
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op and of the slots.

    Raises:
        ValueError: The start of s is not positive.
    """

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError(
                "initial_gradient_squared_accumulator_value must be positive: "
                f"{initial_gradient_squared_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._global_step = global_step
        self._initial_value = initial_gradient_squared_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "gradient_accumulator", self._name)
            self._slots.filled(var, "gradient_squared_accumulator", self._name, self._initial_value)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._hyperparameter(self._learning_rate, "learning_rate")
        graph = self._learning_rate_tensor.graph
        with graph.colocate_with(self._learning_rate_tensor):
            step = identity(self._global_step)
            self._global_step_on_worker = elementwise.cast(step, int64) + 1

    def _inputs(self, var: Variable) -> list[Any]:
        names = ("gradient_accumulator", "gradient_squared_accumulator")
        return [self._slots.require(var, name) for name in names]

    def _numbers(self) -> list[Any]:
        return [
            self._learning_rate_tensor,
            self._hyperparameter(self._l1_regularization_strength, "l1_regularization_strength"),
            self._hyperparameter(self._l2_regularization_strength, "l2_regularization_strength"),
            self._global_step_on_worker,
        ]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._changed("ApplyAdagradDA", var, *self._inputs(var), grad, *self._numbers())

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        return self._changed(
            "SparseApplyAdagradDA",
            var,
            *self._inputs(var),
            grad.values,
            grad.indices,
            *self._numbers(),
        )
