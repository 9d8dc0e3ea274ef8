"""Optimizers that take larger steps where gradient and momentum agree (Bello et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.elementwise import elementwise
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.train.optimizers.slots import reached
from sparkflow.variables.variable import Variable
from sparkflow_runtime.ops.optimizers.other_rows import ZERO_GRADIENT


class _SignOptimizer(Optimizer):
    """What both share: the momentum m = β m + (1-β) g and the decay of the signs' weight."""

    def __init__(
        self,
        learning_rate: Any,
        beta: Any,
        sign_decay_fn: Callable[[Any], Any] | None,
        use_locking: bool,
        name: str,
    ) -> None:
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._beta = beta
        self._sign_decay_fn = sign_decay_fn
        self._sign_decay: Any = None

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Operation:
        """As `Optimizer.apply_gradients`; the decay function is given `global_step`."""
        if self._sign_decay_fn is not None:
            self._sign_decay = self._sign_decay_fn(global_step)
        return super().apply_gradients(grads_and_vars, global_step, name)

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)

    def _prepare(self) -> None:
        self._lr_t = self._hyperparameter(self._lr, "learning_rate")
        self._beta_t = self._hyperparameter(self._beta, "beta")
        decay = 1.0 if self._sign_decay is None else self._sign_decay
        self._sign_decay_t = self._hyperparameter(decay, "sign_decay")

    def _op(self) -> tuple[str, tuple[Tensor, ...]]:
        """The name of the rule, and the numbers that its ops take before the gradient."""
        raise NotImplementedError(type(self).__name__)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        rule, numbers = self._op()
        m = self._slots.require(var, "m")
        return self._changed(f"Apply{rule}", var, m, *numbers, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        rule, numbers = self._op()
        return self._changed(
            f"SparseApply{rule}",
            var,
            self._slots.require(var, "m"),
            *numbers,
            grad.values,
            grad.indices,
            other_rows=reached(var, ZERO_GRADIENT),
        )


class AddSignOptimizer(_SignOptimizer):
    """w -= rate * (α + decay * sign(g) sign(m)) * g.

    Args:
        learning_rate: A number, scalar tensor, or function giving one.
        alpha: The part of the step that does not depend on signs.
        beta: The decay rate of the momentum.
        sign_decay_fn: Gives the signs' weight for a step; 1 when None.
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op and of the slots.
    """

    def __init__(
        self,
        learning_rate: Any = 0.1,
        alpha: Any = 1.0,
        beta: Any = 0.9,
        sign_decay_fn: Callable[[Any], Any] | None = None,
        use_locking: bool = False,
        name: str = "AddSignOptimizer",
    ) -> None:
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._alpha = alpha

    def _prepare(self) -> None:
        super()._prepare()
        self._alpha_t = self._hyperparameter(self._alpha, "alpha")

    def _op(self) -> tuple[str, tuple[Tensor, ...]]:
        return "AddSign", (self._lr_t, self._alpha_t, self._sign_decay_t, self._beta_t)


class PowerSignOptimizer(_SignOptimizer):
    """w -= rate * base ** (decay * sign(g) sign(m)) * g.

    Args:
        learning_rate: A number, scalar tensor, or function giving one.
        base: The factor of a step where signs agree, and the divisor where they do not.
        beta: The decay rate of the momentum.
        sign_decay_fn: Gives the signs' weight for a step; 1 when None.
        use_locking: Keep concurrent updates of a variable apart.
        name: Name of the train op and of the slots.
    """

    def __init__(
        self,
        learning_rate: Any = 0.1,
        base: Any = math.e,
        beta: Any = 0.9,
        sign_decay_fn: Callable[[Any], Any] | None = None,
        use_locking: bool = False,
        name: str = "PowerSignOptimizer",
    ) -> None:
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._base = base

    def _prepare(self) -> None:
        super()._prepare()
        self._logbase_t = elementwise.log(self._hyperparameter(self._base, "base"))

    def _op(self) -> tuple[str, tuple[Tensor, ...]]:
        return "PowerSign", (self._lr_t, self._logbase_t, self._sign_decay_t, self._beta_t)
