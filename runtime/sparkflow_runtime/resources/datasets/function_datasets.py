"""Datasets that apply graph functions to others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError, OutOfRangeError
from sparkflow_runtime.resources.datasets.dataset import (
    UNKNOWN,
    Call,
    Dataset,
    Element,
    ElementIterator,
)
from sparkflow_runtime.resources.datasets.dataset_sources import of_iterator


class _OverSource(ElementIterator):
    def __init__(self, source: ElementIterator, call: Call) -> None:
        self._source, self._call = source, call

    def close(self) -> None:
        self._source.close()


class _Mapped(_OverSource):
    def next(self, step: Any) -> Element | None:
        element = self._source.next(step)
        if element is None:
            return None
        try:
            return self._call(step, element)
        except OutOfRangeError:
            return None  # as in TensorFlow: the function signals the end


def mapped(source: Dataset, call: Call) -> Dataset:
    """Maps a function over the elements; its OutOfRangeError ends the dataset."""
    return Dataset(lambda: _Mapped(source.iterate(), call), source.length)


class _Filtered(_OverSource):
    def next(self, step: Any) -> Element | None:
        while True:
            element = self._source.next(step)
            if element is None:
                return None
            (kept,) = self._call(step, element)
            if np.ndim(kept) or np.asarray(kept).dtype != bool:
                raise InvalidArgumentError(
                    message="Filter predicate `predicate` must return a scalar bool."
                )
            if kept:
                return element


def filtered(source: Dataset, call: Call) -> Dataset:
    """Returns the elements for which a function is true."""
    return Dataset(lambda: _Filtered(source.iterate(), call))


class _TakenWhile(_OverSource):
    def next(self, step: Any) -> Element | None:
        element = self._source.next(step)
        if element is None or not self._call(step, element)[0]:
            self._source.close()
            self._source = of_iterator(lambda: iter(())).iterate()
            return None
        return element


def taken_while(source: Dataset, call: Call) -> Dataset:
    """Returns the elements before the first for which a function is false."""
    return Dataset(lambda: _TakenWhile(source.iterate(), call))


class _Interleaved(_OverSource):
    """Interleaves up to `cycle` inner datasets, `block` elements each."""

    def __init__(
        self,
        source: ElementIterator,
        call: Call,
        cycle: int,
        block: int,
        begin: Callable[[Dataset], ElementIterator],
    ) -> None:
        super().__init__(source, call)
        self._open: list[ElementIterator | None] = [None] * cycle
        self._begin = begin
        self._block = block
        self._turn = self._given = 0
        self._ended = False

    def next(self, step: Any) -> Element | None:
        while True:
            current = self._open[self._turn]
            if current is not None:
                element = current.next(step)
                if element is not None:
                    self._given += 1
                    if self._given == self._block:
                        self._advance()
                    return element
                current.close()
                self._open[self._turn] = None
                self._advance()
            elif not self._ended:
                outer = self._source.next(step)
                if outer is None:
                    self._ended = True
                else:
                    self._open[self._turn] = self._begin(self._call(step, outer)[0])
            elif any(each is not None for each in self._open):
                self._advance()
            else:
                return None

    def _advance(self) -> None:
        self._given = 0
        self._turn = (self._turn + 1) % len(self._open)

    def close(self) -> None:
        super().close()
        for each in self._open:
            if each is not None:
                each.close()


def interleaved(
    source: Dataset,
    call: Call,
    cycle: int = 1,
    block: int = 1,
    begin: Callable[[Dataset], ElementIterator] = lambda dataset: dataset.iterate(),
) -> Dataset:
    """Returns the interleaved elements of the datasets that a function returns for each element.

    Args:
        source: The outer elements.
        call: Maps an element to one component, a dataset.
        cycle: The number of datasets iterated over at once.
        block: The number of consecutive elements from each.
        begin: Creates the iterator of an inner dataset.

    Raises:
        InvalidArgumentError: `cycle` or `block` is not positive.
    """
    for name, value in (("cycle_length", cycle), ("block_length", block)):
        if value <= 0:
            raise InvalidArgumentError(message=f"`{name}` must be > 0, got {value}")
    return Dataset(lambda: _Interleaved(source.iterate(), call, cycle, block, begin))


class _Scanned(_OverSource):
    def __init__(self, source: ElementIterator, call: Call, state: Element) -> None:
        super().__init__(source, call)
        self._state = state

    def next(self, step: Any) -> Element | None:
        element = self._source.next(step)
        if element is None:
            return None
        try:
            results = self._call(step, (*self._state, *element))
        except OutOfRangeError:
            return None
        count = len(self._state)
        self._state = results[:count]
        return results[count:]


def scanned(source: Dataset, call: Call, state: Element) -> Dataset:
    """Maps a function over the elements and a state, which it updates."""
    return Dataset(lambda: _Scanned(source.iterate(), call, state), source.length)


class _Windows(ElementIterator):
    """Groups elements by key; a full group becomes a dataset."""

    def __init__(self, source: ElementIterator, key: Call, window_size: Call, reduce: Call) -> None:
        self._source, self._key = source, key
        self._window_size, self._reduce = window_size, reduce
        self._groups: dict[int, list[Element]] = {}
        self._sizes: dict[int, int] = {}
        self._current: ElementIterator | None = None
        self._ended = False

    def next(self, step: Any) -> Element | None:
        while True:
            if self._current is not None:
                element = self._current.next(step)
                if element is not None:
                    return element
                self._current.close()
                self._current = None
            if not self._fill(step):
                return None

    def _fill(self, step: Any) -> bool:
        """Collects until a group is complete; returns whether there was one."""
        while not self._ended:
            element = self._source.next(step)
            if element is None:
                self._ended = True
                break
            key = int(self._key(step, element)[0])
            group = self._groups.setdefault(key, [])
            if key not in self._sizes:
                size = int(self._window_size(step, (np.int64(key),))[0])
                if size <= 0:
                    raise InvalidArgumentError(
                        message=f"Window size must be greater than zero, but got {size}."
                    )
                self._sizes[key] = size
            group.append(element)
            if len(group) == self._sizes[key]:
                self._begin(step, key)
                return True
        if not self._groups:
            return False
        self._begin(step, min(self._groups))
        return True

    def _begin(self, step: Any, key: int) -> None:
        group = self._groups.pop(key)
        del self._sizes[key]
        dataset = of_iterator(lambda: iter(group), len(group))
        self._current = self._reduce(step, (np.int64(key), dataset))[0].iterate()

    def close(self) -> None:
        self._source.close()
        if self._current is not None:
            self._current.close()


def grouped(source: Dataset, key: Call, window_size: Call, reduce: Call) -> Dataset:
    """Concatenates the datasets that a function returns for groups of elements with equal keys.

    Args:
        source: The elements.
        key: Maps an element to an int64.
        window_size: Maps a key to the size of its groups.
        reduce: Maps a key and the dataset of a group to a dataset.
    """
    return Dataset(lambda: _Windows(source.iterate(), key, window_size, reduce), UNKNOWN)


def reduced(source: Dataset, call: Call, state: Element, step: Any) -> Element:
    """Returns the final state after calling a function with it and each element in order."""
    iterator = source.iterate()
    try:
        while (element := iterator.next(step)) is not None:
            step.check_cancelled()
            state = call(step, (*state, *element))
    finally:
        iterator.close()
    return state
