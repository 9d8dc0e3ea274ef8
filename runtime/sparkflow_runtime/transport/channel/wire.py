"""Frames over one socket: sends and receives whole frames, without a thread of its own.

Sending writes from the tensors' own memory, receiving reads into the memory that they stay in. The
socket never blocks; a thread that has to wait does so in `poll`, where it can be woken.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import ssl
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.cpu import sealed_pieces
from sparkflow_runtime.codegen.cpu.sealed_pieces import Receiving, Sending
from sparkflow_runtime.errors import (
    DataLossError,
    InternalError,
    OpError,
    UnavailableError,
    from_status,
    to_status,
)
from sparkflow_runtime.events.crc32c import crc32c
from sparkflow_runtime.transport.channel import frames, sockets
from sparkflow_runtime.transport.channel.frames import HEADER, Header
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.channel.seals import (
    SEALED_HEADER_BYTES,
    SUM_BYTES,
    Seals,
    parts,
)

STAGING_BYTES: Final = 1 << 14
"""Number of bytes read ahead for a frame whose size is not known yet."""
_MAX_PIECES: Final = 1000
"""Maximum number of buffers per call, below Linux's limit."""
_MAX_DESCRIPTORS: Final = 16
_LARGE_BYTES: Final = 1 << 14
"""Least size of bodies that machine code copies and checksums; for smaller ones the call costs
more."""
SMALL_BYTES: Final = 1 << 14
"""Pieces of a body that are smaller on average are joined before they are copied."""
_ROOM_BYTES: Final = 1 << 18
"""Size of the parts in which a body is copied, checksummed and written to the socket."""
_SIGNALS_MS: Final = 500
"""Longest `poll`. Python handles signals between calls: a Ctrl-C that arrives just before `poll` is
entered is not noticed until it returns."""
_BLOCKED_MS: Final = 200
"""How often a blocked sender checks whether it should continue."""


_log = logging.getLogger(__name__)


Bytes = np.ndarray[Any, Any]
Buffer = Callable[[Header, int], Bytes]
"""Returns memory, [size] uint8, for a frame's body and the number of bytes that follow it."""
Handle = Callable[[Header, bytes, Bytes | None], None]
"""Handles a whole frame: its header, the bytes before its body, and the body."""

_SOCKETS: Final[dict[int, Any]] = {}
"""The sockets of all wires by descriptor: wires are in reference cycles, in which the garbage
collector could reach a socket before its wire and warn that it was not closed."""


