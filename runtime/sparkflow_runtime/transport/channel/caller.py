"""A peer that is being admitted: from its connection to its open channel. Never blocks."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Generator
from typing import Final

from sparkflow_runtime.errors import FailedPreconditionError, OpError, PermissionDeniedError
from sparkflow_runtime.transport.channel import handshake, opening, records, sockets
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.channel.opening import Opened

_DRAIN_BYTES: Final = 1 << 16


class Caller:
    """Runs the listener's side of the handshake with one caller, as far as its socket allows.

    Args:
        link: The accepted socket.
        me: The listening task.
        context: For TLS; None without.
        name: The caller's name in errors.
        deadline: When it is disconnected, on the monotonic clock.

    Attributes:
        name: As given.
        deadline: As given; enforced by the listener.
        has_begun: Whether it has sent all that it can without waiting: TLS's ClientHello, or the
            preamble and the HELLO.
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
        self._has_answered = False
        self._steps = self._open()

    def fileno(self) -> int:
        """Returns the socket's descriptor."""
        return self._link.fileno()

    def advance(self) -> Opened | int:
        """Continues as far as possible; returns the open channel, or the event to wait for.

        Raises:
            OpError: The caller is refused, and was sent the reason if it speaks the protocol.
            OSError: The caller is gone, or TLS fails.
        """
        try:
            return next(self._steps)
        except StopIteration as end:
            opened: Opened = end.value
            return opened

    def close(self) -> None:
        """Closes the socket such that the last message still arrives."""
        self._steps.close()
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_WR)
            # Closing a socket with unread data sends a reset, which may overtake the refusal.
            self._link.recv(_DRAIN_BYTES)
        self._link.close()

    def _open(self) -> Generator[int, None, Opened]:
        """Yields the event to wait for."""
        if opening.is_unix(self._link):
            if not sockets.is_same_user(self._link):
                error = PermissionDeniedError(
                    message="This unix socket accepts only processes of its own user"
                )
                yield from self._refuse(error)
            self._context = None
        sockets.prepare(self._link)
        if self._context is not None:
            yield from self._encrypt(self._context)
        words = handshake.listener(self._me, self._context is not None and records.available())
        return (yield from opening.open_channel(self._link, words, self._note_answer))

    def _encrypt(self, context: ssl.SSLContext) -> Generator[int, None, None]:
        first = yield from opening.receive(self._link, 1, socket.MSG_PEEK)
        self.has_begun = True
        if handshake.MAGIC.startswith(first):
            error = FailedPreconditionError(
                message="This task requires TLS: pass tls=... to all tasks and sessions"
            )
            yield from self._refuse(error)
        self._link = context.wrap_socket(
            self._link, server_side=True, do_handshake_on_connect=False
        )

    def _note_answer(self) -> None:
        self.has_begun |= self._has_answered  # the preamble was, and this is about the hello
        self._has_answered = True

    def _refuse(self, error: OpError) -> Generator[int, None, None]:
        yield from opening.send(self._link, handshake.preamble() + handshake.refusal(error))
        raise error
