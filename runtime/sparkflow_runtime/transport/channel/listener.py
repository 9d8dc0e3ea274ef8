"""Accepts tensor channels: one thread runs the handshakes with all callers.

A caller that sends nothing, or one byte a minute, costs a descriptor and a few kilobytes (a few
tens with TLS) until its deadline, and delays no other.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import selectors
import socket
import ssl
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Final

from sparkflow_runtime.errors import FailedPreconditionError, OpError, UnavailableError
from sparkflow_runtime.security import Tls, require_credentials
from sparkflow_runtime.transport.channel import sockets
from sparkflow_runtime.transport.channel.address import (
    ChannelAddress,
    new_unix_name,
    own_host_id,
)
from sparkflow_runtime.transport.channel.caller import Caller
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.rpc import HANDSHAKE_TIMEOUT_S, allowed_descriptors

MAX_CALLERS: Final = 512
"""Maximum number of concurrent handshakes, or an eighth of the process's descriptors if that is
less; further callers wait in the kernel's queue."""
_LEAST_CALLERS: Final = 16
PATIENCE_S: Final = 0.5
"""When all places are taken, the oldest caller is disconnected after this many seconds, sooner if
many wait: a well-behaved one takes milliseconds. A caller that has not sent its HELLO is
disconnected at once, as well-behaved ones send it immediately."""
_BACKLOG: Final = 4096
_HURRIED_S: Final = 0.05
_WAITING: Final = struct.Struct("24xI")
"""Offset of `tcpi_unacked` in Linux's `tcp_info`: for a listening socket, the length of its
queue."""
_PAUSE_S: Final = 0.2
"""For how long no caller is admitted after the process ran out of descriptors or memory."""
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger(__name__)


