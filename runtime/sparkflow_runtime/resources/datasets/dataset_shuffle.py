"""Datasets in random order.

The random numbers (Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011) and their use are TensorFlow's: equal seeds give the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.resources.datasets.dataset import Dataset, Element, ElementIterator

_BLOCK = 1024
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_MASK = (1 << 64) - 1


def philox_numbers(seed: int, seed2: int) -> Iterator[int]:
    """Yields the uint32 numbers of TensorFlow's `PhiloxRandom(seed, seed2)`, without end."""
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
        seed, seed2: Both 0 for different ones every time.
        change: Whether each iterator gets different seeds.
    """

    def __init__(self, seed: int, seed2: int, change: bool) -> None:
        if not seed and not seed2:
            seed, seed2 = map(int, np.random.SeedSequence().generate_state(2, np.uint32))
        self._lock = threading.Lock()
        self._fixed = None if change else (seed, seed2)
        self._numbers = philox_numbers(seed, seed2)

    def following(self) -> tuple[int, int]:
        """Returns the seeds of the next iterator."""
        if self._fixed is not None:
            return self._fixed
        with self._lock:
            return next(self._numbers), next(self._numbers)


class _Shuffled(ElementIterator):
    """Draws from a ring buffer that is refilled from `source` and holds `_start` to `_end`."""

    def __init__(self, source: ElementIterator, size: int, numbers: Iterator[int]) -> None:
        self._source = source
        self.columns = source.columns
        self._size = size
        self._numbers = numbers
        self._ring: list[Any] = []
        self._start = self._end = 0
        self._ended = False

    def next(self, step: Any) -> Element | None:
        if self.columns is None:
            found: Element | None = self._draw(self._source.next, step)
            return found
        row = self.next_row(step)
        return None if row is None else tuple([array[row, ...] for array in self.columns])

    def next_row(self, step: Any) -> int | None:
        row: int | None = self._draw(self._source.next_row, step)
        return row

    def close(self) -> None:
        self._source.close()

    def _draw(self, following: Callable[[Any], Any], step: Any) -> Any:
        ring, size = self._ring, self._size
        if not self._ended:
            self._fill(following, step)
        start = self._start
        held = self._end - start
        if not held:
            return None
        place = (start + next(self._numbers) % held) % size
        first = start % size
        found, ring[place] = ring[place], ring[first]
        ring[first] = None
        self._start = start + 1
        return found

    def _fill(self, following: Callable[[Any], Any], step: Any) -> None:
        ring, size = self._ring, self._size
        while self._end - self._start < size:
            item = following(step)
            if item is None:
                self._ended = True
                return
            if len(ring) < size:
                ring.append(item)
            else:
                ring[self._end % size] = item
            self._end += 1


def shuffled(source: Dataset, size: int, seeds: Seeds) -> Dataset:
    """Returns the elements in random order: each is drawn from the next `size` remaining ones."""
    if source.length >= 0:
        size = min(size, max(source.length, 1))  # a larger ring buffer would never be full

    def iterate() -> ElementIterator:
        return _Shuffled(source.iterate(), size, philox_numbers(*seeds.following()))

    return Dataset(iterate, source.length)
