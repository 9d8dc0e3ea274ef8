"""Named things that outlive a step, kept per container and kind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from sparkflow_runtime.device.host_memory import aligned_empty
from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from sparkflow_runtime.device.shared_memory import SharedArena

T = TypeVar("T")

DEFAULT_CONTAINER = "localhost"
"""TensorFlow's name of the container used when none is given."""


class Resources:
    """Resources by (container, name). Safe to use from several threads.

    `_lock` guards `_items` only; each resource guards its own state.

    Attributes:
        has_reshaped: Whether a variable has a value that its shape does not allow: then no
            variable's shape can be relied on.
    """

    def __init__(self, arena: SharedArena | None = None) -> None:
        """Creates an empty container.

        Args:
            arena: Shared memory for the values of variables, where other processes can read them;
                None for the process's own memory.
        """
        self.has_reshaped = False
        self._arena = arena
        self._lock = threading.RLock()
        self._items: dict[tuple[str, str], Any] = {}

    def get_or_create(self, container: str, name: str, kind: type[T], make: Callable[[], T]) -> T:
        """Returns the resource of that name; creates it by `make` if there is none.

        Raises:
            InvalidArgumentError: The name is taken by a resource of another kind.
        """
        key = (container or DEFAULT_CONTAINER, name)
        with self._lock:
            item = self._items.get(key)
            if item is None:
                item = self._items[key] = make()
        return self._of_kind(item, kind, name)

    def get(self, container: str, name: str, kind: type[T]) -> T:
        """Returns the resource of that name.

        Raises:
            NotFoundError: There is none.
            InvalidArgumentError: It has another kind.
        """
        with self._lock:
            item = self._items.get((container or DEFAULT_CONTAINER, name))
        if item is None:
            raise NotFoundError(message=f"There is no {kind.__name__} named {name!r} on this task")
        return self._of_kind(item, kind, name)

    def named(self, prefix: str, kind: type[T]) -> list[T]:
        """Returns the resources of a kind whose names begin with `prefix`, in any container."""
        with self._lock:
            return [
                item
                for (_, name), item in self._items.items()
                if isinstance(item, kind) and name.startswith(prefix)
            ]

    def items(self, kind: type[T]) -> list[tuple[str, T]]:
        """Returns names and resources of a kind, in any container."""
        with self._lock:
            return [
                (name, item) for (_, name), item in self._items.items() if isinstance(item, kind)
            ]

    def put(self, container: str, name: str, item: Any) -> None:
        """Adds or replaces a resource."""
        with self._lock:
            self._items[container or DEFAULT_CONTAINER, name] = item

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> np.ndarray[Any, Any]:
        """Allocates memory for the value of a variable on the host.

        Args:
            shape: Of the array.
            dtype: Of the array.

        Returns:
            A C-contiguous array with arbitrary content, see `host_memory`.
        """
        if self._arena is None:
            return aligned_empty(shape, dtype)
        return self._arena.allocate(shape, dtype)

    def note_moved(self, left: Any) -> None:
        """Counts, for other processes, that the value of a variable has moved.

        Args:
            left: The array that held it; None if there was none.
        """
        if self._arena is not None:
            self._arena.note_moved(left)

    def note_reshaped(self) -> None:
        """Sets `has_reshaped` permanently."""
        self.has_reshaped = True

    def clear(self, containers: tuple[str, ...] = ()) -> None:
        """Drops the resources of these containers; of all if none is named.

        A resource with a `close` method is closed, so that nothing waits on it forever.
        """
        with self._lock:
            doomed = [k for k in self._items if not containers or k[0] in containers]
            items = [self._items.pop(key) for key in doomed]
        for item in items:
            close = getattr(item, "close", None)
            if close is not None:
                close()

    def _of_kind(self, item: Any, kind: type[T], name: str) -> T:
        if not isinstance(item, kind):
            raise InvalidArgumentError(
                message=f"Resource {name!r} is a {type(item).__name__}, not a {kind.__name__}"
            )
        return item