class Wire:
    """A socket that carries frames. Any thread may send; one at a time may read.

    `reading` is held by the thread that reads, `_writing` guards sending. With TLS and records,
    `_secured` serializes reading and writing, as OpenSSL requires.

    Args:
        opened: The socket after its handshake.
        on_blocked: Called in the sending thread when the other end does not accept more at present.

    Attributes:
        task: The task at the other end, see `Opened`.
        transport: Either `tcp` or `unix`.
        is_encrypted: Whether the channel uses TLS, or encrypted records in its place.
        closed: The error with which it was closed; None while it is open.
    """

    def __init__(self, opened: Opened, on_blocked: Callable[[], None] = lambda: None) -> None:
        self.task = opened.task
        self.transport = opened.transport
        self.closed: OpError | None = None
        self._socket: Any = opened.socket
        self._socket.setblocking(False)
        self._fd = self._socket.fileno()
        _SOCKETS[self._fd] = self._socket
        self.is_encrypted = opened.is_encrypted
        self._unix = opened.transport == "unix"
        self._on_blocked = on_blocked
        self.reading = threading.Lock()
        self._writing = threading.Lock()
        self._held: deque[tuple[bytes, bytes]] = deque()  # heads and bodies
        self._released = False
        self._secured = threading.Lock()
        self._staging = bytearray(STAGING_BYTES)
        self._view = memoryview(self._staging)
        self._start = self._end = 0
        self._body: tuple[Header, bytes, np.ndarray[Any, Any], int] | None = None
        seals = opened.seals
        self._sealing = None if seals is None else Seals(seals[0])
        self._unsealing = None if seals is None else Seals(seals[1])
        self._total = 0  # the sum of what has arrived of `_body`
        self._header_bytes = HEADER.size if seals is None else SEALED_HEADER_BYTES
        self._sum_bytes = 0 if seals is None else SUM_BYTES
        self._copies: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None = None
        self._receiving: np.ndarray[Any, Any] | None = None
        self._descriptors: deque[int] = deque()
        self._polls: dict[int, Any] = {}
        _WIRES.add(self)

    def fileno(self) -> int:
        """Returns the socket's descriptor."""
        return self._fd

    # ------------------------------------------------------------------------------ sending

    def has_room(self) -> bool:
        """Whether sending a small frame would probably not block."""
        if self.closed is not None:
            return True  # it is refused
        if self._writing.locked():
            return False
        room = select.poll()
        room.register(self._fd, select.POLLOUT)
        return bool(room.poll(0))

    def hold(self, head: bytes, body: bytes) -> None:
        """Holds a frame back until the next one is sent, which the caller does at once.

        Raises:
            UnavailableError: The channel is closed.
        """
        self._require_open()
        self._held.append((head, body))

    def send(
        self,
        head: bytes | list[bytes],
        buffers: Sequence[Any] = (),
        body_bytes: int = 0,
        check: Callable[[], None] | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Sends one frame, or several; returns when the kernel has all of it.

        Args:
            head: Everything before the body; or several frames without bodies.
            buffers: The body: contiguous arrays or bytes.
            body_bytes: Its size.
            check: Raises when waiting has become pointless. The channel is then closed.
            descriptors: Descriptors to send along, on unix sockets only.

        Raises:
            UnavailableError: The channel is closed, or was closed while sending.
            OpError: Raised by `check`.
        """
        try:
            with self._writing:
                self._require_open()
                try:
                    self._send(head, buffers, body_bytes, check, descriptors)
                except OSError as error:
                    self.close(
                        UnavailableError(message=f"The channel to {self._name()} broke: {error}")
                    )
                    self._require_open()
                except OpError as error:
                    self.close(error)  # A frame is incomplete: nothing can follow.
                    raise
                except BaseException as error:
                    self._give_up(error)
                    raise
        finally:
            if self._released:
                self._give_back()

    def _send(
        self,
        head: bytes | list[bytes],
        buffers: Sequence[Any],
        body_bytes: int,
        check: Callable[[], None] | None,
        descriptors: Sequence[int],
    ) -> None:
        seals = self._sealing
        before = self._take_held() if self._held else b""
        if isinstance(head, list):
            data = b"".join((before, *(head if seals is None else map(seals.sealed, head))))
            self._send_pieces([data], len(data), check)
        elif seals is None:
            lead = before + head if before else head
            self._send_pieces([lead, *buffers], len(lead) + body_bytes, check, descriptors)
        elif body_bytes < _LARGE_BYTES:
            data = before + seals.sealed(head, buffers)
            self._send_pieces([data], len(data), check)
        else:
            lead, total = seals.begun(head)
            lead = before + lead
            if sealed_pieces.available():
                self._send_sealed(lead, total, buffers, body_bytes, check)
                return
            self._send_pieces([lead], len(lead), check)
            for part in parts(buffers, total):
                self._send_pieces([part], len(part), check)

    def _take_held(self) -> bytes:
        """Returns the frames that were held back, with their sums if the channel has them."""
        seals, taken = self._sealing, []
        while self._held:
            head, body = self._held.popleft()
            taken += (
                [head, body] if seals is None else [seals.sealed(head, (body,) if body else ())]
            )
        return b"".join(taken)

    def _send_sealed(
        self,
        lead: bytes,
        total: int,
        buffers: Sequence[Any],
        body_bytes: int,
        check: Callable[[], None] | None,
    ) -> None:
        """Sends a frame up to its body, then the body and its sum, which continues from `total`."""
        if self._copies is None:
            self._copies = (
                np.empty(_ROOM_BYTES + SUM_BYTES, np.uint8),
                np.zeros(len(Sending), np.int64),
            )
        copies, record = self._copies
        if len(lead) > _ROOM_BYTES // 2:
            self._send_pieces([lead], len(lead), check)
            lead = b""
        if body_bytes < len(buffers) * SMALL_BYTES:
            buffers = (b"".join(buffers),)  # another copy, but much less to do in Python
        pieces = [
            each if type(each) is np.ndarray else np.frombuffer(each, np.uint8) for each in buffers
        ]
        sizes = np.array([each.nbytes for each in pieces], np.int64)
        copies[: len(lead)] = np.frombuffer(lead, np.uint8)
        record[:] = (self._fd, len(pieces), _ROOM_BYTES, 0, 0, len(lead), 0, total, 0)
        send = sealed_pieces.sender(len(pieces))
        is_first = True
        while True:
            send(sizes, copies, record, *pieces)
            rest = copies[record[Sending.SENT] : record[Sending.FILLED]]
            if not len(rest):
                return
            count = self._send_some([rest])  # which raises why the socket accepted no more
            record[Sending.SENT] += count
            if not count:
                self._await_room(check, is_first)
                is_first = False

    def _send_some(self, pieces: Sequence[Any], descriptors: Sequence[int] = ()) -> int:
        try:
            if self.is_encrypted:
                with self._secured:
                    return int(self._socket.send(sockets.joined(pieces)))
            if descriptors:
                rights = np.asarray(descriptors, np.intc).tobytes()
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                return int(self._socket.sendmsg(pieces, ancillary))
            return int(self._socket.sendmsg(pieces))
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0

    def _send_pieces(
        self,
        pieces: Sequence[Any],
        size: int,
        check: Callable[[], None] | None,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Sends these bytes, `size` in all."""
        sent = self._send_some(pieces[:_MAX_PIECES], descriptors)
        if sent == size:
            return
        rest = deque(memoryview(piece).cast("B") for piece in pieces)
        is_first = True
        while True:
            if sent:
                descriptors = ()
            while rest and sent >= len(rest[0]):
                sent -= len(rest.popleft())
            if not rest:
                return
            if sent:
                rest[0] = rest[0][sent:]
            sent = self._send_some([*rest][:_MAX_PIECES], descriptors)
            if not sent:
                self._await_room(check, is_first)
                is_first = False

    def _await_room(self, check: Callable[[], None] | None, is_first: bool) -> None:
        """Waits until the socket accepts data, or for a while.

        Raises:
            OpError: Raised by `check`, or the channel was closed.
        """
        if is_first:
            self._on_blocked()
        waiting = select.poll()
        waiting.register(self._fd, select.POLLOUT)
        waiting.poll(_BLOCKED_MS)
        if self.closed is not None:
            raise self.closed
        if check is not None:
            check()

    # ------------------------------------------------------------------------------ reading

    def wait(self, timeout_ms: float | None, wake: int = -1) -> None:
        """Returns when something can be read, `wake` is readable, or the time has passed."""
        if self.is_encrypted:
            with self._secured:
                if self._socket.pending():
                    return
        poll = self._polls.get(wake)
        if poll is None:
            poll = self._polls[wake] = select.poll()
            poll.register(self._fd, select.POLLIN)
            if wake >= 0:
                poll.register(wake, select.POLLIN)
        if timeout_ms is None:
            while not poll.poll(_SIGNALS_MS):
                pass
        else:
            poll.poll(timeout_ms)

    def read(self, buffer: Buffer, handle: Handle) -> None:
        """Handles the frames that have arrived; returns when there are no more.

        Raises:
            UnavailableError: The other end is gone, or sends something that is not a frame.
            DataLossError: A frame was changed in transit; the channel is closed.
            OpError: Raised by `handle`; the channel is closed.
        """
        self._require_open()
        try:
            while self._read_once(buffer, handle):
                continue
        except OSError as error:
            self.close(UnavailableError(message=f"The channel to {self._name()} broke: {error}"))
            self._require_open()
        except OpError as error:
            if isinstance(error, DataLossError):
                _log.warning("%s", error.message)
            self.close(error)
            raise
        except BaseException as error:
            self._give_up(error)
            raise

    def _read_once(self, buffer: Buffer, handle: Handle) -> bool:
        """Reads once; returns whether it is worth reading again at once."""
        if self._body is not None:
            header, head, body, filled = self._body
            count = self._receive_body(header, body, filled)
            if count == 0:
                return False
            return not self._fill(handle, header, head, body, filled + count)
        if self._start == self._end:
            self._start = self._end = 0
        count = self._receive(self._view[self._end :], staging=True)
        if count == 0:
            return False
        self._end += count
        while self._next_frame(buffer, handle):
            continue
        is_partial = self._body is not None
        return is_partial or self._end == len(self._staging) or self.is_encrypted

    def _next_frame(self, buffer: Buffer, handle: Handle) -> bool:
        """Handles one frame of the staging area; returns False if it is incomplete."""
        there, begin = self._end - self._start, self._start + self._header_bytes
        if there < self._header_bytes:
            self._make_room(self._header_bytes)
            return False
        seals = self._unsealing
        if seals is not None:
            total = seals.check_header(bytes(self._view[self._start : begin]), self._name())
        header = frames.unpack(self._staging, self._start)
        size = header.head_bytes
        sum_bytes = self._sum_bytes if size or header.body_bytes else 0
        needed = self._header_bytes + size + (0 if header.body_bytes else sum_bytes)
        if there < needed:
            self._make_room(needed)
            return False
        head = bytes(self._view[begin : begin + size])
        self._start = begin + size
        if header.body_bytes == 0:
            if seals is not None:
                self._start += sum_bytes
                wanted = self._view[self._start - sum_bytes : self._start] if sum_bytes else None
                seals.end(crc32c(head, total), wanted, self._name())
            handle(header, head, None)
            return True
        whole = header.body_bytes + sum_bytes
        body = buffer(header, whole)
        filled = min(whole, self._end - self._start)
        if filled:
            body.data[:filled] = self._view[self._start : self._start + filled]
            self._start += filled
        if seals is not None:
            self._total = crc32c(body[: min(filled, header.body_bytes)], crc32c(head, total))
        return self._fill(handle, header, head, body, filled)

    def _fill(
        self,
        handle: Handle,
        header: Header,
        head: bytes,
        body: np.ndarray[Any, Any],
        filled: int,
    ) -> bool:
        """Records how much of a body and its sum has arrived; True if all has, and was handled."""
        if filled < len(body):
            self._body = (header, head, body, filled)
            return False
        self._body = None
        if self._unsealing is not None:
            wanted = body[header.body_bytes :].tobytes()
            self._unsealing.end(self._total, wanted, self._name())
            body = body[: header.body_bytes]
        handle(header, head, body)
        return True

    def _make_room(self, needed: int) -> None:
        """Makes room for `needed` bytes from `_start` on."""
        there = self._end - self._start
        if self._start and (self._start + needed > len(self._staging)):
            self._view[:there] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, there
        if needed > len(self._staging):
            larger = bytearray(needed)
            larger[:there] = self._view[self._start : self._end]
            self._staging, self._view = larger, memoryview(larger)
            self._start, self._end = 0, there

    def _receive_body(self, header: Header, body: np.ndarray[Any, Any], filled: int) -> int:
        """As `_receive`, for a body and its sum."""
        size = header.body_bytes
        if self._unsealing is None:
            return self._receive(body.data[filled:])
        count = 0
        if size >= _LARGE_BYTES and sealed_pieces.available():
            if self._receiving is None:
                self._receiving = np.zeros(len(Receiving), np.int64)
            record = self._receiving
            record[:] = (self._fd, size, filled, self._total, 0)
            sealed_pieces.receiver()(body, record)
            self._total = int(record[Receiving.SUM])
            count = int(record[Receiving.FILLED]) - filled
        if count == 0:  # or the reason why not
            count = self._receive(body.data[filled:])
            self._total = crc32c(body[filled : min(filled + count, size)], self._total)
        return count

    def _receive(self, target: memoryview, staging: bool = False) -> int:
        """Returns the number of bytes read; 0 when there are none at present.

        Raises:
            OSError: The connection is broken, or was closed by the other end.
        """
        try:
            if self.is_encrypted:
                with self._secured:
                    count = self._socket.recv_into(target)
            elif staging and self._unix:
                count, ancillary, _, _ = self._socket.recvmsg_into(
                    [target], socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
                )
                for level, kind, data in ancillary:
                    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                        self._descriptors.extend(np.frombuffer(data, np.intc).tolist())
                if len(self._descriptors) > _MAX_DESCRIPTORS:
                    raise ConnectionAbortedError("too many descriptors")
            else:
                count = self._socket.recv_into(target)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        if count == 0:
            raise ConnectionResetError("closed by the other end")
        return int(count)

    def take_descriptor(self) -> int | None:
        """Returns the next descriptor that was received; the caller closes it."""
        return self._descriptors.popleft() if self._descriptors else None

    # ------------------------------------------------------------------------------ the end

    def close(self, error: OpError | None = None) -> None:
        """Closes the socket; may be called again, from any thread."""
        if self.closed is None:
            reason = error or UnavailableError(message=f"The channel to {self._name()} is closed")
            if isinstance(reason, DataLossError):  # an error of the channel, not of a request on it
                reason = UnavailableError(message=reason.message)
            self.closed = from_status(*to_status(reason))  # without its traceback
        with contextlib.suppress(OSError):
            # The descriptor stays open: a thread may poll it, see `release`.
            if isinstance(self._socket, ssl.SSLSocket):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # that of TLS would wait
            else:
                self._socket.shutdown(socket.SHUT_RDWR)

    def _give_up(self, error: BaseException) -> None:
        """Closes after an interruption, such as Ctrl-C, that may have cut a frame off anywhere.

        Later bytes would be read as the rest of that frame.
        """
        kind = InternalError if isinstance(error, Exception) else UnavailableError
        self.close(kind(message=f"A channel failed in the midst of a frame: {error!r}"))

    def leave(self) -> None:
        """Releases the channel in a forked child: it belongs to the parent.

        Both would send records with the same keys and numbers, and interleave frames; and a
        shutdown in the child would affect the parent, too. Locks that other threads held stay
        locked.
        """
        self.reading, self._writing, self._secured = (threading.Lock() for _ in range(3))
        self.closed = UnavailableError(message=f"The channel to {self._name()} is the parent's")
        self._close_descriptors()

    def release(self) -> None:
        """Closes, and releases the descriptor as soon as no thread uses it.

        Call it once the channel can no longer be found by its descriptor.
        """
        self.close()
        self._released = True
        self._give_back()

    def stop_reading(self) -> None:
        """Lets another thread read; called by the thread that holds `reading`."""
        self.reading.release()
        if self._released:
            self._give_back()

    def _give_back(self) -> None:
        # A thread that uses the descriptor holds one of the locks and comes here later; check
        # again, as it may have come while this held the other lock.
        is_done = False
        while not is_done and self.reading.acquire(blocking=False):
            is_done = self._writing.acquire(blocking=False)
            if is_done:
                self._close_descriptors()
                self._writing.release()
            self.reading.release()
            is_done = is_done or self._writing.locked()

    def _close_descriptors(self) -> None:
        if _SOCKETS.get(self._fd) is self._socket:
            del _SOCKETS[self._fd]  # and with it the buffers of records
        self._socket.close()
        while self._descriptors:
            with contextlib.suppress(OSError):
                os.close(self._descriptors.popleft())

    def _require_open(self) -> None:
        if self.closed is not None:
            raise UnavailableError(message=self.closed.message)

    def _name(self) -> str:
        return f"Task {self.task}" if self.task else "A client"


_WIRES: Final[weakref.WeakSet[Wire]] = weakref.WeakSet()


def _leave_all() -> None:
    for wire in list(_WIRES):
        wire.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)
