"""Staging areas: tuples of tensors that steps store for later steps, in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.resources.waiting import Cancellation, wait_for


class StagingArea:
    """Elements stored and not yet removed. `_changed` guards `_items`.

    Args:
        capacity: Maximum number of elements; 0 for no limit.
        memory_limit_bytes: Maximum size, 0 for no limit; a single element may be larger.
    """

    def __init__(self, capacity: int = 0, memory_limit_bytes: int = 0) -> None:
        self._capacity = capacity
        self._limit_bytes = memory_limit_bytes
        self._items: deque[tuple[Any, ...]] = deque()
        self._changed = threading.Condition()

    def put(self, components: Sequence[Any], step: Cancellation) -> None:
        """Stores an element; blocks while there is no room."""
        element = tuple(each.copy() for each in components)

        def attempt() -> bool | None:
            if self._items and self._is_full(element):
                return None
            self._items.append(element)
            self._changed.notify_all()
            return True

        wait_for(self._changed, attempt, step)

    def _is_full(self, element: Sequence[Any]) -> bool:
        if 0 < self._capacity <= len(self._items):
            return True
        held = sum(_size_bytes(each) for each in self._items) + _size_bytes(element)
        return 0 < self._limit_bytes < held

    def get(self, step: Cancellation) -> tuple[Any, ...]:
        """Removes and returns the oldest element; blocks until there is one."""

        def attempt() -> tuple[Any, ...] | None:
            if not self._items:
                return None
            found = self._items.popleft()
            self._changed.notify_all()
            return found

        return wait_for(self._changed, attempt, step)

    def peek(self, index: int, step: Cancellation) -> tuple[Any, ...]:
        """Returns the element at `index`, which stays; blocks until it exists."""
        return wait_for(
            self._changed,
            lambda: self._items[index] if 0 <= index < len(self._items) else None,
            step,
        )

    def clear(self) -> None:
        """Forgets all elements."""
        with self._changed:
            self._items.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Removes all elements, when the area is dropped."""
        self.clear()

    def __len__(self) -> int:
        with self._changed:
            return len(self._items)


def _size_bytes(element: Sequence[Any]) -> int:
    return sum(int(np.prod(each.shape)) * each.dtype.itemsize for each in element)
