"""A TCP proxy between tasks that misbehaves on request.

A `FaultyLink` listens at a task's advertised address and forwards to its real one. It can delay
data, drop it (as when a cable is pulled: nothing is closed), cut connections now or after a number
of bytes, and refuse new ones. What TCP itself prevents (bytes changed, lost, doubled or reordered)
happens only on request, by spoiling a piece or disturbing the traffic.

`LocalCluster(..., faulty=True)` puts one before each task.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final

_CHUNK_BYTES: Final = 1 << 16

Disturbance = Callable[[bytes], bytes | None]
"""Maps a piece to the bytes to forward in its place; None ends the connection."""


class FaultyLink:
    """Forwards connections to `target`. Safe to use from several threads; `close` ends it.

    `_changed` guards all fields.

    Args:
        target: `host:port` of the task.
        listens: `host:port` to listen on; a free port of loopback if "".

    Attributes:
        address: Where it listens, `host:port`.
    """

    def __init__(self, target: str, listens: str = "") -> None:
        host, _, port = target.rpartition(":")
        self._target = (host.strip("[]"), int(port))
        self._changed = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._delay_s = 0.0
        self._held = False
        self._refused = False
        self._closed = False
        self._passed_bytes = 0
        self._spoil: Callable[[bytes], bytes] | None = None
        self._spared = 0
        self._disturbance: Callable[[], Disturbance] | None = None
        self._cut_at_bytes: int | None = None
        here, _, free = (listens or "127.0.0.1:0").rpartition(":")
        self._listener = socket.create_server((here, int(free)))
        try:
            self.address = f"{here}:{self._listener.getsockname()[1]}"
            threading.Thread(target=self._accept, name="faulty-link", daemon=True).start()
        except BaseException:
            self._listener.close()
            raise

    @property
    def passed_bytes(self) -> int:
        """How many bytes went to the task so far."""
        with self._changed:
            return self._passed_bytes

    def delay(self, seconds: float) -> None:
        """Delays each piece by a time, both ways."""
        with self._changed:
            self._delay_s = seconds

    def hold(self) -> None:
        """Stops forwarding without closing anything: both ends wait."""
        with self._changed:
            self._held = True

    def cut(self) -> None:
        """Closes all connections; accepts new ones."""
        with self._changed:
            doomed = list(self._sockets)
        for each in doomed:
            _shut(each)

    def cut_after(self, num_bytes: int) -> None:
        """Closes all connections once a number of further bytes has arrived for the task."""
        with self._changed:
            self._cut_at_bytes = self._passed_bytes + num_bytes

    def spoil(self, change: Callable[[bytes], bytes], spared: int = 0) -> None:
        """Replaces one piece, in either direction, by the result of `change`.

        Args:
            change: Returns the bytes that replace the piece.
            spared: How many pieces pass unchanged before it.
        """
        with self._changed:
            self._spoil, self._spared = change, spared

    def disturb(self, disturbance: Callable[[], Disturbance]) -> None:
        """Applies a separate disturbance to each direction of each new connection.

        Args:
            disturbance: Creates one. It may block, which delays only this direction.
        """
        with self._changed:
            self._disturbance = disturbance

    @property
    def spoils(self) -> bool:
        """Whether the piece to spoil has not arrived yet."""
        with self._changed:
            return self._spoil is not None

    def refuse(self) -> None:
        """Closes all connections, and new ones as soon as they arrive."""
        with self._changed:
            self._refused = True
        self.cut()

    def restore(self) -> None:
        """Behaves normally again; forwards what was held back.

        Disturbed connections stay disturbed until they end.
        """
        with self._changed:
            self._delay_s = 0.0
            self._held = self._refused = False
            self._spoil = self._disturbance = None
            self._cut_at_bytes = None
            self._changed.notify_all()

    def close(self) -> None:
        """Stops listening and closes all connections; may be called again."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        _shut(self._listener)  # wakes `accept`
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # It was closed.
            try:
                server = socket.create_connection(self._target, timeout=5)
                server.settimeout(None)
            except OSError:
                client.close()
                continue
            with self._changed:
                wanted = not (self._refused or self._closed)
                if wanted:
                    self._sockets |= {client, server}
            if not wanted:
                client.close()
                server.close()
                continue
            # otherwise a piece may wait for the acknowledgement of the previous one
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            left = [2]
            for source, sink, counts in ((client, server, True), (server, client, False)):
                threading.Thread(
                    target=self._pass_on,
                    args=(source, sink, counts, left),
                    name="faulty-link",
                    daemon=True,
                ).start()

    def _pass_on(
        self, source: socket.socket, sink: socket.socket, counts: bool, left: list[int]
    ) -> None:
        """One direction; the second of a connection to end closes both sockets."""
        with self._changed:
            disturb = self._disturbance() if self._disturbance is not None else None
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                with self._changed:
                    if self._delay_s:
                        self._changed.wait_for(lambda: self._closed, self._delay_s)
                    self._changed.wait_for(lambda: not self._held or self._closed)
                    if counts:
                        data = data[: self._allowed(len(data))]
                        self._passed_bytes += len(data)
                    over = counts and self._passed_bytes == self._cut_at_bytes
                    if self._spoil is not None and self._spared == 0:
                        data, self._spoil = self._spoil(data), None
                    self._spared = max(0, self._spared - 1)
                passed = data if disturb is None else disturb(data)
                if passed is None:
                    break
                sink.sendall(passed)
                if over:
                    self.cut()
                    break
        for each in (source, sink):
            _shut(each)
        with self._changed:
            left[0] -= 1
            if left[0]:
                return
            self._sockets -= {source, sink}
        source.close()
        sink.close()

    def _allowed(self, size: int) -> int:
        if self._cut_at_bytes is None or self._passed_bytes > self._cut_at_bytes:
            return size
        return min(size, self._cut_at_bytes - self._passed_bytes)


def _shut(each: socket.socket) -> None:
    """Ends both directions, which wakes whoever waits; the descriptor stays."""
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
