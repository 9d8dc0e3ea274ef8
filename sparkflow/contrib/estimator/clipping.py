"""`clip_gradients_by_norm`: an optimizer whose gradients are clipped together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.graph.operation import Operation
from sparkflow.ops.reduction.clip import clip_by_global_norm
from sparkflow.train.optimizers.optimizer import Optimizer, WrappingOptimizer


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


class _Clipping(WrappingOptimizer):
    def __init__(self, optimizer: Optimizer, clip_norm: Any) -> None:
        super().__init__(optimizer, use_locking=False, name=f"ClipByNorm{optimizer.get_name()}")
        self._clip_norm = clip_norm

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
        return self._opt.apply_gradients(applied, global_step, name)
