"""One end of an open channel: what the asking and the serving end have in common."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import InternalError, InvalidArgumentError, OpError
from sparkflow_runtime.transport.channel import frames
from sparkflow_runtime.transport.channel.frames import SAME_LAYOUT, SHARED_BODY, Header, Kind
from sparkflow_runtime.transport.channel.layout import Describer, Message
from sparkflow_runtime.transport.channel.memory import LEAST_SHARED_BYTES, ChannelMemory
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.channel.wire import Wire

HELD_BYTES: Final = 1 << 14
"""Larger bodies are sent at once: they take longer to arrive than a second frame does."""


class End(abc.ABC):
    """The wire, the memory shared with the other end, and the handling of incoming frames.

    Args:
        opened: The socket after its handshake.
        arena: Memory of this task that the other task may read; None to share none.
        on_blocked: See `Wire`.

    Attributes:
        wire: The socket.
        memory: The memory that the two ends share.
        is_always_read: Whether threads of the reactor read it from the start, not only while no
            other thread does.
    """

    is_always_read = False

    def __init__(
        self, opened: Opened, arena: SharedArena | None, on_blocked: Callable[[], None]
    ) -> None:
        self.wire = Wire(opened, on_blocked)
        self.memory = ChannelMemory(self.wire, arena)
        self._describer = Describer(self.memory.locate, LEAST_SHARED_BYTES)
        self._describing = threading.Lock()

    def be_read(self, add: Callable[[End], None]) -> None:
        """Has a reactor read it from now on; closes it if that fails.

        Args:
            add: `Reactor.add`.

        Raises:
            OSError, RuntimeError: Raised by `add`.
        """
        try:
            add(self)
        except BaseException:
            self.wire.release()
            raise

    @property
    def is_open(self) -> bool:
        """Whether anything can be sent."""
        return self.wire.closed is None

    @property
    def is_left_alone(self) -> bool:
        """Whether something is outstanding and no thread reads it."""
        return False

    @property
    def holds_back(self) -> bool:
        """Whether there is something to `flush`."""
        return False

    def flush(self) -> None:
        """Sends the frames that were held back."""
        return  # this end holds nothing back

    def describe(self, values: Sequence[Any], lent: Sequence[int] = ()) -> Message:
        """Returns the message for arrays that belong to no stream.

        Args:
            values: The arrays.
            lent: The indices of the arrays that may be read in place.

        Raises:
            UnavailableError: The channel is closed.
        """
        if not values:  # the describer keeps track of the messages in between
            return Message(b"", [], 0, 0)
        with self._describing:
            return self._describer.describe(values, lent)

    # ------------------------------------------------------------------------------ sending

    def send(
        self,
        kind: Kind,
        number: int,
        place: int,
        text: bytes,
        message: Message,
        same_layout: bool = False,
        check: Callable[[], None] | None = None,
        is_held: bool = False,
    ) -> None:
        """Sends a frame with tensors, its body through a slot if that is worthwhile.

        Args:
            kind: The frame's kind.
            number: The frame's number.
            place: The frame's place.
            text: The frame's text.
            message: The tensors.
            same_layout: Whether the last frame of this stream had the same layout.
            check: See `Wire.send`.
            is_held: Whether another frame follows at once; a small frame is then sent with it.

        Raises:
            UnavailableError: The channel is closed.
            OpError: Raised by `check`.
        """
        buffers: Sequence[Any] = message.buffers
        size, flags = message.body_bytes, SAME_LAYOUT if same_layout else 0
        if size >= self.memory.least_bytes:
            slot = self.memory.put(buffers, size)
            if slot:
                text, flags = slot + text, flags | SHARED_BODY
                buffers, size = (), 0
        head = frames.pack(
            kind,
            number,
            place,
            flags=flags,
            text=text,
            layout=b"" if same_layout else message.layout,
            tensors=0 if same_layout else message.count,
            body_bytes=size,
        )
        if is_held and size <= HELD_BYTES:
            self.wire.hold(head, b"".join(buffers))
        else:
            self.wire.send(head, buffers, size, check)

    def post(self, head: bytes) -> None:
        """Sends a frame without a body; does nothing if the channel is closed."""
        try:
            self.wire.send(head)
        except OpError:
            return  # Threads that wait for an answer, or read, notice it.

    # ------------------------------------------------------------------------------ reading

    def attend(self) -> None:
        """Reads what has arrived, unless a thread is reading. Called by threads of the reactor."""
        if self.wire.reading.acquire(blocking=False):
            try:
                self.read()
            finally:
                self.wire.stop_reading()

    def read(self) -> None:
        """Reads what has arrived, in the thread that holds `wire.reading`; closes on failure."""
        try:
            self.wire.read(self.buffer, self.handle)
        except OpError as error:
            self.close(error)
        except Exception as error:
            self.close(InternalError(message=f"A channel failed: {error!r}"))

    def handle_other(self, header: Header) -> None:
        """Handles a frame that either end may send.

        Raises:
            InvalidArgumentError: Only the other end may receive such a frame.
        """
        if header.kind is not Kind.SEGMENT:
            raise InvalidArgumentError(
                message=f"A {header.kind.name} frame arrived at the wrong end of a channel"
            )
        self.memory.attach(header, self.wire.take_descriptor)

    @abc.abstractmethod
    def buffer(self, header: Header, size_bytes: int) -> np.ndarray[Any, Any]:
        """See `wire.Buffer`."""

    @abc.abstractmethod
    def handle(self, header: Header, head: bytes, body: np.ndarray[Any, Any] | None) -> None:
        """See `wire.Handle`."""

    @abc.abstractmethod
    def close(self, error: OpError | None = None) -> None:
        """Closes the channel and ends all that depends on it; may be called again."""
