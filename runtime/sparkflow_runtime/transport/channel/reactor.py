"""The threads that read channels nobody waits at: all serving ends, and asking ends left alone.

Threads take turns in `epoll`. Whoever is given a channel reads it and does what it asks for, a
whole step if need be, while another one goes on watching. So a call is run by the thread that read
it: none has to be woken for it.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

MAX_THREADS: Final = 1024
"""Calls block while what they need is not there yet, so threads bound the waiting calls."""
_MAX_IDLE: Final = 2
_ONE_EVENT: Final[int] = getattr(select, "EPOLLIN", 0) | getattr(select, "EPOLLONESHOT", 0)
_LEFT_ALONE_S: Final = 0.05
"""A channel with answers to come, at which nobody has waited for so long, is read for all."""


def available() -> bool:
    """Whether this system has what channels are read with: Linux does."""
    return hasattr(select, "epoll") and hasattr(os, "eventfd")


class Served(Protocol):
    """A serving end."""

    def fileno(self) -> int:
        """Its socket."""

    def serve(self) -> None:
        """Reads what is there and does it. Calls `Reactor.resume` before it does what may block."""


class Asking(Protocol):
    """An asking end."""

    @property
    def wire(self) -> Any:
        """Its socket."""

    @property
    def is_left_alone(self) -> bool:
        """Whether answers are to come, and nobody reads them."""

    def read_for_others(self) -> None:
        """Reads what is there, unless a thread is doing that."""


class _Watch:
    """An epoll and what wakes all who are in it; both live as long as somebody may be."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.epoll.register(self.wake, select.EPOLLIN)

    def end(self) -> None:
        """Has every thread return from the epoll, now and later."""
        os.eventfd_write(self.wake, 1)

    def __del__(self) -> None:
        """Closes both."""
        self.epoll.close()
        os.close(self.wake)


class Reactor:
    """Safe to use from several threads. It has threads only while it has channels.

    `_lock` guards all fields. Sockets are armed for one event each; whoever got it arms again.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forgets everything, also in a forked child, which has none of the threads.

        The epoll and what wakes are its parent's: an event that is taken here is missing there.
        """
        self._lock = threading.Lock()
        self._watch: _Watch | None = None
        self._served: dict[int, Served] = {}
        self._askers: dict[int, Asking] = {}
        self._watched: set[int] = set()
        self._threads = 0
        self._idle = 0
        self._janitor: threading.Thread | None = None
        self._janitor_wake = threading.Event()

    # ------------------------------------------------------------------------- serving ends

    def add(self, served: Served) -> None:
        """Has a serving end read from now on."""
        with self._lock:
            self._served[served.fileno()] = served
            self._open().epoll.register(served.fileno(), _ONE_EVENT)

    def resume(self, served: Served) -> None:
        """Lets another thread read a serving end while this one does something that may block."""
        with self._lock:
            if self._served.get(served.fileno()) is served:
                self._arm(served.fileno(), _ONE_EVENT)
                self._open()

    def remove(self, served: Served) -> None:
        """Forgets a serving end."""
        with self._lock:
            if self._served.get(served.fileno()) is served:
                del self._served[served.fileno()]
                self._forget(served.fileno())

    # -------------------------------------------------------------------------- asking ends

    def add_asker(self, asker: Asking) -> None:
        """Takes note of an asking end: it is read where answers are to come and nobody waits."""
        with self._lock:
            self._askers[asker.wire.fileno()] = asker
            self._open().epoll.register(asker.wire.fileno(), 0)
            if self._janitor is None:
                self._janitor_wake = threading.Event()
                self._janitor = threading.Thread(
                    target=self._look_after,
                    args=(self._janitor_wake,),
                    name="channel-janitor",
                    daemon=True,
                )
                self._janitor.start()

    def watch(self, asker: Asking) -> None:
        """Reads an asking end until a thread waits at it."""
        fd = asker.wire.fileno()
        with self._lock:
            if self._askers.get(fd) is asker and fd not in self._watched:
                self._watched.add(fd)
                self._arm(fd, _ONE_EVENT)

    def unwatch(self, asker: Asking) -> None:
        """A thread waits at this asking end and reads it itself."""
        fd = asker.wire.fileno()
        if fd in self._watched:
            with self._lock:
                if fd in self._watched:
                    self._watched.discard(fd)
                    self._arm(fd, 0)

    def read_all(self) -> None:
        """Reads every asking end: a thread is about to block, and others may block on it."""
        with self._lock:
            askers = list(self._askers.values())
        for asker in askers:
            if asker.is_left_alone:
                self.watch(asker)

    def remove_asker(self, asker: Asking) -> None:
        """Forgets an asking end."""
        fd = asker.wire.fileno()
        with self._lock:
            if self._askers.get(fd) is asker:
                del self._askers[fd]
                self._watched.discard(fd)
                self._forget(fd)

    # ------------------------------------------------------------------------------ threads

    def spawn(self, call: Callable[[], None]) -> None:
        """Runs something that may block in a thread of its own."""
        threading.Thread(target=call, name="channel-call", daemon=True).start()

    def _open(self) -> _Watch:
        if self._watch is None:
            self._watch = _Watch()
        if self._idle == 0 and self._threads < MAX_THREADS:
            self._threads += 1
            self._idle += 1
            args = (self._watch,)
            threading.Thread(target=self._work, args=args, name="channel", daemon=True).start()
        return self._watch

    def _arm(self, fd: int, events: int) -> None:
        if self._watch is not None:
            with contextlib.suppress(OSError, ValueError):
                self._watch.epoll.modify(fd, events)

    def _forget(self, fd: int) -> None:
        """Takes a socket out, and ends the threads when there is nothing left to read."""
        if self._watch is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self._watch.epoll.unregister(fd)
        if self._served or self._askers:
            return
        self._watch.end()
        self._watch = None
        self._janitor_wake.set()
        self._janitor = None
        self._threads = self._idle = 0
        self._watched.clear()

    def _work(self, watch: _Watch) -> None:
        while True:
            events = watch.epoll.poll(None, 1)
            fd = events[0][0]
            with self._lock:
                if watch is not self._watch:
                    return
                self._idle -= 1
                served, asker = self._served.get(fd), self._askers.get(fd)
                self._watched.discard(fd)
            if served is not None:
                served.serve()
            elif asker is not None:
                asker.read_for_others()
                if asker.is_left_alone:
                    self.watch(asker)
            del served, asker
            with self._lock:
                if watch is not self._watch:
                    return
                if self._idle >= _MAX_IDLE:
                    self._threads -= 1
                    return
                self._idle += 1

    def _look_after(self, wake: threading.Event) -> None:
        while not wake.wait(_LEFT_ALONE_S):
            with self._lock:
                if wake is not self._janitor_wake:
                    return
                askers = [a for fd, a in self._askers.items() if fd not in self._watched]
            for asker in askers:
                if asker.is_left_alone:
                    self.watch(asker)
            del askers


reactor: Final = Reactor()
"""The one of this process, for all its tasks."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reactor.begin)
