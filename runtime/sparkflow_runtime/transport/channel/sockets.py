"""Options of the channel's sockets, the same at both ends, and the size of single writes.

Buffers, measured over loopback in November 2026 in four runs on a busy machine, therefore in GB per
second of CPU time of the slower side:

                 the system's   256 KB     1 MB       4 MB
    TCP 100 MB   4.3–5.4        3.6–3.7    4.1–4.8    3.9–5.6
    TCP 1 MB     1.7–2.6        1.6–1.9    1.6–1.8    2.2–2.7
    unix 100 MB  6.5–7.2        6.4–7.5    7.0–7.7    6.8–7.9
    unix 1 MB    6.7–10.1       8.6–10.0   9.3–10.7   10.0–11.9

So TCP keeps the system's sizes, which adapt to the network: a fixed 256 KB would allow 0.5 GB/s
when a round trip takes 0.5 ms. Unix sockets, whose sizes do not adapt, get 1 MB; more helps little
and lets a peer that does not read hold more of the kernel's memory.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Any, Final

NOTICE_S: Final = 20
"""A peer that vanished without closing its socket is detected after about this many seconds."""
UNIX_BUFFER_BYTES: Final = 1 << 20
_JOINED_BYTES: Final = 1 << 16
"""Size of a write to TLS into which smaller pieces of a frame are joined: four records."""
Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""For polling a few sockets: needs no descriptor of its own, unlike the default selector."""
_CREDENTIALS: Final = struct.Struct("3i")


def prepare(sock: socket.socket) -> None:
    """Sets the options of a socket of the channel."""
    if sock.family == getattr(socket, "AF_UNIX", None):
        # The kernel doubles it, up to its own limit.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNIX_BUFFER_BYTES // 2)
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # While nothing is in flight: probes after 10, 15 and 20 s of silence.
    for name, value in (
        ("TCP_KEEPIDLE", NOTICE_S // 2),
        ("TCP_KEEPINTVL", NOTICE_S // 4),
        ("TCP_KEEPCNT", 2),
        # While something is: milliseconds that it may stay unacknowledged. This also closes
        # channels to a peer that does not read for that long, although its system still answers.
        ("TCP_USER_TIMEOUT", NOTICE_S * 1000),
    ):
        if hasattr(socket, name):  # Linux has them all
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_same_user(sock: socket.socket) -> bool:
    """Whether the process at the other end of a unix socket runs as our user.

    Called on Linux only, as no other system has abstract unix sockets.
    """
    if sys.platform != "linux":
        return False
    option = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(option)
    return bool(user == os.geteuid())


def joined(pieces: Sequence[Any]) -> Any:
    """Returns the next write to TLS, which accepts one buffer at a time.

    Each write becomes a record and a packet of its own, so small pieces are joined: otherwise 200
    variables took five times as long as without TLS. A write that is repeated because the socket
    was full has the same bytes, as OpenSSL requires.
    """
    if len(pieces) == 1 or memoryview(pieces[0]).nbytes >= _JOINED_BYTES:
        return pieces[0]
    taken, room = [], _JOINED_BYTES
    for piece in pieces:
        view = memoryview(piece).cast("B")[:room]
        taken.append(view)
        room -= len(view)
        if not room:
            break
    return b"".join(taken)
