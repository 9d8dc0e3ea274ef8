"""Datasets at run time: what can be gone through again and again, element by element.

An element is a tuple of arrays, one per component; a component may also be a `Dataset` itself. What
lives here: `Dataset`, the contract of its iterators, and how elements become batches. Sources and
transformations are in the modules `dataset_*` beside this one.

Iterators are objects with a `next` rather than generators: after an element that failed, the next
one can be asked for, as in TensorFlow.
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
"""Lengths of datasets that end never, or nobody knows when; TensorFlow's numbers."""


class Step(Protocol):
    """What iterators need of the running step; a `StepContext` is one."""

    def check_cancelled(self) -> None:
        """Raises the error that ended the step, if something did."""

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once if the step is cancelled; the returned function takes it back."""


Call = Callable[[Any, Element], Element]
"""A function of the graph, called with the step and an element."""


class ElementIterator:
    """Goes through a dataset once. Used by one thread at a time.

    Attributes:
        columns: Where the elements are rows of arrays: these arrays. `next_row` then gives the
            numbers of the rows instead of the elements, so that batches are gathered at once.
    """

    columns: tuple[Array, ...] | None = None

    def next(self, step: Any) -> Element | None:
        """The next element, None at the end."""
        raise NotImplementedError(type(self).__name__)

    def next_row(self, step: Any) -> int | None:
        """The number of the row in `columns` that is the next element; None at the end."""
        raise NotImplementedError(type(self).__name__)

    def next_block(self, step: Any, count: int) -> Element | None:
        """The next elements stacked: `count` of them, fewer only at the end; None for none.

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
        """The next elements: `count` of them, fewer only at the end."""
        elements: list[Element] = []
        following = self.next
        while len(elements) < count:
            element = following(step)
            if element is None:
                break
            elements.append(element)
        return elements

    def close(self) -> None:
        """Frees what it holds: threads, files. May be called twice, and while another waits."""

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
    """A sequence of elements that can be gone through again and again. Never changes.

    Args:
        iterate: Makes an iterator that starts at the first element.
        length: How many elements there are; `INFINITE` or `UNKNOWN`.
    """

    __slots__ = ("iterate", "length")

    def __init__(self, iterate: Callable[[], ElementIterator], length: int = UNKNOWN) -> None:
        self.iterate = iterate
        self.length = length


class Passing(ElementIterator):
    """An iterator that gives the elements of another one as they are, in its order.

    Subclasses say in `_advance` which.
    """

    def __init__(self, source: ElementIterator) -> None:
        self._source = source
        self.columns = source.columns

    def next(self, step: Any) -> Element | None:
        """The next of those that pass."""
        found: Element | None = self._advance(self._source.next, step)
        return found

    def next_row(self, step: Any) -> int | None:
        """The number of its row."""
        found: int | None = self._advance(self._source.next_row, step)
        return found

    def close(self) -> None:
        """Closes the other one."""
        self._source.close()

    def _advance(self, following: Callable[[Any], Any], step: Any) -> Any:
        raise NotImplementedError(type(self).__name__)


def shape_of(component: Any) -> tuple[int, ...]:
    """The shape of a component; that of a scalar where it is no array."""
    return getattr(component, "shape", ())


def stacked(elements: Sequence[Element]) -> Element:
    """Elements of equal shapes as one, with a new first dimension.

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
        # One call of C instead of one per element.
        return np.concatenate(arrays).reshape(count, *shape)
    result = np.empty((count, *shape), first.dtype)
    for place, array in enumerate(arrays):
        result[place] = array[()] if not shape else array
    return result


def multiplied(length: int, by: int) -> int:
    """The length of something repeated; negative `by`: for ever."""
    if length == 0 or by == 0:
        return 0
    if by < 0 or length == INFINITE:
        return INFINITE
    return UNKNOWN if length == UNKNOWN else length * by
