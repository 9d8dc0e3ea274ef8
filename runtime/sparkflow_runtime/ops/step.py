"""Ops that query the running step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register


@register
class StepNumber(Op):
    """The number of the running training step: its loop's start plus the completed iterations.

    It is the same on every device of a step, without any transfer between them. Ours, not
    TensorFlow's.
    """

    is_ours = True
    outputs = "number: int64"
    stateful = True
    takes_step = True
    gradient = not_differentiable
    infer = scalars

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Reads the number from the step."""
        xp = context.xp

        def number(step: StepContext) -> Any:
            return xp.asarray(step.number, np.int64)

        return number
