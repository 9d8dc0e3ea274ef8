"""FTRL-proximal (McMahan et al. 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.variables.variable import Variable


@export("train.FtrlOptimizer")
class FtrlOptimizer(Optimizer):
    """Follow the regularised leader: l1 regularisation that makes parameters exactly 0.

    Args:
        learning_rate: A number, scalar tensor, or function giving one.
        learning_rate_power: At most 0; how the rate falls with the sum of squared gradients.
        initial_accumulator_value: What that sum starts from; at least 0.
        l1_regularization_strength: At least 0.
        l2_regularization_strength: At least 0; a stabilising penalty.
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op and of the slots.
        accum_name: Name of the slot of squares; `name` when None.
        linear_name: Name of the linear slot; `name` when None.
        l2_shrinkage_regularization_strength: At least 0; a magnitude penalty.

    Raises:
        ValueError: A number is outside its range.
    """

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: Any = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
    ) -> None:
        super().__init__(use_locking, name)
        for label, value in (
            ("initial_accumulator_value", initial_accumulator_value),
            ("l1_regularization_strength", l1_regularization_strength),
            ("l2_regularization_strength", l2_regularization_strength),
            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength),
        ):
            if value < 0.0:
                raise ValueError(f"{label} {value:f} needs to be positive or zero")
        if learning_rate_power > 0.0:
            raise ValueError(
                f"learning_rate_power {learning_rate_power:f} needs to be negative or zero"
            )
        self._learning_rate = learning_rate
        self._learning_rate_power = learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self._accum_name = accum_name
        self._linear_name = linear_name

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            name = self._accum_name or self._name
            self._slots.filled(var, "accum", name, self._initial_accumulator_value)
            self._zeros_slot(var, "linear", self._linear_name or self._name)

    def _prepare(self) -> None:
        named = {
            "learning_rate": self._learning_rate,
            "l1_regularization_strength": self._l1_regularization_strength,
            "l2_regularization_strength": self._l2_regularization_strength,
        }
        if self._l2_shrinkage_regularization_strength > 0:
            named["l2_shrinkage_regularization_strength"] = (
                self._l2_shrinkage_regularization_strength
            )
        named["learning_rate_power"] = self._learning_rate_power
        self._numbers = [self._hyperparameter(value, name) for name, value in named.items()]

    def _op_type(self, prefix: str) -> str:
        return prefix + ("V2" if self._l2_shrinkage_regularization_strength > 0 else "")

    def _inputs(self, var: Variable) -> list[Any]:
        return [self._slots.require(var, name) for name in ("accum", "linear")]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        op_type = self._op_type("ApplyFtrl")
        return self._changed(op_type, var, *self._inputs(var), grad, *self._numbers)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        op_type = self._op_type("SparseApplyFtrl")
        inputs = (*self._inputs(var), grad.values, grad.indices)
        return self._changed(op_type, var, *inputs, *self._numbers)
