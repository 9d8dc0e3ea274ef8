"""Shared memory of a channel within one host: what a task lends, and what it reads of the other's.

Two kinds travel as places instead of bytes. Arrays of the task's arena (variables) are read where
they are. Everything else is copied once, into a slot of memory that belongs to this channel, and
read there; the slot is free again when the other task has let go of the arrays. The descriptors of
the memory go through the unix socket, before the first place in it.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.device.memory_file import Segment
from sparkflow_runtime.device.shared_memory import MappedSegments, Place, SharedArena
from sparkflow_runtime.device.shared_slots import SlotReader, SlotRing
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.transport.channel import frames
from sparkflow_runtime.transport.channel.frames import SHARED_BODY, Header, Kind
from sparkflow_runtime.transport.channel.layout import Layout, Tensor
from sparkflow_runtime.transport.channel.wire import SMALL_BYTES, Wire

LEAST_SHARED_BYTES: Final = 4096
"""Smaller arrays of the arena are sent as fast as told of."""
LEAST_BYTES: Final = 1 << 14
"""Smaller bodies travel through the socket, which costs less than a slot."""
RING_BYTES: Final = 1 << 30
"""So much the other task may hold at once; what was never used takes no memory."""

MAX_TOLD: Final = 2048
"""The places of so many arrays fit into a frame's text."""

_ARENA: Final = 1
_SLOTS: Final = 2
_TABLE: Final = 3
_SLOT = struct.Struct("<QQQ")


