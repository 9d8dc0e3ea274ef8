"""`tf.contrib.staging`: values put aside between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sparkflow as tf

__all__ = ["StagingArea"]


class StagingArea:
    """Holds tuples of tensors that one part of a step puts in and another takes out, in order.

    It is a queue on the device of the process that runs the nodes.

    Args:
        dtypes: The dtypes of a tuple.
        shapes: Their shapes; any when None.
        names: Names of the components, for dictionaries.
        shared_name: Shares it between sessions.
        capacity: How many tuples it holds; `put` waits then. Any number when 0.
        memory_limit: Accepted for TensorFlow's sake.
    """

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Any = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        if capacity < 0 or memory_limit < 0:
            raise ValueError(f"capacity and memory_limit must be >= 0: {capacity}, {memory_limit}")
        self._queue = tf.FIFOQueue(
            capacity=capacity or 2**30,
            dtypes=list(dtypes),
            shapes=shapes,
            names=names,
            shared_name=shared_name,
            name="staging_area",
        )
        self._single = names is None and len(dtypes) == 1

    @property
    def name(self) -> str:
        """The name of the node."""
        return str(self._queue.name)

    @property
    def dtypes(self) -> Any:
        """The dtypes of a tuple."""
        return self._queue.dtypes

    @property
    def shapes(self) -> Any:
        """The shapes of a tuple."""
        return self._queue.shapes

    @property
    def names(self) -> Any:
        """The names of the components."""
        return self._queue.names

    def put(self, values: Any, name: str | None = None) -> Any:
        """The operation that puts a tuple in: a list, or a dictionary where there are names."""
        if not isinstance(values, list | tuple | Mapping):
            values = [values]
        return self._queue.enqueue(values, name=name)

    def get(self, name: str | None = None) -> Any:
        """The oldest tuple, taken out: a list, or a dictionary where there are names."""
        found = self._queue.dequeue(name=name)
        return [found] if self._single else found

    def size(self, name: str | None = None) -> Any:
        """How many tuples are there."""
        return self._queue.size(name=name)