class Listener:
    """Accepts channels for one task. `start` and `stop` may be called from any thread.

    If `tls` is given, the TCP port requires TLS. The unix socket admits processes of the same user
    and needs no TLS. Both admit only callers that know the token.

    `_lock` guards `_thread` and `_stopped`; everything else belongs to the thread while it runs.

    Args:
        task: The task that listens, `/job:ps/replica:0/task:0`.
        incarnation: A number that differs each time it starts.
        host: Address or name to listen on; "::" is IPv6 and IPv4.
        port: TCP port; 0 for a free one.
        advertised_host: The host under which others reach this one; `host` when not given.
        token: Secret that callers must prove they know; required unless `host` is loopback.
        insecure: Accept callers without a token even if `host` is not loopback.
        tls: The task's certificate and key, for TLS on the TCP port.
        on_opened: Called with each open channel in the listener's thread; must not block. Its
            errors are logged, and the channel is closed.

    Attributes:
        address: The address under which others reach this listener.

    Raises:
        PermissionDeniedError: `host` is not loopback and there is no token.
        UnavailableError: The port is not available.
    """

    def __init__(
        self,
        task: str,
        incarnation: int,
        *,
        host: str,
        port: int = 0,
        advertised_host: str | None = None,
        token: str | None,
        insecure: bool = False,
        tls: Tls | None = None,
        on_opened: Callable[[Opened], None],
    ) -> None:
        require_credentials(host, token, insecure)
        self._self = Self(task, incarnation, token)
        self._on_opened = on_opened
        self._context: ssl.SSLContext | None = tls.server_context() if tls is not None else None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._callers: dict[Caller, None] = {}  # in order of arrival
        # Those that have not sent their HELLO, and the others with the time at which they did.
        self._silent: dict[Caller, None] = {}
        self._introduced: dict[Caller, float] = {}
        self._most = min(MAX_CALLERS, max(_LEAST_CALLERS, allowed_descriptors() // 8))
        self._closed_until: float | None = None
        self._full = False  # whether it does not accept until a place is free, as all are taken
        with contextlib.ExitStack() as undo:
            self._doors = [undo.enter_context(_listen_tcp(host.strip("[]"), port))]
            unix_name = new_unix_name()
            try:
                if unix_name:
                    self._doors.append(undo.enter_context(_listen_unix(unix_name)))
            except OSError as error:  # a sandbox may allow TCP only
                _log.info("No unix socket: %s", error)
                unix_name = ""
            self.address = ChannelAddress(
                (advertised_host or host).strip("[]"),
                self._doors[0].getsockname()[1],
                unix_name,
                own_host_id(),
            )
            self._selector = undo.enter_context(selectors.DefaultSelector())
            self._wake, self._woken = map(undo.enter_context, socket.socketpair())
            self._selector.register(self._woken, selectors.EVENT_READ)
            self._open_doors()
            # A server that nobody stops is collected, and its sockets with it, without a warning.
            weakref.finalize(self, _close, [*self._doors, self._wake, self._woken])
            undo.pop_all()

    def start(self) -> None:
        """Begins to accept; does nothing if it does already.

        Raises:
            FailedPreconditionError: It was stopped.
        """
        with self._lock:
            if self._stopped:
                raise FailedPreconditionError(message="A stopped listener cannot start again")
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="channel-listener", daemon=True)
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        """Stops accepting and disconnects callers without an open channel; returns when done.

        May be called again, also from `on_opened`. Do not hold a lock that `on_opened` needs.
        """
        with self._lock:
            thread = self._thread
            if not self._stopped and thread is None:
                self._clear_up()
            elif not self._stopped:
                # Nobody reads this byte: every `select` sees it, also before the next line. After
                # that line the thread may end at any time and close the socket.
                self._wake.send(b"\0")
            self._stopped = True
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        try:
            while not self._stopped:
                ready = self._selector.select(self._patience())
                for key, _ in ready:
                    if isinstance(key.data, Caller):
                        self._advance(key.data)
                for key, _ in ready:  # after the current callers, which may have left
                    if key.fileobj in self._doors and isinstance(key.fileobj, socket.socket):
                        self._let_in(key.fileobj)
                self._cut_off()
        finally:
            self._clear_up()

    def _patience(self) -> float | None:
        """Returns the seconds until something must be done even if no socket is ready."""
        times = [next(iter(self._callers)).deadline] if self._callers else []
        if self._closed_until is not None:
            times.append(self._closed_until)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _let_in(self, door: socket.socket) -> None:
        while self._closed_until is None:
            now = time.monotonic()
            if len(self._callers) >= self._most and not (
                _is_readable(door) and self._make_room(door, now)
            ):
                return
            try:
                link, place = door.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    _log.warning("No caller is admitted for a while: %s", error)
                    self._close_doors(now + _PAUSE_S)
                return  # Otherwise the caller has disconnected; others are accepted next time.
            name = f"the caller at {place[0]}:{place[1]}" if place else "a caller on this host"
            caller = Caller(link, self._self, self._context, name, now + HANDSHAKE_TIMEOUT_S)
            self._callers[caller] = self._silent[caller] = None
            self._selector.register(caller, selectors.EVENT_READ, caller)
            self._advance(caller)

    def _make_room(self, door: socket.socket, now: float) -> bool:
        """Disconnects a slow caller; if none is, stops accepting for a while and returns False."""
        while self._introduced and not self._silent:
            first, since = next(iter(self._introduced.items()))
            patience = PATIENCE_S * self._most / (self._most + _waiting(door))
            if (until := since + max(patience, _HURRIED_S)) > now:
                self._full = True
                self._close_doors(until)
                return False
            if not _is_readable(first):
                break
            # It has answered, and waits for us.
            del self._introduced[first]
            self._introduced[first] = now
            self._advance(first)
            if len(self._callers) < self._most:
                return True
        self._forget(next(iter(self._silent or self._callers))).close()
        return True

    def _advance(self, caller: Caller) -> None:
        if caller not in self._callers:
            return  # disconnected since `select` returned
        try:
            state = caller.advance()
        except (OpError, OSError) as error:
            _log.info("No channel to %s: %s", caller.name, error)
            self._forget(caller).close()
            return
        except Exception:  # A caller must not end the thread, whatever it sends.
            _log.exception("No channel to %s", caller.name)
            self._forget(caller).close()
            return
        if caller.has_begun and caller in self._silent:
            del self._silent[caller]
            self._introduced[caller] = time.monotonic()
        if isinstance(state, int):
            self._selector.modify(caller, state, caller)
            return
        self._forget(caller)
        try:
            self._on_opened(state)
        except Exception:
            _log.exception("The channel to %s could not be served", state.task or "a client")
            state.socket.close()

    def _cut_off(self) -> None:
        now = time.monotonic()
        while self._callers and (oldest := next(iter(self._callers))).deadline <= now:
            self._forget(oldest).close()
        has_room = self._full and len(self._callers) < self._most
        if self._closed_until is not None and (has_room or self._closed_until <= now):
            self._open_doors()

    def _forget(self, caller: Caller) -> Caller:
        del self._callers[caller]
        self._silent.pop(caller, None)
        self._introduced.pop(caller, None)
        self._selector.unregister(caller)
        return caller

    def _open_doors(self) -> None:
        self._closed_until = None
        self._full = False
        for door in self._doors:
            self._selector.register(door, selectors.EVENT_READ)

    def _close_doors(self, until: float) -> None:
        """Admits no caller for a while; new ones wait in the kernel's queue."""
        self._closed_until = until
        for door in self._doors:
            self._selector.unregister(door)

    def _clear_up(self) -> None:
        for caller in list(self._callers):
            self._forget(caller).close()
        self._selector.close()
        for each in (*self._doors, self._wake, self._woken):
            each.close()


def _is_readable(link: socket.socket | Caller) -> bool:
    """Whether something can be read, or a caller is waiting, now."""
    with sockets.Selector() as selector:  # `select.select` supports no descriptor above 1023
        selector.register(link, selectors.EVENT_READ)
        return bool(selector.select(0))


def _waiting(door: socket.socket) -> int:
    """Returns the number of callers in the kernel's queue, if the kernel reports it."""
    if sys.platform != "linux" or door.family == socket.AF_UNIX:
        return 0
    said = door.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _WAITING.size)
    found: int = _WAITING.unpack(said)[0]
    return found


def _close(links: Iterable[socket.socket]) -> None:
    for link in links:
        link.close()


def _listen_tcp(host: str, port: int) -> socket.socket:
    try:
        if not 0 <= port < 1 << 16:  # the system would use the last 16 bits of a larger number
            raise ValueError("ports are from 0 to 65535")
        family, kind, protocol, _, place = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        door = socket.socket(family, kind, protocol)
        try:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
            door.bind(place)
            door.listen(_BACKLOG)
            door.setblocking(False)
        except BaseException:
            door.close()
            raise
    except (OSError, ValueError) as error:  # ValueError: not a host name
        raise UnavailableError(
            message=f"Cannot listen for tensor channels on {host!r}, port {port}: {error}. "
            "Is the port in use? Port 0 takes a free one"
        ) from error
    return door


def _listen_unix(name: str) -> socket.socket:
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        door.bind("\0" + name)
        door.listen(_BACKLOG)
        door.setblocking(False)
    except BaseException:
        door.close()
        raise
    return door
