"""Both ends of a tensor channel in this process, and a task that answers at one end."""

import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import AbortedError, NotFoundError, OpError
from sparkflow_runtime.transport.channel.asking import Asker
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.channel.reactor import Reactor
from sparkflow_runtime.transport.channel.serving import Answer, Serving, Sink
from sparkflow_runtime.transport.waking import Waker

WAIT_S = 20
T = TypeVar("T")
PS = "/job:ps/replica:0/task:0"


class Task:
    """A task that echoes calls and lets a test send bundles."""

    def __init__(self) -> None:
        self.sinks: dict[str, Sink] = {}
        self.gone: list[str] = []
        self.called: list[int] = []
        self.abandoned: list[int] = []
        self.finished: list[int] = []
        self.changed = threading.Condition()
        self.barrier = threading.Barrier(2)
        self.later: list[Answer] = []
        self.answer: Callable[[Sequence[Any]], Sequence[Any]] = lambda args: [2 * a for a in args]

    def sink(self, key: str) -> Sink:
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.sinks, WAIT_S)
            return self.sinks[key]

    def until(self, told: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(told, WAIT_S)

    def subscribe(self, step_id: int, key: str, sink: Sink) -> None:
        if key == "refused":
            raise AbortedError(message="that step is over")
        with self.changed:
            self.sinks[key] = sink
            self.changed.notify_all()

    def unsubscribe(self, step_id: int, key: str, sink: Sink, broke: OpError | None) -> None:
        self._note(self.gone, f"{key} {broke is not None}")

    def call(
        self, step_id: int, text: bytes, args: Sequence[Any], later: Answer
    ) -> Sequence[Any] | None:
        self._note(self.called, step_id)
        if text == b"fail":
            raise NotFoundError(message="no such thing")
        if text == b"meet":
            self.barrier.wait(WAIT_S)
        if text == b"later":
            self._note(self.later, later)
            return None
        return self.answer(args)

    def abandon(self, step_id: int) -> None:
        self._note(self.abandoned, step_id)

    def finish(self, step_id: int) -> None:
        self._note(self.finished, step_id)

    def _note(self, seen: list[T], what: T) -> None:
        with self.changed:
            seen.append(what)
            self.changed.notify_all()


class Channel:
    """Both ends in this process, with their own reactor."""

    def __init__(self, kind: str) -> None:
        if kind == "tcp":
            with socket.create_server(("127.0.0.1", 0)) as door:
                mine = socket.create_connection(door.getsockname())
                theirs, _ = door.accept()
        else:
            mine, theirs = socket.socketpair()
        seals = (1, 2) if kind == "tcp" else None
        self.task = Task()
        self.reactor = Reactor()
        self.arenas = [SharedArena() if kind == "shm" else None for _ in range(2)]
        self.closed = threading.Event()
        self.serving = Serving(
            Opened(theirs, PS, 1, seals),
            self.task,
            self.reactor,
            self.arenas[0],
            lambda _: self.closed.set(),
        )
        self.asker = Asker(Opened(mine, PS, 1, seals and seals[::-1]), self.reactor, self.arenas[1])

    def waker(self) -> Waker:
        return Waker.of_this_thread(lambda: None)

    def call(self, text: bytes, *args: Any, step_id: int = 1) -> list[Any]:
        return self.asker.result(self.asker.call(step_id, text, args), self.waker())

    def close(self) -> None:
        self.asker.close()
        self.serving.close()
        for arena in self.arenas:
            if arena is not None:
                arena.close()
