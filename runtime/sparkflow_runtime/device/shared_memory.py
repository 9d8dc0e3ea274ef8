"""Memory that other processes on this host can map, divided into arrays.

The arrays of a `SharedArena` are in a few large segments. A peer gets each segment's file
descriptor once (over a Unix socket); from then on a `Place` tells it where an array is, and it
reads it there without a copy. Peers cannot write to what they map. They run as the same user with
the token of the same job; this prevents accidental, not intentional, damage.
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
"""Arrays from this size on get their own segment, unless they are small relative to the arena."""
LEFT_S: Final = 30.0
LEFT_BYTES: Final = 1 << 28
"""How long, and how much, memory that values have moved from stays unchanged."""
MAX_ATTACHED: Final = 1024
"""Maximum number of mapped segments of one peer; a `SharedArena` has fewer."""


@dataclass(frozen=True, slots=True)
class Place:
    """The location of an array.

    Attributes:
        segment: The segment's number.
        offset: In bytes from the segment's beginning.
    """

    segment: int
    offset: int


class _Part:
    """A segment of an arena: its memory and its free ranges."""

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
    """Creates arrays that other processes on this host can map. Safe to use from several threads.

    If the system has no such memory, or none left, the arrays are ordinary ones, unknown to
    `locate`. Segments grow with the arena, so there are a few dozen at most; an empty segment is
    returned to the system, and its number is never reused.

    `_lock` guards `_parts`, their free ranges, `_moves` and `_left`. Arrays may be collected at any
    time, by a thread that may hold the lock: the memory they return is queued in `_returned`.
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
        """Whether this system has such memory."""
        return memory_file.available()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The existing segments; a peer may release all others."""
        return tuple(self._parts)

    @property
    def size_bytes(self) -> int:
        """The size of all segments; parts never used take no memory."""
        return sum(part.free.size_bytes for part in tuple(self._parts.values()))

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Creates an array whose memory is freed when it and all views of it are collected.

        Args:
            shape: Its shape.
            dtype: Its dtype, without Python objects.

        Returns:
            A C-contiguous, uninitialized array, aligned to 64 bytes.
        """
        kind, shape = np.dtype(dtype), tuple(map(int, shape))
        size = math.prod(shape) * kind.itemsize
        if not self._is_open or size <= 0 or kind.hasobject:
            return np.empty(shape, kind)
        block = self._take(size)
        self._sweep()
        if block is None:
            return np.empty(shape, kind)
        # Views of this array, and so everything handed out, have `whole` as their base.
        whole = np.asarray(block)
        return whole.view(kind).reshape(shape)

    def locate(self, array: Array) -> Place | None:
        """Returns the location of a C-contiguous array; None if it is not in this arena.

        Also finds views into arrays of the arena. Takes 0.2 us, for parts of arrays 1 us.
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
        """The number of times that values of this task have moved, [1] int64 in the arena.

        Locations that a peer learnt before it read this number are valid while it is unchanged.
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
        """Records that a value has moved or is gone. To be called afterwards.

        A step of a peer may have begun to read at the old location: that memory is not reused for
        `LEFT_S`, or until `LEFT_BYTES` of others have been left.

        Args:
            left: The array that held the value; None if there was none.
        """
        with self._lock:
            if self._moves is None:
                return  # no peer knows any location
            self._moves[0] += 1
            if isinstance(left, np.ndarray):
                self._left.append((time.monotonic() + LEFT_S, left))
            self._let_go()

    def _let_go(self) -> None:
        """Frees memory that was left long ago, and the oldest if there is too much."""
        size = sum(array.nbytes for _, array in self._left)
        while self._left and (size > LEFT_BYTES or self._left[0][0] < time.monotonic()):
            size -= self._left.popleft()[1].nbytes

    def segment(self, number: int) -> Segment:
        """Returns what a peer needs to map a segment.

        Raises:
            InvalidArgumentError: The segment does not exist, or no longer.
        """
        part = self._parts.get(number)
        if part is None:
            raise InvalidArgumentError(
                message=f"There is no segment {number}, there are {list(self._parts)}"
            )
        return part.file.segment

    def close(self) -> None:
        """Releases all segments. Arrays keep their memory; `locate` no longer finds them."""
        with self._lock:
            self._is_open = False
            parts = list(self._parts.values())
            self._parts.clear()
            self._left.clear()
            self._moves = None
        self._sweep()  # both were returned while this thread had the lock
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
            # At least a sixteenth of the total: so there are few segments and file descriptors.
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
        """Frees returned memory, unless the thread that has the lock will do so."""
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

    Views that outlive `close` keep their segments mapped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mappings: dict[int, Any] = {}
        self._is_open = True

    def attach(self, number: int, fd: int, size_bytes: int) -> None:
        """Maps a segment. Takes ownership of `fd`: always closes it.

        Raises:
            InvalidArgumentError: The file is not as announced (see `map_segment`), or a segment of
                this number is attached.
            ResourceExhaustedError: Too many segments are attached, or it cannot be mapped.
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
        """Releases a segment that its owner has freed; an unknown one is ignored."""
        with self._lock:
            self._mappings.pop(number, None)

    def view(self, place: Place, dtype: DTypeLike, shape: Sequence[int]) -> Array:
        """Returns an array in the peer's memory, read-only.

        Args:
            place: Its location.
            dtype: Its dtype, without Python objects.
            shape: Its shape.

        Raises:
            InvalidArgumentError: There is no such segment, or the array would not be within it.
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
            with contextlib.suppress(
                ValueError
            ):  # more dimensions, or larger ones, than numpy supports
                return np.ndarray(shape, kind, mapping, place.offset)
        raise InvalidArgumentError(
            message=f"An array {kind} {list(shape)} cannot begin at byte {place.offset} of segment "
            f"{place.segment}, which has {len(mapping)}"
        )

    def close(self) -> None:
        """Releases all segments."""
        with self._lock:
            self._is_open = False
            self._mappings.clear()
