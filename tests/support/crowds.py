"""Thousands of strangers, from separate processes and addresses, who keep their connections.

Loopback has 2^24 addresses, each with its own ports. So only the number of descriptors limits the
crowd, and each of its processes raises its own limit.

    python crowds.py HOST PORT COUNT NUMBER SAID HOW
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

_PROCESSES: Final = 4
_AT_ONCE: Final = 200
_DEADLINE_S: Final = 60.0


@contextlib.contextmanager
def crowd(
    place: tuple[str, int], count: int, said: bytes = b"", comes_back: bool = False
) -> Iterator[None]:
    """Strangers who have connected, or tried to, for the duration of the block.

    Args:
        place: Host and port.
        count: The number of strangers.
        said: What each sends first.
        comes_back: Whether strangers reconnect immediately when they are disconnected.
    """
    with contextlib.ExitStack() as stack:
        processes = []
        for number in range(_PROCESSES):
            part = count // _PROCESSES + (number < count % _PROCESSES)
            command = [sys.executable, "-S", __file__, *map(str, (*place, part, number))]
            command += [said.hex() or "-", "back" if comes_back else "stay"]
            processes.append(
                stack.enter_context(
                    subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                )
            )
            stack.callback(processes[-1].kill)
        for each in processes:
            assert each.stdout is not None
            assert each.stdout.readline() == b"there\n"
        yield


def _connect(place: tuple[str, int], source: str) -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    with contextlib.suppress(OSError):
        made.bind((source, 0))
    with contextlib.suppress(BlockingIOError):
        made.connect(place)
    return made


def main() -> None:
    """Connects, reports it, and stays until standard input ends."""
    host, port, count, number, said_hex, how = sys.argv[1:]
    place, left = (host, int(port)), int(count)
    said = b"" if said_hex == "-" else bytes.fromhex(said_hex)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    connecting, held, is_told = 0, 0, False
    deadline = time.monotonic() + _DEADLINE_S
    turn = 0
    while True:
        while left and connecting < _AT_ONCE:
            turn += 1
            source = f"127.0.{int(number) + 1}.{1 + turn % 200}"
            link = _connect(place, source)
            selector.register(link, selectors.EVENT_WRITE)
            connecting, left = connecting + 1, left - 1
        if not is_told and ((not left and not connecting) or time.monotonic() > deadline):
            print("there", flush=True)
            is_told = True
        for key, _ in selector.select(0.2):
            if not isinstance(key.fileobj, socket.socket):
                if not os.read(0, 1):
                    return
                continue
            link = key.fileobj
            if key.events == selectors.EVENT_WRITE:
                connecting -= 1
                failed = link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                with contextlib.suppress(OSError):
                    if not failed:
                        link.send(said)
                        selector.modify(link, selectors.EVENT_READ)
                        held += 1
                        continue
                left += failed == errno.ETIMEDOUT
            else:
                with contextlib.suppress(OSError):
                    if link.recv(4096):
                        continue
                held -= 1
            selector.unregister(link)
            link.close()
            left += how == "back"


if __name__ == "__main__":
    main()
