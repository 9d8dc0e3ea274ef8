"""Bundles that are copied once into shared memory, where another process reads them in place.

The sender owns memory that the reader maps read-only, and allocates a slot in it for each bundle.
The reader reports released slots through a table of one number per slot, a page that it may write;
wrong numbers there can only cause memory of this one connection to be reused too early or never. A
number identifies the use of the slot that was released, so numbers are never reset.
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from sparkflow_runtime.device.free_ranges import FreeRanges
from sparkflow_runtime.device.host_memory import ALIGNMENT_BYTES
from sparkflow_runtime.device.lent_memory import LentMemory, bytes_at
from sparkflow_runtime.device.memory_file import (
    Bytes,
    MemoryFile,
    Segment,
    map_segment,
)
from sparkflow_runtime.errors import InvalidArgumentError

MAX_SLOTS: Final = 512
"""One page of numbers."""
_NUMBERS: Final = np.dtype(np.uint64)


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece of shared memory that the sender fills and the reader releases.

    Attributes:
        array: [size_bytes] uint8, for the sender to write.
        number: The slot's number, from 0.
        use: How often it was allocated, from 1; the reader writes it into the table.
        offset: Its first byte.
    """

    array: Bytes
    number: int
    use: int
    offset: int


class SlotRing:
    """The sender's side. Safe to use from several threads.

    A slot that the reader keeps for long does not block others: slots are freed in any order.

    `_lock` guards everything but the memory itself.

    Attributes:
        memory: The reader maps it for reading.
        table: The reader maps it to report released slots.
    """

    def __init__(self, size_bytes: int) -> None:
        """Creates both.

        Args:
            size_bytes: The maximum that the reader may hold at once.

        Raises:
            OSError: This system has no such memory, or none left.
        """
        with contextlib.ExitStack() as undo:
            self._memory = MemoryFile(size_bytes)
            undo.callback(self._memory.close)
            self._table = MemoryFile(MAX_SLOTS * _NUMBERS.itemsize, readers_write=True)
            undo.callback(self._table.close)
            self._table.reserve(self._table.segment.size_bytes)
            self._undo = undo.pop_all()
        self.memory: Segment = self._memory.segment
        self.table: Segment = self._table.segment
        self._lock = threading.Lock()
        self._free = FreeRanges(self.memory.size_bytes)
        self._unused = list(range(MAX_SLOTS))
        self._released = self._table.bytes.view(_NUMBERS).data
        self._uses = [0] * MAX_SLOTS
        self._taken: dict[int, tuple[int, int]] = {}  # slot number -> offset and size
        self._is_open = True

    def take(self, nbytes: int) -> Slot | None:
        """Allocates a slot; None while the reader holds too much, or if it is too large.

        Makes no system call, unless memory is used for the first time.
        """
        size = max(1, -(-nbytes // ALIGNMENT_BYTES)) * ALIGNMENT_BYTES
        with self._lock:
            if not self._is_open:
                return None
            # Now, not when memory is short: the slot released last is still in the cache.
            self._collect()
            offset = self._free.take(size) if self._unused else None
            if offset is None:
                return None
            try:
                self._memory.reserve(offset + size)
            except OSError:
                self._free.give_back(offset, size)
                return None
            number = self._unused.pop()
            self._taken[number] = offset, size
            self._uses[number] += 1
            array = self._memory.bytes[offset : offset + nbytes]
            return Slot(array, number, self._uses[number], offset)

    @property
    def held_bytes(self) -> int:
        """The bytes that the reader has not reported as released."""
        with self._lock:
            self._collect()
            return self._free.used_bytes

    def close(self) -> None:
        """Closes the descriptors; the memory is freed when both processes have released it."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._undo.close()

    def _collect(self) -> None:
        released, uses = self._released, self._uses
        for number in [each for each in self._taken if released[each] == uses[each]]:
            self._put_back(number)

    def _put_back(self, number: int) -> None:
        self._free.give_back(*self._taken.pop(number))
        self._unused.append(number)


class SlotReader:
    """The reader's side. Safe to use from several threads.

    Existing arrays keep the memory mapped. There is no `close`: it is unmapped with the last of
    them.
    """

    __slots__ = ("_address", "_memory", "_released")

    def __init__(self, memory: Segment, table: Segment) -> None:
        """Maps both. Takes ownership of the descriptors: always closes them.

        Raises:
            InvalidArgumentError: They are not as announced, see `map_segment`.
            OSError: They cannot be mapped.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, table.fd)
            self._memory: Bytes = np.frombuffer(map_segment(memory.fd, memory.size_bytes), np.uint8)
            undo.pop_all()
        if table.size_bytes < MAX_SLOTS * _NUMBERS.itemsize:
            os.close(table.fd)
            raise InvalidArgumentError(
                message=f"The table of slots has {table.size_bytes} bytes, expected "
                f"{MAX_SLOTS * _NUMBERS.itemsize}"
            )
        mapping = map_segment(table.fd, table.size_bytes, writable=True)
        self._released = np.frombuffer(mapping, _NUMBERS, MAX_SLOTS)
        self._address: int = self._memory.ctypes.data

    def view(self, number: int, use: int, offset: int, nbytes: int) -> Bytes:
        """Returns the contents of a slot: [nbytes] uint8, read-only.

        The slot is released when they and all views are collected. Call once for each slot.

        Raises:
            InvalidArgumentError: There is no such slot, or it would not be within the memory.
        """
        size = len(self._memory)
        if not (0 <= number < MAX_SLOTS and nbytes >= 0 and 0 <= offset <= size - nbytes):
            raise InvalidArgumentError(
                message=f"Slot {number} cannot have the {nbytes} bytes at {offset} of {size}, and "
                f"there are {MAX_SLOTS}"
            )
        if not 0 < use < 1 << 64:
            raise InvalidArgumentError(message=f"Slot {number} cannot be in use number {use}")
        # The callback is a method of this reader, and so keeps its memory mapped.
        let_go = partial(self._let_go, number, use)
        place = bytes_at(self._address + offset, nbytes, read_only=True)
        return np.asarray(LentMemory(place, let_go))

    def _let_go(self, number: int, use: int) -> None:
        self._released[number] = use  # one aligned store of 8 bytes
