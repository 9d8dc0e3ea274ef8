"""Barriers: tuples that several steps complete, component by component, under one key."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from sparkflow_runtime.resources.waiting import Cancellation, wait_for
from sparkflow_runtime.shapes import Shape

_FIRST_INDEX = -(2**63)


class Barrier:
    """Elements by key, dequeued when complete, in the order of their keys' first insertion.

    `_changed` guards everything that changes.

    Args:
        name: Its name in error texts.
        component_types: The dtype of each component.
        component_shapes: The shape of each; empty if unknown.
    """

    def __init__(
        self, name: str, component_types: Sequence[DType], component_shapes: Sequence[Shape]
    ) -> None:
        self.component_types = tuple(component_types)
        self.component_shapes = tuple(component_shapes)
        self._name = name
        self._changed = threading.Condition()
        self._incomplete: dict[bytes, tuple[int, list[Any]]] = {}
        self._ready: list[tuple[int, bytes, list[Any]]] = []
        self._next_index = _FIRST_INDEX
        self._closed = False
        self._cancelled = False

    def insert_many(self, component: int, keys: Sequence[bytes], values: Any) -> None:
        """Inserts one component for each key.

        Raises:
            InvalidArgumentError: There is no such component, it has a value already, or the values
                do not fit.
            CancelledError: The barrier is closed, and a key is new or no more insertions are
                allowed.
        """
        if not 0 <= component < len(self.component_types):
            raise InvalidArgumentError(
                message=f"The component ID is out of range {component} > num_components "
                f"{len(self.component_types)}"
            )
        if values.ndim == 0 or len(values) != len(keys):
            raise InvalidArgumentError(
                message=f"Shape mismatch: {len(keys)} keys and values of shape {values.shape}"
            )
        if self.component_shapes and not shapes.is_compatible(
            tuple(values.shape[1:]), self.component_shapes[component]
        ):
            raise InvalidArgumentError(
                message=f"Shape mismatch in barrier {self._name!r}: values of shape "
                f"{list(values.shape[1:])} for component {component}, expected "
                f"{shapes.text(self.component_shapes[component])}"
            )
        with self._changed:
            for key, value in zip(keys, values, strict=True):
                self._insert(component, key, np.array(value))
            self._ready.sort(key=lambda entry: entry[0])
            self._changed.notify_all()

    def _insert(self, component: int, key: bytes, value: Any) -> None:
        if self._cancelled:
            raise CancelledError(
                message=f"Barrier {self._name!r} is closed.  Pending enqueues cancelled."
            )
        if key not in self._incomplete:
            if self._closed:
                raise CancelledError(
                    message=f"Barrier {self._name!r} is closed, but attempted to insert a brand "
                    f"new key: {key.decode(errors='replace')}"
                )
            self._incomplete[key] = self._next_index, [None] * len(self.component_types)
            self._next_index += 1
        index, parts = self._incomplete[key]
        if parts[component] is not None:
            raise InvalidArgumentError(
                message=f"Key {key.decode(errors='replace')} already has a value for component "
                f"{component} in barrier {self._name!r}"
            )
        parts[component] = value
        if all(part is not None for part in parts):
            del self._incomplete[key]
            self._ready.append((index, key, parts))

    def take_many(
        self, count: int, allow_small_batch: bool, step: Cancellation
    ) -> list[tuple[int, bytes, list[Any]]]:
        """Dequeues complete elements with their indices and keys; blocks until they are there.

        Raises:
            OutOfRangeError: The barrier is closed and there will never be enough.
        """

        def attempt() -> list[tuple[int, bytes, list[Any]]] | None:
            size = len(self._ready)
            if size < count:
                left = size + len(self._incomplete)
                if not self._closed or ((left >= count or allow_small_batch) and self._incomplete):
                    return None
                if not (allow_small_batch and size):
                    raise OutOfRangeError(
                        message=f"Barrier {self._name!r} is closed and has insufficient elements "
                        f"(requested {count}, total size {left})"
                    )
            taken, self._ready = self._ready[:count], self._ready[count:]
            return taken

        return wait_for(self._changed, attempt, step)

    def shut(self, cancel_pending_enqueues: bool) -> None:
        """Closes it to new keys; with `cancel_pending_enqueues`, to all insertions.

        Raises:
            CancelledError: It was closed before (in the same way).
        """
        with self._changed:
            if self._cancelled or (self._closed and not cancel_pending_enqueues):
                raise CancelledError(message=f"Barrier {self._name!r} is already closed.")
            self._closed = True
            if cancel_pending_enqueues:
                self._cancelled = True
                self._incomplete.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Closes it at once, when it is dropped."""
        with self._changed:
            self._closed = self._cancelled = True
            self._incomplete.clear()
            self._changed.notify_all()

    @property
    def sizes(self) -> tuple[int, int]:
        """Returns how many elements are complete, and how many are not."""
        with self._changed:
            return len(self._ready), len(self._incomplete)
