"""Datasets at run time: sequences of elements that can be iterated over repeatedly.

An element is a tuple of arrays, one per component; a component may also be a `Dataset` itself. This
module has `Dataset`, the protocol of its iterators, and the batching of elements. Sources and
transformations are in the modules `dataset_*`.

Iterators are objects with a `next`, not generators: iteration can continue after a failed element,
as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.errors import InvalidArgumentError

Array = Any
Element = tuple[Any, ...]

INFINITE, UNKNOWN = -1, -2
"""Lengths of infinite datasets and of those with unknown length; TensorFlow's values."""


class Step(Protocol):
    """The part of a running step that iterators need; `StepContext` implements it."""

    def check_cancelled(self) -> None:
        """Raises the error that ended the step, if any."""

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once if the step is cancelled; returns a function to unregister it."""


Call = Callable[[Any, Element], Element]
"""A graph function, called with the step and an element."""


class ElementIterator:
    """Iterates over a dataset once. Used by one thread at a time.

    Attributes:
        columns: If the elements are rows of arrays: these arrays. `next_row` then returns row
            numbers instead of elements, so that batches can be gathered in one call.
    """

    columns: tuple[Array, ...] | None = None

    def next(self, step: Any) -> Element | None:
        """Returns the next element, None at the end."""
        raise NotImplementedError(type(self).__name__)

    def next_row(self, step: Any) -> int | None:
        """Returns the row number in `columns` of the next element; None at the end."""
        raise NotImplementedError(type(self).__name__)

    def next_block(self, step: Any, count: int) -> Element | None:
        """Returns the next `count` elements stacked, fewer only at the end; None for none.

        Raises:
            InvalidArgumentError: Their shapes differ.
        """
        columns = self.columns
        if columns is not None:
            rows = self._rows(step, count)
            if not rows:
                return None
            where = np.array(rows, np.intp)
            return tuple([column.take(where, 0) for column in columns])
        elements = self.collect(step, count)
        return stacked(elements) if elements else None

    def collect(self, step: Any, count: int) -> list[Element]:
        """Returns the next `count` elements, fewer only at the end."""
        elements: list[Element] = []
        following = self.next
        while len(elements) < count:
            element = following(step)
            if element is None:
                break
            elements.append(element)
        return elements

    def close(self) -> None:
        """Frees threads and files. May be called twice, and while another thread waits."""

    def _rows(self, step: Any, count: int) -> list[int]:
        rows: list[int] = []
        following = self.next_row
        while len(rows) < count:
            row = following(step)
            if row is None:
                break
            rows.append(row)
        return rows


class Dataset:
    """A sequence of elements that can be iterated over repeatedly. Immutable.

    Args:
        iterate: Creates an iterator that starts at the first element.
        length: The number of elements; `INFINITE` or `UNKNOWN`.
    """

    __slots__ = ("iterate", "length")

    def __init__(self, iterate: Callable[[], ElementIterator], length: int = UNKNOWN) -> None:
        self.iterate = iterate
        self.length = length


class Passing(ElementIterator):
    """An iterator over some elements of another one, unchanged and in its order.

    Subclasses select them in `_advance`.
    """

    def __init__(self, source: ElementIterator) -> None:
        self._source = source
        self.columns = source.columns

    def next(self, step: Any) -> Element | None:
        """Returns the next selected element."""
        found: Element | None = self._advance(self._source.next, step)
        return found

    def next_row(self, step: Any) -> int | None:
        """Returns its row number."""
        found: int | None = self._advance(self._source.next_row, step)
        return found

    def close(self) -> None:
        """Closes the other iterator."""
        self._source.close()

    def _advance(self, following: Callable[[Any], Any], step: Any) -> Any:
        raise NotImplementedError(type(self).__name__)


def shape_of(component: Any) -> tuple[int, ...]:
    """Returns the shape of a component; a scalar's if it is not an array."""
    return getattr(component, "shape", ())


def stacked(elements: Sequence[Element]) -> Element:
    """Stacks elements of equal shapes along a new first dimension.

    Raises:
        InvalidArgumentError: The shapes of a component differ.
    """
    return tuple(
        [_stack(index, column) for index, column in enumerate(zip(*elements, strict=True))]
    )


def _stack(index: int, arrays: Sequence[Array]) -> Array:
    first = arrays[0]
    if not isinstance(first, np.ndarray | np.generic):
        raise InvalidArgumentError(
            message=f"Component {index} cannot be batched: it is a {type(first).__name__}"
        )
    shape = first.shape
    for place, array in enumerate(arrays):
        if array.shape != shape:
            raise InvalidArgumentError(
                message=f"Cannot batch tensors with different shapes in component {index}. First "
                f"element had shape {shapes.bracketed(shape)} and element {place} had shape "
                f"{shapes.bracketed(array.shape)}."
            )
    count = len(arrays)
    if shape and shape[0]:
        # One C call instead of one per element.
        return np.concatenate(arrays).reshape(count, *shape)
    result = np.empty((count, *shape), first.dtype)
    for place, array in enumerate(arrays):
        result[place] = array[()] if not shape else array
    return result


def multiplied(length: int, by: int) -> int:
    """Returns the length after repetition; negative `by`: infinite."""
    if length == 0 or by == 0:
        return 0
    if by < 0 or length == INFINITE:
        return INFINITE
    return UNKNOWN if length == UNKNOWN else length * by
