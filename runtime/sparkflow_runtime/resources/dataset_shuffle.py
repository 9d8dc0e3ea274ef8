"""Datasets in random order.

The numbers are those of TensorFlow (Philox 4x32-10: Salmon et al., "Parallel random numbers: as
easy as 1, 2, 3", 2011), and so is what is done with them: equal seeds give its order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.resources.dataset import (
    INFINITE,
    Dataset,
    Element,
    ElementIterator,
    multiplied,
)

_BLOCK = 1024
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_MASK = (1 << 64) - 1


def philox_numbers(seed: int, seed2: int) -> Iterator[int]:
    """Random uint32 numbers without end, those of TensorFlow's `PhiloxRandom(seed, seed2)`."""
    seed, seed2 = seed & _MASK, seed2 & _MASK
    start = 0
    while True:
        counters = np.arange(start, start + _BLOCK, dtype=np.uint64)
        start += _BLOCK
        first, second = counters & _LOW, counters >> np.uint64(32)
        third = np.full(_BLOCK, seed2 & 0xFFFFFFFF, np.uint64)
        fourth = np.full(_BLOCK, seed2 >> 32, np.uint64)
        key0, key1 = seed & 0xFFFFFFFF, seed >> 32
        for _ in range(10):
            low, high = first * _M0, third * _M1
            first, second, third, fourth = (
                (high >> np.uint64(32)) ^ second ^ np.uint64(key0),
                high & _LOW,
                (low >> np.uint64(32)) ^ fourth ^ np.uint64(key1),
                low & _LOW,
            )
            key0, key1 = (key0 + _W0) & 0xFFFFFFFF, (key1 + _W1) & 0xFFFFFFFF
        yield from np.stack([first, second, third, fourth], 1).ravel().tolist()


class Seeds:
    """The seeds of a dataset's iterators. Safe to use from several threads; `_lock` guards all.

    Args:
        seed, seed2: Both 0 for others every time.
        change: Whether each iterator gets others.
    """

    def __init__(self, seed: int, seed2: int, change: bool) -> None:
        if not seed and not seed2:
            seed, seed2 = map(int, np.random.SeedSequence().generate_state(2, np.uint32))
        self._lock = threading.Lock()
        self._fixed = None if change else (seed, seed2)
        self._numbers = philox_numbers(seed, seed2)

    def following(self) -> tuple[int, int]:
        """The seeds of the next iterator."""
        if self._fixed is not None:
            return self._fixed
        with self._lock:
            return next(self._numbers), next(self._numbers)


class _Shuffled(ElementIterator):
    """Draws from a buffer that is refilled from `source`, over as many epochs as there are.

    The buffer is a ring; a slice of it is what one epoch has in it. An epoch is drawn from only
    when all of the one before is gone.
    """

    def __init__(
        self, source: Dataset, size: int, numbers: Iterator[int], epochs: int | None
    ) -> None:
        self._dataset = source
        self._source: ElementIterator | None = source.iterate()
        self.columns = self._source.columns
        self._epochs_left = None if epochs is None else epochs - 1
        self._size = size
        self._numbers = numbers
        self._ring: list[Any] = []
        self._slices: deque[list[int]] = deque([[0, 0]])
        self._held = 0
        self._any = False

    def next(self, step: Any) -> Element | None:
        if self.columns is None:
            found: Element | None = self._draw(step, False)
            return found
        row = self._draw(step, True)
        return None if row is None else tuple([array[row, ...] for array in self.columns])

    def next_row(self, step: Any) -> int | None:
        row: int | None = self._draw(step, True)
        return row

    def close(self) -> None:
        source = self._source
        if source is not None:
            source.close()

    def _draw(self, step: Any, rows: bool) -> Any:
        if self._source is not None:
            self._fill(step, rows)
        if not self._held:
            return None
        slices = self._slices
        while slices[0][0] == slices[0][1]:
            slices.popleft()
        current = slices[0]
        start = current[0]
        ring = self._ring
        size = self._size
        place = (start + next(self._numbers) % (current[1] - start)) % size
        first = start % size
        found, ring[place] = ring[place], ring[first]
        ring[first] = None
        current[0] = start + 1
        self._held -= 1
        return found

    def _fill(self, step: Any, rows: bool) -> None:
        source, ring, size = self._source, self._ring, self._size
        assert source is not None
        while self._held < size:
            item: Any = source.next_row(step) if rows else source.next(step)
            if item is None:
                source.close()
                self._source = None
                if self._epochs_left == 0 or not self._any:
                    return  # an input without elements is not begun for ever
                if self._epochs_left is not None:
                    self._epochs_left -= 1
                self._source = source = self._dataset.iterate()
                self._any = False
                self._slices.append([self._slices[-1][1]] * 2)
                continue
            self._any = True
            current = self._slices[-1]
            if len(ring) < size:
                ring.append(item)
            else:
                ring[current[1] % size] = item
            current[1] += 1
            self._held += 1


def shuffled(source: Dataset, size: int, seeds: Seeds) -> Dataset:
    """The elements in random order: each is one of the next `size` that are left."""
    if source.length >= 0:
        size = min(size, max(source.length, 1))  # a larger buffer would never be full
    make: Callable[[], ElementIterator] = lambda: _Shuffled(  # noqa: E731  (typed)
        source, size, philox_numbers(*seeds.following()), 1
    )
    return Dataset(make, source.length)


def shuffled_and_repeated(source: Dataset, size: int, seeds: Seeds, count: int) -> Dataset:
    """The same over several epochs; negative `count`: without end.

    The buffer is filled across the end of an epoch, so that it never runs empty.
    """
    epochs = None if count < 0 else count
    length = multiplied(source.length, count)

    def make() -> ElementIterator:
        numbers = philox_numbers(*seeds.following())
        return _Shuffled(source, size, numbers, epochs)

    return Dataset(make, INFINITE if epochs is None and length != 0 else length)
