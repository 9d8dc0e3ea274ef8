"""Placement of graph nodes on tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sparkflow as tf
from sparkflow_runtime import shapes
from sparkflow_runtime.ops import registry

WORKER_DEVICE: Final = "/job:worker"
"""Every session replaces this by its own worker's task."""


def variables_on_ps(num_ps: int) -> Callable[[Any], str] | None:
    """Returns a `tf.device` function: variables on parameter servers, all else on the worker."""
    return tf.train.replica_device_setter(
        ps_tasks=num_ps, worker_device=WORKER_DEVICE, ps_strategy=_LeastLoaded(num_ps)
    )


class _LeastLoaded:
    """Places each variable on the parameter server with the fewest bytes so far."""

    def __init__(self, num_ps: int) -> None:
        self._bytes = [0] * num_ps

    def __call__(self, op: Any) -> int:
        task = self._bytes.index(min(self._bytes))
        # At least 1, so that tables and variables of unknown size are spread, too.
        self._bytes[task] += max(1, _size_bytes(op))
        return task


def _size_bytes(op: Any) -> int:
    """The size of a variable, 0 if it is not known; tables have none."""
    if not registry.find(op.type).is_variable:
        return 0
    elements: int = shapes.num_elements(op.attr("shape")) or 0
    return elements * int(op.attr("dtype").base.size)
