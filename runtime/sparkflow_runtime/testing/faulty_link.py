"""A TCP connection between tasks that misbehaves when told to.

A `FaultyLink` listens where a task is said to be and passes on what comes to where it is. It passes
things on late or not at all (as when a cable is pulled: nothing is closed), cuts connections now or
after so many bytes, and refuses new ones. What TCP itself prevents (bytes changed, lost, doubled or
in another order) happens only where it is told to spoil a piece, or to disturb what passes.

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
"""What becomes of a piece: the bytes to pass on in its place, or None where the connection ends."""


class FaultyLink:
    """Passes connections on to `target`. Safe to use from several threads; `close` ends it.

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
        """What went to the task so far."""
        with self._changed:
            return self._passed_bytes

    def delay(self, seconds: float) -> None:
        """Passes each piece on so much later, both ways."""
        with self._changed:
            self._delay_s = seconds

    def hold(self) -> None:
        """Passes nothing on any more and closes nothing: both ends wait."""
        with self._changed:
            self._held = True

    def cut(self) -> None:
        """Closes all connections; new ones are let through."""
        with self._changed:
            doomed = list(self._sockets)
        for each in doomed:
            _shut(each)

    def cut_after(self, num_bytes: int) -> None:
        """Closes all connections when so many more bytes have come for the task, and not before."""
        with self._changed:
            self._cut_at_bytes = self._passed_bytes + num_bytes

    def spoil(self, change: Callable[[bytes], bytes], spared: int = 0) -> None:
        """Passes on what `change` makes of one piece, whichever way it goes.

        Args:
            change: Gives the bytes in place of those of the piece.
            spared: So many pieces pass as they are before it.
        """
        with self._changed:
            self._spoil, self._spared = change, spared

    def disturb(self, disturbance: Callable[[], Disturbance]) -> None:
        """Has each direction of each new connection pass on what a disturbance of its own makes.

        Args:
            disturbance: Makes one. It may block, which holds this direction up alone.
        """
        with self._changed:
            self._disturbance = disturbance

    @property
    def spoils(self) -> bool:
        """Whether the piece to spoil has not come yet."""
        with self._changed:
            return self._spoil is not None

    def refuse(self) -> None:
        """Closes all connections, and new ones as soon as they come."""
        with self._changed:
            self._refused = True
        self.cut()

    def restore(self) -> None:
        """Behaves well again; what was held is passed on.

        Connections that are being disturbed are so to their end.
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
            for each in (client, server):  # else a piece may wait for the receipt of the one before
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
