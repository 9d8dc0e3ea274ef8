"""Memory that other processes of this host can map, divided into arrays.

The arrays of a `SharedArena` lie in a few large segments. A peer gets each segment's file
descriptor once (over a unix socket), and then a `Place` is enough to tell it where an array is: it
reads there, without a copy. What a peer maps it cannot write. Peers run as the same user with the
token of the same job; this keeps them from harming each other by mistake, not by intent.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from sparkflow_runtime.device import memory_file
from sparkflow_runtime.device.free_ranges import FreeRanges
from sparkflow_runtime.device.host_memory import ALIGNMENT_BYTES
from sparkflow_runtime.device.lent_memory import LentMemory, bytes_at
from sparkflow_runtime.device.memory_file import (
    MemoryFile,
    Segment,
    map_segment,
)
from sparkflow_runtime.errors import InvalidArgumentError, ResourceExhaustedError

Array = np.ndarray[Any, Any]

FIRST_SEGMENT_BYTES: Final = 1 << 20
HUGE_BYTES: Final = 32 << 20
"""Arrays from here on get a segment of their own, if they are not small beside the arena."""
LEFT_S: Final = 30.0
LEFT_BYTES: Final = 1 << 28
"""What a value has left stays as it is for so long, and no more than so much of it."""
MAX_ATTACHED: Final = 1024
"""So many segments of one peer may be mapped; a peer that grows as `SharedArena` does has fewer."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array begins.

    Attributes:
        segment: The segment's number.
        offset: In bytes from its beginning.
    """

    segment: int
    offset: int


class _Part:
    """A segment of an arena: its memory and what is free in it."""

    __slots__ = ("file", "free", "number")

    def __init__(self, number: int, size_bytes: int) -> None:
        self.number = number
        self.file = MemoryFile(size_bytes)
        self.free = FreeRanges(self.file.segment.size_bytes)


class _Block(LentMemory):
    """The memory of one array."""

    __slots__ = ("arena", "part", "place", "size_bytes")

    def __init__(
        self, arena: SharedArena, part: _Part, offset: int, size_bytes: int, reserved_bytes: int
    ) -> None:
        give_back = partial(arena._give_back, part, offset, reserved_bytes)
        super().__init__(bytes_at(part.file.address + offset, size_bytes), give_back)
        self.arena = arena
        self.part = part
        self.place = Place(part.number, offset)
        self.size_bytes = size_bytes


class SharedArena:
    """Makes arrays that other processes of this host can map. Safe to use from several threads.

    Where the system has no such memory, or no more of it, the arrays are ordinary ones and `locate`
    knows nothing of them. Segments grow with the arena, so that there are a few dozen at most;
    one that is empty is given back to the system, and its number never comes again.

    `_lock` guards `_parts`, what is free in them, `_moves` and `_left`. Arrays are collected at any
    time, by a thread that may hold the lock: what they give back waits in `_returned` for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[int, _Part] = {}
        self._returned: deque[tuple[_Part, int, int]] = deque()
        self._next_number = 0
        self._moves: Array | None = None
        self._left: deque[tuple[float, Array]] = deque()
        self._is_open = memory_file.available()

    @staticmethod
    def available() -> bool:
        """Whether this system has memory of this kind."""
        return memory_file.available()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The segments there are; a peer may let go of others."""
        return tuple(self._parts)

    @property
    def size_bytes(self) -> int:
        """Of all segments; what was never used of them takes no memory."""
        return sum(part.free.size_bytes for part in tuple(self._parts.values()))

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """An array whose memory goes back when it and all views of it are collected.

        Args:
            shape: Of the array.
            dtype: Of the array, without Python objects.

        Returns:
            It: C-contiguous, its beginning aligned to 64 bytes, with any content.
        """
        kind, shape = np.dtype(dtype), tuple(map(int, shape))
        size = math.prod(shape) * kind.itemsize
        if not self._is_open or size <= 0 or kind.hasobject:
            return np.empty(shape, kind)
        block = self._take(size)
        self._sweep()
        if block is None:
            return np.empty(shape, kind)
        # Views of this array, and so all that anybody gets to see, have `whole` as their base.
        whole = np.asarray(block)
        return whole.view(kind).reshape(shape)

    def locate(self, array: Array) -> Place | None:
        """Where a C-contiguous array lies; None if it does not lie in this arena.

        Views into arrays of the arena are found, too. Takes 0.2 us, for parts of arrays 1 us.
        """
        whole = array.base
        if whole is None:
            return None
        block: Any = getattr(whole, "base", None)
        if type(block) is not _Block or block.arena is not self or not self._is_open:
            return None
        if not array.flags.c_contiguous:
            return None
        if array.nbytes == block.size_bytes:
            return block.place
        address: int = array.__array_interface__["data"][0]
        return Place(block.place.segment, address - block.part.file.address)

    def moves(self) -> Array:
        """How often a value of this task got another place, [1] int64 of the arena.

        What a peer knew of places before it read this number is right as long as the number stays.
        """
        found = self._moves
        if found is None:
            made = self.allocate((1,), np.int64)
            made[...] = 0
            with self._lock:
                if self._moves is None:
                    self._moves = made
                found = self._moves
        return found

    def note_moved(self, left: Any) -> None:
        """Counts that a value has another place now, or none. To be called after it has.

        A step of a peer may have begun to read where the value was: that memory is nobody else's
        for `LEFT_S`, or until `LEFT_BYTES` of others have been left.

        Args:
            left: The array that held the value; None where there was none.
        """
        with self._lock:
            if self._moves is None:
                return  # no peer knows of any place
            self._moves[0] += 1
            if isinstance(left, np.ndarray):
                self._left.append((time.monotonic() + LEFT_S, left))
            self._let_go()

    def _let_go(self) -> None:
        """Forgets what was left long ago, and the oldest of too much."""
        size = sum(array.nbytes for _, array in self._left)
        while self._left and (size > LEFT_BYTES or self._left[0][0] < time.monotonic()):
            size -= self._left.popleft()[1].nbytes

    def segment(self, number: int) -> Segment:
        """What a peer needs to map a segment.

        Raises:
            InvalidArgumentError: There is no such segment any more.
        """
        part = self._parts.get(number)
        if part is None:
            raise InvalidArgumentError(
                message=f"There is no segment {number}, there are {list(self._parts)}"
            )
        return part.file.segment

    def close(self) -> None:
        """Gives up all segments. Arrays that live on keep their memory; `locate` forgets them."""
        with self._lock:
            self._is_open = False
            parts = list(self._parts.values())
            self._parts.clear()
            self._left.clear()
            self._moves = None
        self._sweep()  # those two were returned while this had the lock
        for part in parts:
            part.file.close()

    def _take(self, size: int) -> _Block | None:
        aligned = -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        with self._lock:
            if not self._is_open:
                return None
            self._let_go()
            self._drain()
            total = self.size_bytes
            # Never less than a sixteenth of all: so segments, and their file descriptors, are few.
            is_huge = aligned >= max(HUGE_BYTES, total // 16)
            part, offset = None, None
            if not is_huge:
                for part in self._parts.values():
                    offset = part.free.take(aligned)
                    if offset is not None:
                        break
            try:
                if part is None or offset is None:
                    grown = aligned if is_huge else max(FIRST_SEGMENT_BYTES, total // 2, aligned)
                    part = _Part(self._next_number, grown)
                    self._next_number += 1
                    self._parts[part.number] = part
                    offset = part.free.take(aligned)
                    assert offset is not None
                part.file.reserve(offset + aligned)
            except OSError:  # no memory or descriptors left: ordinary memory may still do
                if part is not None and offset is not None:
                    self._free(part, offset, aligned)
                return None
            return _Block(self, part, offset, size, aligned)

    def _give_back(self, part: _Part, offset: int, size: int) -> None:
        self._returned.append((part, offset, size))
        self._sweep()

    def _sweep(self) -> None:
        """Takes back what was returned, unless a thread that will do so has the lock."""
        while self._returned and self._lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._lock.release()

    def _drain(self) -> None:
        while self._returned:
            self._free(*self._returned.popleft())

    def _free(self, part: _Part, offset: int, size: int) -> None:
        part.free.give_back(offset, size)
        is_last = len(self._parts) == 1 and part.free.size_bytes <= FIRST_SEGMENT_BYTES
        if not part.free.used_bytes and not is_last and part.number in self._parts:
            del self._parts[part.number]
            part.file.discard()


class MappedSegments:
    """A peer's segments in this process, for reading. Safe to use from several threads.

    Views that live on when this is closed keep their segments mapped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mappings: dict[int, Any] = {}
        self._is_open = True

    def attach(self, number: int, fd: int, size_bytes: int) -> None:
        """Maps a segment. Takes `fd` over: it is closed whatever happens.

        Raises:
            InvalidArgumentError: The file is not what was announced (see `map_segment`), or there
                is a segment of this number.
            ResourceExhaustedError: There are too many, or there is no room to map it.
        """
        with self._lock:
            if number in self._mappings or len(self._mappings) >= MAX_ATTACHED or not self._is_open:
                os.close(fd)
                if number in self._mappings:
                    raise InvalidArgumentError(message=f"Segment {number} is attached already")
                raise ResourceExhaustedError(
                    message=f"Segment {number} cannot be attached beside "
                    f"{len(self._mappings)} others, at most {MAX_ATTACHED}"
                )
            try:
                self._mappings[number] = map_segment(fd, size_bytes)
            except OSError as error:
                raise ResourceExhaustedError(
                    message=f"Segment {number} of {size_bytes} bytes cannot be mapped: {error}"
                ) from error

    def detach(self, number: int) -> None:
        """Lets go of a segment that its owner gave up; an unknown one is ignored."""
        with self._lock:
            self._mappings.pop(number, None)

    def view(self, place: Place, dtype: DTypeLike, shape: Sequence[int]) -> Array:
        """An array that lies in the peer's memory, read-only.

        Args:
            place: Where it begins.
            dtype: Of the array, without Python objects.
            shape: Of the array.

        Raises:
            InvalidArgumentError: There is no such segment, or the array would not lie in it.
        """
        kind, shape = np.dtype(dtype), tuple(map(int, shape))
        mapping = self._mappings.get(place.segment)
        if mapping is None:
            raise InvalidArgumentError(
                message=f"There is no segment {place.segment}, there are {list(self._mappings)}"
            )
        size = math.prod(shape) * kind.itemsize
        is_sound = not kind.hasobject and all(each >= 0 for each in shape)
        is_inside = 0 <= place.offset <= len(mapping) - size and not place.offset % kind.alignment
        if is_sound and is_inside:
            with contextlib.suppress(ValueError):  # more dimensions, or larger ones, than numpy has
                return np.ndarray(shape, kind, mapping, place.offset)
        raise InvalidArgumentError(
            message=f"An array {kind} {list(shape)} cannot begin at byte {place.offset} of segment "
            f"{place.segment}, which has {len(mapping)}"
        )

    def close(self) -> None:
        """Lets go of all segments."""
        with self._lock:
            self._is_open = False
            self._mappings.clear()
