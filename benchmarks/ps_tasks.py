"""The other tasks of a competitor of `parameter_servers.py`: processes controlled through pipes.

The competitor's own process is worker 0. Each other process runs a function that answers requests
one by one until it is told to end or worker 0 is gone.
"""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from typing import Any

_context = multiprocessing.get_context("spawn")

Answer = Callable[[Any], Any]


class Task:
    """Another task's process.

    Args:
        start: Creates, in that process, the function that answers requests.
        arguments: The arguments of `start`.
    """

    def __init__(self, start: Callable[..., Answer], *arguments: Any) -> None:
        self._pipe, theirs = _context.Pipe()
        self._process = _context.Process(
            target=_serve, args=(theirs, start, arguments), daemon=True
        )
        self._process.start()
        theirs.close()

    def begin(self, request: Any) -> None:
        """Sends a request; `finish` returns its answer."""
        self._pipe.send(request)

    def finish(self) -> Any:
        """Returns the answer to the oldest pending request."""
        return self._pipe.recv()

    def ask(self, request: Any) -> Any:
        """Sends a request and returns its answer."""
        self.begin(request)
        return self.finish()

    def end(self) -> None:
        """Ends the process."""
        self._pipe.close()
        self._process.join(5)
        self._process.kill()


def free_ports(count: int) -> list[int]:
    """Returns ports that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]


def together(tasks: Sequence[Task], request: Any, own: Callable[[], Any]) -> None:
    """Makes tasks work while this process does its own part; returns when all have finished."""
    for task in tasks:
        task.begin(request)
    own()
    for task in tasks:
        task.finish()


def _serve(pipe: Connection, start: Callable[..., Answer], arguments: Sequence[Any]) -> None:
    answer = start(*arguments)
    with suppress(EOFError):
        while True:
            pipe.send(answer(pipe.recv()))
