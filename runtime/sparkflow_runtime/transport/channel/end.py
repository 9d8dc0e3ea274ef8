"""One end of an open channel: what the end that asks and the one that serves have in common."""

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
"""Larger bodies leave at once: they take longer to come than a second frame does."""


class End(abc.ABC):
    """Its wire, the memory that it shares with the other end, and the frames that come.

    Args:
        opened: The socket after its handshake.
        arena: Memory of this task that the other may read; None to share none.
        on_blocked: See `Wire`.

    Attributes:
        wire: The socket.
        memory: What the two ends share.
        is_always_read: Whether threads of the reactor read it from the beginning, and not only
            while nobody else does.
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
        """Has a reactor read it from now on; closes it where that cannot be.

        Args:
            add: `Reactor.add`.

        Raises:
            OSError, RuntimeError: What `add` raises.
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
        """Whether something is to come, and nobody reads it."""
        return False

    @property
    def holds_back(self) -> bool:
        """Whether there is something to `flush`."""
        return False

    def flush(self) -> None:
        """Sends what was held back until something else is sent."""
        return  # this end holds nothing back

    def describe(self, values: Sequence[Any], lent: Sequence[int] = ()) -> Message:
        """The message of arrays that belong to no stream.

        Args:
            values: The arrays.
            lent: The numbers of those that may stay where they are.

        Raises:
            UnavailableError: The channel is closed.
        """
        if not values:  # the describer goes on to know what comes between such
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
        """Sends a frame with tensors, its body through a slot where that is worth it.

        Args:
            kind: Of the frame.
            number: Of the frame.
            place: Of the frame.
            text: Of the frame.
            message: The tensors.
            same_layout: Whether the last frame of this stream had the same.
            check: See `Wire.send`.
            is_held: Whether another frame follows at once, with which it may go if it is small.

        Raises:
            UnavailableError: The channel is closed.
            OpError: What `check` raised.
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
        """Sends a frame without a body; nothing where the channel is closed."""
        try:
            self.wire.send(head)
        except OpError:
            return  # Whoever waits for an answer, or reads, learns it.

    # ------------------------------------------------------------------------------ reading

    def attend(self) -> None:
        """Reads what is there, unless a thread is doing that. Called by threads of the reactor."""
        if self.wire.reading.acquire(blocking=False):
            try:
                self.read()
            finally:
                self.wire.stop_reading()

    def read(self) -> None:
        """Reads what is there, in the thread that holds `wire.reading`; closes where that fails."""
        try:
            self.wire.read(self.buffer, self.handle)
        except OpError as error:
            self.close(error)
        except Exception as error:
            self.close(InternalError(message=f"A channel failed: {error!r}"))

    def handle_other(self, header: Header) -> None:
        """Takes a frame that both ends send.

        Raises:
            InvalidArgumentError: It is one that only the other end is sent.
        """
        if header.kind is not Kind.SEGMENT:
            raise InvalidArgumentError(
                message=f"A {header.kind.name} frame came to the wrong end of a channel"
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
        """Ends the channel, and all that depends on it; may be called again."""
