"""Closes unauthenticated connections to gRPC ports.

gRPC keeps existing connections and closes new ones when all its places are taken, so idle
unauthenticated clients would keep out tasks and sessions. It cannot choose which to close; so this
module inspects the sockets of the process, and shuts down the oldest that have made no call.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

PATIENCE_S: Final = 0.5
"""Minimum lifetime of a connection: peers call within milliseconds."""
HURRIED_S: Final = 0.05
"""The same if unauthenticated connections have taken half of the places again."""
_CALM_S: Final = 0.2
_PRESSED_S: Final = 0.05
_MOST: Final = 512
_MANY_NAMES: Final = 1024
_DESCRIPTORS: Final = "/proc/self/fd"


@dataclass(frozen=True, slots=True)
class _Connection:
    """A socket that was accepted.

    Attributes:
        descriptor: gRPC's file descriptor in this process.
        port: The local port.
        place: The remote end, `host:port`.
        since: When it was first seen, on the monotonic clock.
    """

    descriptor: int
    port: int
    place: str
    since: float


class Strangers:
    """Makes room on the gRPC ports of this process, in a thread while there are any.

    Does nothing on systems without `/proc`. Safe to use from several threads: `_lock` guards
    `_most` and `_thread`; `_admitted` has single operations only; all else is the thread's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._most: dict[int, int] = {}
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._admitted: set[str] = set()
        self._many = _MANY_NAMES  # size at which closed connections are removed from it
        # By inode, which is unique per socket; None for anything but such a connection.
        self._seen: dict[int, _Connection | None] = {}

    def admit(self, peer: str) -> None:
        """Records that a call of a peer was authenticated.

        Args:
            peer: gRPC's name of it, `ipv4:10.0.0.1:4711`.
        """
        self._admitted.add(peer)

    def watch(self, port: int, most: int) -> None:
        """Limits unauthenticated connections to a port to `most`, or 512."""
        with self._lock:
            self._most[port] = min(most, _MOST)
            # A forked child has none of its parent's threads.
            if os.path.isdir(_DESCRIPTORS) and not (self._thread and self._thread.is_alive()):
                self._ended = threading.Event()
                thread = threading.Thread(
                    target=self._work, args=(self._ended,), name="strangers", daemon=True
                )
                thread.start()
                self._thread = thread

    def forget(self, port: int) -> None:
        """Stops watching a port; does nothing if it is not watched."""
        with self._lock:
            self._most.pop(port, None)
            if not self._most:
                self._ended.set()
                self._thread = None

    def _work(self, ended: threading.Event) -> None:
        pause_s = _CALM_S
        while not ended.wait(pause_s):
            with self._lock:
                most = dict(self._most)
            try:
                pause_s = _PRESSED_S if self._look(most) else _CALM_S
            except OSError:  # No descriptor is left for the check: all the more it continues.
                pause_s = _PRESSED_S

    def _look(self, most: dict[int, int]) -> bool:
        """Closes connections if there are too many; returns whether there may be any."""
        if len(self._admitted) < self._many and _is_below(min(most.values(), default=0)):
            return False
        admitted = set(self._admitted)
        self._seen = dict(self._list(most))
        here = [each for each in self._seen.values() if each is not None]
        places = {each.place for each in here}
        gone = {peer for peer in admitted if _place(peer) not in places}
        self._admitted -= gone
        self._many = max(_MANY_NAMES, 2 * len(admitted - gone))
        known = {_place(peer) for peer in admitted - gone}
        pressed = False
        for port, count in most.items():
            unknown = [each for each in here if each.port == port and each.place not in known]
            unknown.sort(key=lambda each: each.since)
            pressed |= len(unknown) > count
            too_many = unknown[: max(0, len(unknown) - count)]
            patience_s = PATIENCE_S if len(unknown) < 1.5 * count else HURRIED_S
            before = time.monotonic() - patience_s
            for each in too_many:
                if each.since <= before:
                    _shut(each)
        return pressed

    def _list(self, ports: dict[int, int]) -> Iterator[tuple[int, _Connection | None]]:
        now = time.monotonic()
        for name in os.listdir(_DESCRIPTORS):
            descriptor = int(name)
            try:
                found = os.fstat(descriptor)
            except OSError:
                continue  # closed meanwhile
            if stat.S_ISSOCK(found.st_mode):
                seen = self._seen.get(found.st_ino)
                if found.st_ino not in self._seen:
                    seen = _look_at(descriptor, ports, now)
                yield found.st_ino, seen


def _is_below(count: int) -> bool:
    """Whether the process has at most `most` descriptors."""
    known = os.stat(_DESCRIPTORS).st_size  # Linux 6.2 and later say it here, others 0
    return (known or len(os.listdir(_DESCRIPTORS))) <= count


@contextmanager
def _own(descriptor: int) -> Iterator[socket.socket]:
    """Duplicates a socket's descriptor, as gRPC may close its own during the check.

    Raises:
        OSError: gRPC has closed it, or there are no descriptors left.
    """
    link = socket.socket(fileno=os.dup(descriptor))
    try:
        yield link
    finally:
        link.close()


def _look_at(descriptor: int, ports: dict[int, int], now: float) -> _Connection | None:
    """Returns a descriptor's connection; None if it is not to one of these ports.

    Raises:
        OSError: There are no descriptors left: continuing would treat peers as gone.
    """
    try:
        with _own(descriptor) as link:
            if link.family in (socket.AF_INET, socket.AF_INET6):
                port = link.getsockname()[1]
                if port in ports:
                    return _Connection(descriptor, port, _place_of(link), now)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
    return None


def _shut(connection: _Connection) -> None:
    """Shuts down a connection if its descriptor still refers to it."""
    with suppress(OSError), _own(connection.descriptor) as link:
        if link.getsockname()[1] == connection.port and _place_of(link) == connection.place:
            link.shutdown(socket.SHUT_RDWR)


def _place_of(link: socket.socket) -> str:
    """Returns the remote end, in the form of `_place`.

    Raises:
        OSError: There is none: the socket listens.
    """
    host, port = link.getpeername()[:2]
    return f"{host.removeprefix('::ffff:')}:{port}"


def _place(peer: str) -> str:
    """Returns host and port of gRPC's name of a peer: `ipv6:%5B::1%252%5D:4711` is `::1:4711`."""
    _, _, place = unquote(peer).partition(":")
    host, _, port = place.rpartition(":")
    host = host.strip("[]").partition("%")[0]  # the scope id, which sockets report separately
    return f"{host.removeprefix('::ffff:')}:{port}"


strangers: Final = Strangers()
"""Those of this process."""
