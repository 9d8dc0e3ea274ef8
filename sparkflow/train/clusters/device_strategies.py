"""Choice of a variable's parameter server: strategies for `replica_device_setter`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from sparkflow.graph.operation import Operation


class GreedyLoadBalancingStrategy:
    """The task with the least load so far, the first of several.

    Args:
        num_tasks: How many ps tasks there are.
        load_fn: From an operation to its load, for instance `byte_size_load_fn`.
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[Operation], Any]) -> None:
        self._num_tasks = num_tasks
        self._load_fn = load_fn
        self._ps_loads: list[Any] = [0] * num_tasks

    def __call__(self, op: Operation) -> int:
        """The task for an operation, which counts from now on."""
        task = self._ps_loads.index(min(self._ps_loads))
        self._ps_loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: Operation) -> int:
    """The bytes of the operation's first output.

    Raises:
        ValueError: Its shape is not fully known.
    """
    tensor = op.outputs[0]
    tensor.shape.assert_is_fully_defined()
    return int(tensor.shape.num_elements() or 0) * tensor.dtype.base.size


class RandomStrategy:
    """Any task, the same ones in each program with the same seed.

    Args:
        num_ps: How many ps tasks there are.
        seed: Where the random numbers start.
    """

    def __init__(self, num_ps: int, seed: int = 0) -> None:
        self._num_ps = num_ps
        self._random = random.Random(seed)

    def __call__(self, op: Operation) -> int:
        """The task for an operation."""
        return self._random.randrange(self._num_ps)
