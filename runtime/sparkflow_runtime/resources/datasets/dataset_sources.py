"""Datasets that are not transformations of others: arrays, numbers, generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.resources.datasets.dataset import (
    INFINITE,
    UNKNOWN,
    Array,
    Dataset,
    Element,
    ElementIterator,
)


class _Once(ElementIterator):
    def __init__(self, element: Element) -> None:
        self._element: Element | None = element

    def next(self, step: Any) -> Element | None:
        element, self._element = self._element, None
        return element


def of_tensors(element: Element) -> Dataset:
    """Returns a dataset of one element."""
    return Dataset(lambda: _Once(element), 1)


class _Slices(ElementIterator):
    def __init__(self, arrays: tuple[Array, ...], count: int) -> None:
        self.columns = arrays
        self._count = count
        self._place = 0

    def next(self, step: Any) -> Element | None:
        place = self._place
        if place == self._count:
            return None
        self._place = place + 1
        assert self.columns is not None
        return tuple([array[place, ...] for array in self.columns])

    def next_row(self, step: Any) -> int | None:
        place = self._place
        if place == self._count:
            return None
        self._place = place + 1
        return place

    def next_block(self, step: Any, count: int) -> Element | None:
        start = self._place
        if start == self._count:
            return None
        self._place = stop = min(start + count, self._count)
        assert self.columns is not None
        return tuple([array[start:stop] for array in self.columns])


def of_slices(arrays: Sequence[Array]) -> Dataset:
    """The rows of arrays.

    Raises:
        InvalidArgumentError: A scalar, or first dimensions that differ.
    """
    if not arrays or any(not np.ndim(array) for array in arrays):
        raise InvalidArgumentError(message="Each of the components needs at least one dimension")
    count = len(arrays[0])
    for index, array in enumerate(arrays):
        if len(array) != count:
            raise InvalidArgumentError(
                message=f"All components must have the same first dimension: that of component 0 "
                f"is {count}, that of component {index} is {len(array)}"
            )
    kept = tuple(arrays)
    return Dataset(lambda: _Slices(kept, count), count)


class _Numbers(ElementIterator):
    def __init__(self, numbers: range, dtype: Any) -> None:
        self._numbers = numbers
        self._dtype = np.dtype(dtype).type
        self._place = 0

    def next(self, step: Any) -> Element | None:
        place = self._place
        if place == len(self._numbers):
            return None
        self._place = place + 1
        return (self._dtype(self._numbers[place]),)

    def next_block(self, step: Any, count: int) -> Element | None:
        part = self._numbers[self._place : self._place + count]
        self._place += len(part)
        if not part:
            return None
        return (np.arange(part.start, part.stop, part.step, dtype=np.int64).astype(self._dtype),)


def of_range(start: int, stop: int, by: int, dtype: Any = np.int64) -> Dataset:
    """Returns the numbers of Python's `range`.

    Raises:
        InvalidArgumentError: `by` is 0.
    """
    if by == 0:
        raise InvalidArgumentError(message="step must be a non-zero integer.")
    numbers = range(start, stop, by)
    return Dataset(lambda: _Numbers(numbers, dtype), len(numbers))


class _Generated(ElementIterator):
    def __init__(self, elements: Iterator[Element]) -> None:
        self._elements = elements

    def next(self, step: Any) -> Element | None:
        return next(self._elements, None)

    def close(self) -> None:
        close = getattr(self._elements, "close", None)
        if close is not None:
            try:
                close()
            except ValueError:
                # Another thread is inside; the generator is closed when that thread leaves it.
                return


def of_iterator(make: Callable[[], Iterator[Element]], length: int = UNKNOWN) -> Dataset:
    """Returns the elements of a Python generator; `make` restarts it. An error in it ends it."""
    return Dataset(lambda: _Generated(make()), length)


class _Blocks(ElementIterator):
    """Rows of arrays that arrive in blocks."""

    def __init__(self, blocks: Iterator[Element]) -> None:
        self._blocks = _Generated(blocks)
        self._block: Element = ()
        self._place = self._count = 0

    def next(self, step: Any) -> Element | None:
        if not self._fill():
            return None
        place = self._place
        self._place = place + 1
        return tuple([array[place, ...] for array in self._block])

    def next_block(self, step: Any, count: int) -> Element | None:
        parts: list[Element] = []
        while count and self._fill():
            stop = min(self._place + count, self._count)
            parts.append(tuple([array[self._place : stop] for array in self._block]))
            count -= stop - self._place
            self._place = stop
        return joined(parts)

    def close(self) -> None:
        self._blocks.close()

    def _fill(self) -> bool:
        while self._place == self._count:
            block = self._blocks.next(None)
            if block is None:
                return False
            self._block, self._place, self._count = block, 0, len(block[0])
        return True


def of_blocks(make: Callable[[], Iterator[Element]], length: int = UNKNOWN) -> Dataset:
    """Returns the rows of the blocks of arrays that a Python generator yields."""
    return Dataset(lambda: _Blocks(make()), length)


def joined(parts: Sequence[Element]) -> Element | None:
    """Concatenates blocks; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return tuple([np.concatenate(arrays) for arrays in zip(*parts, strict=True)])


class _Random(ElementIterator):
    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def next(self, step: Any) -> Element | None:
        return (self._generator.integers(0, 1 << 32, dtype=np.int64),)


def of_random(seed: int, seed2: int) -> Dataset:
    """Returns infinitely many random integers in [0, 2**32); seeds 0, 0 differ each time."""
    key = (seed, seed2) if seed or seed2 else None
    return Dataset(lambda: _Random(np.random.default_rng(key)), INFINITE)


class _FromFunctions(ElementIterator):
    def __init__(self, start: Any, following: Any, finish: Any) -> None:
        self._start, self._following, self._finish = start, following, finish
        self._state: Element | None = None
        self._ended = False

    def next(self, step: Any) -> Element | None:
        if self._ended:
            return None
        if self._state is None:
            self._state = self._start(step, ())
        element: Element | None = self._following(step, self._state)
        if element is None:
            self._ended = True
            self.close()
        return element

    def close(self) -> None:
        state, self._state = self._state, None
        if state is not None:
            self._ended = True
            self._finish(state)


def of_functions(start: Any, following: Any, finish: Any) -> Dataset:
    """Returns the elements that graph functions compute from a state.

    Args:
        start: Maps the step and `()` to the state.
        following: Maps the step and the state to an element; None at the end.
        finish: Called once with a state that is no longer needed.
    """
    return Dataset(lambda: _FromFunctions(start, following, finish))
