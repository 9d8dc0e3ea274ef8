"""Tracks the free ranges of a block of memory, by numbers only."""

from __future__ import annotations

import bisect


class FreeRanges:
    """The free parts of the bytes [0, size_bytes). Not safe to use from several threads.

    Allocation takes the smallest range that is large enough (best fit); freed ranges are merged
    with free neighbours.
    """

    __slots__ = ("_begin_of", "_by_size", "_size_of", "size_bytes", "used_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.used_bytes = 0
        self._by_size: list[tuple[int, int]] = []  # (size, begin), ascending
        self._size_of: dict[int, int] = {}  # by begin
        self._begin_of: dict[int, int] = {}  # by end
        self._insert(0, size_bytes)

    def take(self, size: int) -> int | None:
        """Allocates `size` > 0 bytes; returns their offset, None if no range is large enough."""
        place = bisect.bisect_left(self._by_size, (size, -1))
        if place == len(self._by_size):
            return None
        whole, begin = self._by_size[place]
        self._remove(begin, whole)
        if whole > size:
            self._insert(begin + size, whole - size)
        self.used_bytes += size
        return begin

    def give_back(self, begin: int, size: int) -> None:
        """Frees a range returned by `take`."""
        self.used_bytes -= size
        after = self._size_of.get(begin + size)
        if after is not None:
            self._remove(begin + size, after)
            size += after
        before = self._begin_of.get(begin)
        if before is not None:
            self._remove(before, begin - before)
            begin, size = before, size + begin - before
        self._insert(begin, size)

    def _insert(self, begin: int, size: int) -> None:
        bisect.insort(self._by_size, (size, begin))
        self._size_of[begin] = size
        self._begin_of[begin + size] = begin

    def _remove(self, begin: int, size: int) -> None:
        del self._by_size[bisect.bisect_left(self._by_size, (size, begin))]
        del self._size_of[begin]
        del self._begin_of[begin + size]
