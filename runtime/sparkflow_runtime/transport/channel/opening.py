"""Runs one side of the handshake over a socket and returns the open channel. Never blocks.

The listener serves many callers as their sockets become ready, the dialler one listener until its
deadline. So the functions here are generators, which yield the selector event to wait for.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
from collections.abc import Callable, Generator
from dataclasses import dataclass

from sparkflow_runtime.transport.channel import records
from sparkflow_runtime.transport.channel.handshake import Agreed, Dialogue
from sparkflow_runtime.transport.channel.records import Records


@dataclass(frozen=True, slots=True)
class Opened:
    """An open channel. Its socket blocks, and nothing was read beyond the handshake.

    Attributes:
        socket: A plain socket; or one of records or TLS, which one thread at a time may use.
        task: The task at the other end: `/job:ps/replica:0/task:0`; "" for a master without a task.
        incarnation: A number that differs each time that task starts.
        seals: The first numbers of the checksums of what we send and of what we receive, see
            `seals`; None without checksums: over unix sockets and within TLS.
        minor: The minor version of the protocol that the other end speaks.
    """

    socket: socket.socket | ssl.SSLSocket | Records
    task: str
    incarnation: int
    seals: tuple[int, int] | None = None
    minor: int = 0

    @property
    def transport(self) -> str:
        """Either `tcp` or `unix`."""
        return "unix" if is_unix(self.socket) else "tcp"

    @property
    def is_encrypted(self) -> bool:
        """Whether the channel uses TLS, or encrypted records in its place."""
        return isinstance(self.socket, ssl.SSLSocket | Records)


def is_unix(link: socket.socket | Records) -> bool:
    """Whether a socket is a unix socket."""
    return link.family == getattr(socket, "AF_UNIX", None)


def open_channel(
    link: socket.socket | ssl.SSLSocket, words: Dialogue, on_say: Callable[[], None] = lambda: None
) -> Generator[int, None, Opened]:
    """Completes TLS's handshake if the socket uses TLS, then runs the channel's handshake.

    Args:
        link: The connected socket.
        words: This side of the handshake's dialogue.
        on_say: Called before each message that it sends.

    Raises:
        OpError: Raised by `words`.
        OSError: The other side is gone, or TLS fails.
    """
    link.setblocking(False)
    if isinstance(link, ssl.SSLSocket):
        yield from _shake_hands(link)
    agreed = yield from _converse(link, words, on_say)
    link.setblocking(True)
    if agreed.keys is not None:
        made = records.instead_of(link, agreed.keys, agreed.task)
        return Opened(made, agreed.task, agreed.incarnation, minor=agreed.minor)
    is_safe = is_unix(link) or isinstance(link, ssl.SSLSocket)
    seals = None if is_safe else agreed.seals
    return Opened(link, agreed.task, agreed.incarnation, seals, agreed.minor)


def receive(
    link: socket.socket | ssl.SSLSocket, size: int, flags: int = 0
) -> Generator[int, None, bytes]:
    """Reads the next `size` bytes.

    Raises:
        OSError: The other side is gone.
    """
    heard = b""
    while len(heard) < size:
        try:
            piece = link.recv(size - len(heard), flags)
        except (BlockingIOError, ssl.SSLWantReadError):
            yield selectors.EVENT_READ
            continue
        except ssl.SSLWantWriteError:
            yield selectors.EVENT_WRITE
            continue
        if not piece:
            raise ConnectionResetError("it closed the connection while the channel was opening")
        heard += piece
    return heard


def send(link: socket.socket | ssl.SSLSocket, words: bytes) -> Generator[int, None, None]:
    """Sends all of it, or as much as the other side accepts: if it closes, its reason is read next.

    Raises:
        OSError: The other side is gone.
    """
    while words:
        try:
            words = words[link.send(words) :]
        except BrokenPipeError:
            return  # What it has said is read next.
        except (BlockingIOError, ssl.SSLWantWriteError):
            yield selectors.EVENT_WRITE
        except ssl.SSLWantReadError:
            yield selectors.EVENT_READ


def _shake_hands(link: ssl.SSLSocket) -> Generator[int, None, None]:
    while True:
        try:
            link.do_handshake()
            return
        except ssl.SSLWantReadError:
            yield selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            yield selectors.EVENT_WRITE


def _converse(
    link: socket.socket | ssl.SSLSocket, words: Dialogue, on_say: Callable[[], None]
) -> Generator[int, None, Agreed]:
    with contextlib.closing(words):
        try:
            wish = next(words)
            while True:
                heard = b""
                if isinstance(wish, bytes):
                    on_say()
                    yield from send(link, wish)
                else:
                    heard = yield from receive(link, wish)
                wish = words.send(heard)
        except StopIteration as end:
            agreed: Agreed = end.value
            return agreed
