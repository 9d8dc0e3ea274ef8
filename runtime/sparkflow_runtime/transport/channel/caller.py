"""One caller of a listener, between its arrival and its open channel. Never blocks."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
from collections.abc import Generator
from typing import Final

from sparkflow_runtime.errors import FailedPreconditionError, OpError, PermissionDeniedError
from sparkflow_runtime.transport.channel import handshake, records, sockets
from sparkflow_runtime.transport.channel.handshake import Agreed, Opened, Peer, Self

_DRAIN_BYTES: Final = 1 << 16


class Caller:
    """Speaks the listener's words with one caller, as far as its socket lets it.

    Args:
        link: The accepted socket.
        me: Who listens.
        context: For TLS; None without.
        name: How errors name the caller.
        deadline: On the monotonic clock: when it is cut off.

    Attributes:
        name: As given.
        deadline: As given; the listener looks after it.
        has_begun: Whether it has said all that it need not wait for: TLS's first word, or the
            preamble and the hello.
    """

    def __init__(
        self,
        link: socket.socket,
        me: Self,
        context: ssl.SSLContext | None,
        name: str,
        deadline: float,
    ) -> None:
        link.setblocking(False)
        self.deadline = deadline
        self._link: socket.socket | ssl.SSLSocket = link
        self._me = me
        self._context = context
        self.name = name
        self.has_begun = False
        self._steps = self._open()

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._link.fileno()

    def advance(self) -> Opened | int:
        """Goes on as far as possible; the open channel, or the selector's event to wait for.

        Raises:
            OpError: The caller is refused, and was told so if it speaks the protocol.
            OSError: The caller is gone, or TLS with it fails.
        """
        try:
            return next(self._steps)
        except StopIteration as end:
            opened: Opened = end.value
            return opened

    def close(self) -> None:
        """Closes the socket, so that what was said last still arrives."""
        self._steps.close()
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_WR)
            # Closing a socket with unread data sends a reset, which may overtake the refusal.
            self._link.recv(_DRAIN_BYTES)
        self._link.close()

    def _open(self) -> Generator[int, None, Opened]:
        """Yields the event to wait for."""
        unix = self._link.family == getattr(socket, "AF_UNIX", None)
        if unix and not sockets.is_same_user(self._link):
            error = PermissionDeniedError(message="The unix socket is for processes of one user")
            yield from self._refuse(error)
        sockets.prepare(self._link)
        if self._context is not None and not unix:
            yield from self._encrypt(self._context)
        encrypted = isinstance(self._link, ssl.SSLSocket)
        agreed = yield from self._converse(encrypted and records.available())
        self._link.setblocking(True)
        peer = Peer(agreed.task, agreed.incarnation, "unix" if unix else "tcp", encrypted)
        if agreed.keys is not None:
            return Opened(records.instead_of(self._link, agreed.keys, peer.task), peer)
        return Opened(self._link, peer, None if unix or encrypted else agreed.seals)

    def _encrypt(self, context: ssl.SSLContext) -> Generator[int, None, None]:
        first = yield from self._receive(1, socket.MSG_PEEK)
        self.has_begun = True
        if handshake.MAGIC.startswith(first):
            error = FailedPreconditionError(
                message="This task speaks TLS: give all tasks and sessions tls=..."
            )
            yield from self._refuse(error)
        secure = context.wrap_socket(self._link, server_side=True, do_handshake_on_connect=False)
        self._link = secure
        while True:
            try:
                secure.do_handshake()
                return
            except ssl.SSLWantReadError:
                yield selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                yield selectors.EVENT_WRITE

    def _converse(self, may_record: bool) -> Generator[int, None, Agreed]:
        words = handshake.listener(self._me, may_record)
        heard = b""
        answered = False
        while True:
            try:
                wish = words.send(heard) if heard else next(words)
            except StopIteration as end:
                agreed: Agreed = end.value
                return agreed
            heard = b""
            if isinstance(wish, bytes):
                self.has_begun |= answered  # the preamble was, and this is about the hello
                answered = True
                yield from self._send(wish)
            else:
                heard = yield from self._receive(wish)

    def _refuse(self, error: OpError) -> Generator[int, None, None]:
        yield from self._send(handshake.preamble() + handshake.refusal(error))
        raise error

    def _receive(self, size: int, flags: int = 0) -> Generator[int, None, bytes]:
        heard = b""
        while len(heard) < size:
            try:
                piece = self._link.recv(size - len(heard), flags)
            except (BlockingIOError, ssl.SSLWantReadError):
                yield selectors.EVENT_READ
                continue
            except ssl.SSLWantWriteError:
                yield selectors.EVENT_WRITE
                continue
            if not piece:
                raise ConnectionResetError(f"{self.name} went away while its channel was opened")
            heard += piece
        return heard

    def _send(self, words: bytes) -> Generator[int, None, None]:
        while words:
            try:
                words = words[self._link.send(words) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                yield selectors.EVENT_WRITE
            except ssl.SSLWantReadError:
                yield selectors.EVENT_READ
