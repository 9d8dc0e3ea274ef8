"""Shared memory of a channel within one host: what a task lends to the other and reads of it.

Two kinds of arrays travel as locations instead of bytes. Arrays of the task's arena (variables) are
read in place. Everything else is copied once, into a slot of memory that belongs to this channel,
and read there; the slot is free again when the other task has released the arrays. The descriptors
of the memory are sent through the unix socket before the first location in it.
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
"""Sending a smaller array of the arena is as fast as sending its location."""
LEAST_BYTES: Final = 1 << 14
"""Smaller bodies travel through the socket, which costs less than a slot."""
RING_BYTES: Final = 1 << 30
"""Maximum size that the other task may hold at once; unused parts take no memory."""

MAX_TOLD: Final = 2048
"""Maximum number of arrays whose locations fit into a frame's text."""

_ARENA: Final = 1
_SLOTS: Final = 2
_TABLE: Final = 3
_SLOT = struct.Struct("<QQQ")


class ChannelMemory:
    """The memory that the two ends of a channel share, as seen from one of them.

    Several threads may lend, and `_lock` guards the fields for that; the fields for reading belong
    to the thread that reads the channel, except `_slots`, which `_keeping` guards.

    Args:
        wire: The channel's wire.
        arena: The task's arena; None to lend nothing.

    Attributes:
        is_lent: Whether anything can be lent.
        least_bytes: The minimum size of a body for which a slot is used.
        is_read: Whether the other task has shared any memory.
    """

    def __init__(self, wire: Wire, arena: SharedArena | None) -> None:
        # Only unix sockets can carry descriptors.
        self.is_lent = arena is not None and wire.transport == "unix" and arena.available()
        self.least_bytes = LEAST_BYTES if self.is_lent else frames.MAX_BODY_BYTES + 1
        self.is_read = False
        self._wire = wire
        self._arena = arena if self.is_lent else None
        self._lock = threading.Lock()
        self._told: set[int] = set()
        self._ring: SlotRing | None = None
        self._segments = MappedSegments()
        # Separate from `_lock`, which is held while sending: a reader must not wait for that.
        self._keeping = threading.Lock()
        self._slots: Segment | None = None
        self._is_closed = False
        self._reader: SlotReader | None = None

    # ------------------------------------------------------------------------------- lending

    def locate(self, array: Any) -> tuple[int, int] | None:
        """Returns where the other end finds an array of the arena; None if it is not in the arena.

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
        """Returns where the other end finds the arena's count of moves and all of these arrays.

        Empty if one of them is not in the arena, or there are too many.

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
        """Copies a body into a slot; returns its location, or b"" if there is no room now."""
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
                    return None  # Bodies are sent through the socket instead.
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
        """Handles a SEGMENT frame.

        Args:
            header: Its header.
            take_descriptor: Returns the next descriptor that arrived. Only called for new memory: a
                frame that withdraws memory may arrive with a descriptor that belongs to the next
                frame.

        Raises:
            InvalidArgumentError: It has no descriptor, or is invalid.
        """
        kind, number, size = header.flags, header.number, header.place
        if kind == _ARENA and size == 0:
            self._segments.detach(number)
            return
        descriptor = take_descriptor()
        if descriptor is None:
            raise InvalidArgumentError(message=f"Memory {number} arrived without a descriptor")
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
            raise InvalidArgumentError(message=f"Memory of kind {kind} arrived out of order")

    def _keep_slots(self, slots: Segment) -> None:
        """Keeps the memory of slots until their table arrives, unless this is closed."""
        with self._keeping:
            is_wanted = self._slots is None and not self._is_closed
            if is_wanted:
                self._slots = slots
        if not is_wanted:
            os.close(slots.fd)
            raise InvalidArgumentError(message="Memory of slots arrived out of order")

    def _take_slots(self) -> Segment | None:
        with self._keeping:
            slots, self._slots = self._slots, None
            return slots

    def read(
        self, layout: Layout, header: Header, head: bytes, body: np.ndarray[Any, Any] | None
    ) -> list[Any]:
        """Returns the tensors of a frame.

        Args:
            layout: Their layout, from this frame or an earlier one.
            header: The frame's header.
            head: Its text and layout.
            body: The bytes that came through the socket; None if there were none.

        Raises:
            InvalidArgumentError: The body has another size, or a location does not exist.
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
        """Returns a read-only array of the other end's arena.

        Raises:
            InvalidArgumentError: Its location does not exist.
        """
        return self._segments.view(Place(*place), dtype, shape)

    def text(self, header: Header, head: bytes) -> bytes:
        """Returns the text of a frame without the location of its body."""
        return head[_SLOT.size if header.flags & SHARED_BODY else 0 : header.text_bytes]

    def skip(self, header: Header, head: bytes) -> None:
        """Releases a body that is not needed."""
        if header.flags & SHARED_BODY:
            self._slot(header, head, 0)

    def _slot(self, header: Header, head: bytes, size_bytes: int) -> np.ndarray[Any, Any]:
        if self._reader is None or header.text_bytes < _SLOT.size:
            raise InvalidArgumentError(message="A body refers to memory that was never shared")
        number, use, offset = _SLOT.unpack_from(head)
        return self._reader.view(number, use, offset, size_bytes)

    def _tensor(self, tensor: Tensor) -> np.ndarray[Any, Any]:
        """Returns a read-only tensor that stayed with the other task.

        Raises:
            InvalidArgumentError: Its location does not exist.
        """
        return self.view((tensor.segment, tensor.start), tensor.dtype, tensor.shape)

    # ------------------------------------------------------------------------------- the end

    def close(self) -> None:
        """Stops lending, and releases everything but the arrays in use.

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