class ChannelMemory:
    """What the two ends of a channel share, seen from one of them.

    What it lends may be asked for by several threads, and `_lock` guards those fields; what it
    reads belongs to the thread that reads the channel, but for `_slots`, which `_keeping` guards.

    Args:
        wire: Of the channel.
        arena: Of the task; None where nothing is lent.

    Attributes:
        is_lent: Whether anything can be lent.
        least_bytes: Bodies of so many bytes and more are worth a slot.
        is_read: Whether any of the other's memory has come.
    """

    def __init__(self, wire: Wire, arena: SharedArena | None) -> None:
        # Over unix sockets descriptors of memory can travel along.
        self.is_lent = arena is not None and wire.transport == "unix" and arena.available()
        self.least_bytes = LEAST_BYTES if self.is_lent else frames.MAX_BODY_BYTES + 1
        self.is_read = False
        self._wire = wire
        self._arena = arena if self.is_lent else None
        self._lock = threading.Lock()
        self._told: set[int] = set()
        self._ring: SlotRing | None = None
        self._segments = MappedSegments()
        # Apart from `_lock`, under which others send: who reads must not wait for that.
        self._keeping = threading.Lock()
        self._slots: Segment | None = None
        self._is_closed = False
        self._reader: SlotReader | None = None

    # ------------------------------------------------------------------------------- lending

    def locate(self, array: Any) -> tuple[int, int] | None:
        """Where the other end finds an array of the arena; None if it is not there.

        Raises:
            UnavailableError: The channel is closed.
        """
        if self._arena is None:
            return None
        place = self._arena.locate(array)
        if place is None:
            return None
        if place.segment not in self._told:
            self._tell(place.segment)
        return place.segment, place.offset

    def places(self, arrays: Sequence[Any]) -> bytes:
        """Where the other end finds the arena's count of moves, and all of these arrays.

        Empty where one of them is not in the arena, or there are too many of them.

        Raises:
            UnavailableError: The channel is closed.
        """
        arena = self._arena
        if arena is None or len(arrays) > MAX_TOLD:
            return b""
        found = [self.locate(each) for each in (arena.moves(), *arrays)]
        places = [place for place in found if place is not None]
        return frames.pack_places(places) if len(places) == len(found) else b""

    def put(self, buffers: Sequence[Any], size_bytes: int) -> bytes:
        """Copies a body into a slot and says where it is; empty if there is no room for now."""
        ring = self._ring or self._open_ring()
        slot = None if ring is None else ring.take(size_bytes)
        if slot is None:
            return b""
        if size_bytes < len(buffers) * SMALL_BYTES:
            buffers = (b"".join(buffers),)  # another copy, but much less to do in Python
        start = 0
        for buffer in buffers:
            piece = np.frombuffer(buffer, np.uint8)
            slot.array[start : start + len(piece)] = piece
            start += len(piece)
        return _SLOT.pack(slot.number, slot.use, slot.offset)

    def _tell(self, number: int) -> None:
        with self._lock:
            if number in self._told or self._arena is None:
                return
            for gone in self._told - set(self._arena.numbers):
                self._told.discard(gone)
                self._wire.send(frames.pack(Kind.SEGMENT, gone, 0, flags=_ARENA))
            self._send(_ARENA, number, self._arena.segment(number))
            self._told.add(number)

    def _open_ring(self) -> SlotRing | None:
        with self._lock:
            if self._ring is None and self.is_lent:
                try:
                    ring = SlotRing(RING_BYTES)
                except OSError:
                    self.least_bytes = frames.MAX_BODY_BYTES + 1
                    return None  # The socket does it, too.
                try:
                    self._send(_SLOTS, 0, ring.memory)
                    self._send(_TABLE, 0, ring.table)
                except BaseException:  # the other end is gone
                    ring.close()
                    raise
                self._ring = ring
            return self._ring

    def _send(self, kind: int, number: int, segment: Segment) -> None:
        head = frames.pack(Kind.SEGMENT, number, segment.size_bytes, flags=kind)
        self._wire.send(head, descriptors=[segment.fd])

    # ------------------------------------------------------------------------------- reading

    def attach(self, header: Header, take_descriptor: Callable[[], int | None]) -> None:
        """Takes note of a SEGMENT frame.

        Args:
            header: Its header.
            take_descriptor: Gives the next descriptor that came. Only called for memory that is
                there: the frame that says that memory is gone may have come with one that belongs
                to the next frame.

        Raises:
            InvalidArgumentError: It has no descriptor, or is not what it should be.
        """
        kind, number, size = header.flags, header.number, header.place
        if kind == _ARENA and size == 0:
            self._segments.detach(number)
            return
        descriptor = take_descriptor()
        if descriptor is None:
            raise InvalidArgumentError(message=f"Memory {number} came without a descriptor")
        self.is_read = True
        if kind == _ARENA:
            self._segments.attach(number, descriptor, size)
        elif kind == _SLOTS and self._reader is None:
            self._keep_slots(Segment(descriptor, size))
        else:
            slots = self._take_slots()
            if kind == _TABLE and slots is not None:
                self._reader = SlotReader(slots, Segment(descriptor, size))
                return
            for each in (descriptor, *([slots.fd] if slots is not None else [])):
                os.close(each)
            raise InvalidArgumentError(message=f"Memory of kind {kind} came out of turn")

    def _keep_slots(self, slots: Segment) -> None:
        """Keeps the memory of slots until their table comes, unless this is closed."""
        with self._keeping:
            is_wanted = self._slots is None and not self._is_closed
            if is_wanted:
                self._slots = slots
        if not is_wanted:
            os.close(slots.fd)
            raise InvalidArgumentError(message="Memory of slots came out of turn")

    def _take_slots(self) -> Segment | None:
        with self._keeping:
            slots, self._slots = self._slots, None
            return slots

    def read(
        self, layout: Layout, header: Header, head: bytes, body: np.ndarray[Any, Any] | None
    ) -> list[Any]:
        """The tensors of a frame.

        Args:
            layout: What the frame, or an earlier one, says of them.
            header: Of the frame.
            head: Its text and layout.
            body: What came through the socket; None if nothing did.

        Raises:
            InvalidArgumentError: The body has another size, or a place does not exist.
        """
        if header.flags & SHARED_BODY:
            body = self._slot(header, head, layout.body_bytes)
        elif body is None:
            body = np.empty(0, np.uint8)
        if len(body) != layout.body_bytes:
            raise InvalidArgumentError(
                message=f"A body of {len(body)} bytes, its tensors need {layout.body_bytes}"
            )
        return layout.read(body, self._tensor)

    def view(
        self, place: tuple[int, int], dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> np.ndarray[Any, Any]:
        """An array of the other end's arena, read-only.

        Raises:
            InvalidArgumentError: It is in a place that does not exist.
        """
        return self._segments.view(Place(*place), dtype, shape)

    def text(self, header: Header, head: bytes) -> bytes:
        """The text of a frame without the place of its body."""
        return head[_SLOT.size if header.flags & SHARED_BODY else 0 : header.text_bytes]

    def skip(self, header: Header, head: bytes) -> None:
        """Lets go of a body that nobody wants."""
        if header.flags & SHARED_BODY:
            self._slot(header, head, 0)

    def _slot(self, header: Header, head: bytes, size_bytes: int) -> np.ndarray[Any, Any]:
        if self._reader is None or header.text_bytes < _SLOT.size:
            raise InvalidArgumentError(message="A body refers to memory that was never shared")
        number, use, offset = _SLOT.unpack_from(head)
        return self._reader.view(number, use, offset, size_bytes)

    def _tensor(self, tensor: Tensor) -> np.ndarray[Any, Any]:
        """A tensor that stayed with the other task, read-only.

        Raises:
            InvalidArgumentError: It is in a place that does not exist.
        """
        return self.view((tensor.segment, tensor.start), tensor.dtype, tensor.shape)

    # ------------------------------------------------------------------------------- the end

    def close(self) -> None:
        """Lends nothing any more, and lets go of all but the arrays that live on.

        May be called again.
        """
        with self._lock:
            self.is_lent, self._arena = False, None
            self.least_bytes = frames.MAX_BODY_BYTES + 1
            ring, self._ring = self._ring, None
        if ring is not None:
            ring.close()
        self._segments.close()
        with self._keeping:
            self._is_closed = True
        slots = self._take_slots()
        if slots is not None:
            os.close(slots.fd)
        self._reader = None
