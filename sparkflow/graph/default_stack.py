"""A stack of defaults per thread: the graph or session that functions use when none is named."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class DefaultStack(threading.local, Generic[T]):
    """Each thread has its own stack; `with stack.entered(item)` makes `item` the default.

    Args:
        what: How error texts call an item.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._items: list[T] = []

    def top(self) -> T | None:
        """The innermost item, None when there is none."""
        return self._items[-1] if self._items else None

    def push(self, item: T) -> None:
        """Makes `item` the default until it is removed."""
        self._items.append(item)

    def remove(self, item: T) -> None:
        """Takes out the innermost entry of `item`, wherever it is; nothing when it is not in."""
        for index in range(len(self._items) - 1, -1, -1):
            if self._items[index] is item:
                del self._items[index]
                return

    def clear(self) -> None:
        """Takes out everything."""
        self._items.clear()

    @property
    def is_empty(self) -> bool:
        """Whether no item is in."""
        return not self._items

    @contextmanager
    def entered(self, item: T) -> Iterator[T]:
        """Makes `item` the default for the duration of a `with` block.

        Raises:
            AssertionError: Blocks were left in another order than they were entered.
        """
        self._items.append(item)
        try:
            yield item
            if not self._items or self._items[-1] is not item:
                raise AssertionError(
                    f"Nesting violated for default stack of {self._what} objects: leave the "
                    "blocks in the reverse order of entering them"
                )
        finally:
            self.remove(item)


sessions: DefaultStack[Any] = DefaultStack("session")
"""The default sessions of this thread; here because `Tensor.eval` asks for one."""


class DefaultGraphs(DefaultStack[Any]):
    """The default graphs of a thread.

    Attributes:
        fallback: What all threads use that made no graph the default; for eager execution.
        implicit: The graph this thread got without making one the default, None before.
    """

    fallback: Any = None

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.implicit: Any = None

    def receiving(self, graph: Any) -> Any:
        """Returns the graph that gets the nodes that are added to `graph` now.

        While a function is built that may use tensors of `graph`, that is the function's body.
        """
        building = self.top()
        if building is None or building is graph or not building.sees(graph):
            return graph
        return building

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "fallback":
            type(self).fallback = value
        else:
            super().__setattr__(name, value)


default_graphs = DefaultGraphs("graph")
"""The default graphs of this thread; `sparkflow.graph.scopes` has the functions."""
