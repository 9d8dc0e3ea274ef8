"""`clip_gradients_by_norm`: an optimizer whose gradients are clipped together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.ops.reduction.clip import clip_by_global_norm
from sparkflow.train.optimizers.optimizer import GradientAndVariable, Optimizer
from sparkflow.variables.variable import Variable


def clip_gradients_by_norm(optimizer: Optimizer, clip_norm: Any) -> Optimizer:
    """An optimizer that applies gradients after `tf.clip_by_global_norm`.

    Args:
        optimizer: What applies them.
        clip_norm: The longest that all gradients together may be; a number or a scalar tensor.

    Raises:
        TypeError: It is no optimizer.
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"optimizer must be a tf.train.Optimizer. Got: {optimizer}")
    return _Clipping(optimizer, clip_norm)


class _Clipping(Optimizer):
    def __init__(self, optimizer: Optimizer, clip_norm: Any) -> None:
        super().__init__(use_locking=False, name=f"ClipByNorm{optimizer.get_name()}")
        self._optimizer = optimizer
        self._clip_norm = clip_norm

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[GradientAndVariable]:
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Operation:
        pairs = list(grads_and_vars)
        clipped, _ = clip_by_global_norm([grad for grad, _ in pairs], self._clip_norm)
        variables = [variable for _, variable in pairs]
        applied = list(zip(clipped, variables, strict=True))
        return self._optimizer.apply_gradients(applied, global_step, name)

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        return self._optimizer.get_slot_names()

    def variables(self) -> list[Variable]:
        return self._optimizer.variables()
