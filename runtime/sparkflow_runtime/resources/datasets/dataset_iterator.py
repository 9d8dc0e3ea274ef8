"""A graph's position in a dataset: created by `IteratorV2`, read by `IteratorGetNext`."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any

from sparkflow_runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
)
from sparkflow_runtime.resources.datasets.dataset import Dataset, Element, ElementIterator


class DatasetIterator:
    """An iterator shared by steps. Safe to use from several threads.

    `_lock` guards `_current`; `_turn` is held by the step that computes the next element.

    Args:
        name: For messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._current: ElementIterator | None = None

    def initialize(self, dataset: Dataset) -> None:
        """Moves to the first element of a dataset."""
        begun = dataset.iterate()
        with self._lock:
            old, self._current = self._current, begun
        if old is not None:
            old.close()

    def initialize_once(self, dataset: Dataset) -> None:
        """Moves to the first element, unless another step already has."""
        begun = dataset.iterate()
        with self._lock:
            if self._current is None:
                self._current = begun

    @property
    def is_initialized(self) -> bool:
        """Whether there is a dataset."""
        with self._lock:
            return self._current is not None

    def next(self, step: Any) -> Element | None:
        """The next element; None at the end.

        Raises:
            FailedPreconditionError: There is no dataset yet.
        """
        with self._turn:
            with self._lock:
                current = self._current
            if current is None:
                raise FailedPreconditionError(
                    message="GetNext() failed because the iterator has not been initialized. "
                    "Ensure that you have run the initializer operation for this iterator before "
                    f"getting the next element. (Iterator {self.name!r}: there is no data source "
                    "of that name either)"
                )
            return current.next(step)

    def next_batch(self, step: Any) -> Element:
        """The next element.

        Raises:
            OutOfRangeError: There is none.
            FailedPreconditionError: There is no dataset yet.
        """
        element = self.next(step)
        if element is None:
            raise OutOfRangeError(message="End of sequence")
        return element

    def close(self) -> None:
        """Ends its threads and drops its dataset."""
        with self._lock:
            old, self._current = self._current, None
        if old is not None:
            old.close()

    def __del__(self) -> None:
        self.close()


class IteratorHandles:
    """The iterators of a task by their string handles.

    Safe to use from several threads; `_lock` guards the rest. Holds only weak references.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._texts: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()
        self._iterators: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()

    def text(self, iterator: Any) -> bytes:
        """Returns the string handle of an iterator."""
        with self._lock:
            found = self._texts.get(iterator)
            if found is None:
                found = b"sparkflow-iterator-%d" % next(self._numbers)
                self._texts[iterator] = found
                self._iterators[found] = iterator
            return found

    def find(self, text: bytes) -> Any:
        """Returns the iterator of a string handle.

        Raises:
            InvalidArgumentError: There is none on this task.
        """
        with self._lock:
            found = self._iterators.get(text)
        if found is None:
            raise InvalidArgumentError(
                message=f"Could not find an iterator for the handle {text[:80]!r}: it was made by "
                "another task, or is gone"
            )
        return found
