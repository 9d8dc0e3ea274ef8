"""The threads that read channels no thread waits on: all serving ends, and idle asking ends.

On an idle asking end they notice when the other task is gone, so the next request goes to the task
that has taken its place, possibly at the same address.

Threads take turns in `epoll`. The thread that gets a channel reads it and serves its requests, a
whole step if need be, while another thread watches. So a call is run by the thread that read it; no
thread has to be woken.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from sparkflow_runtime.transport.channel.end import End
from sparkflow_runtime.transport.waking import Waker

_log = logging.getLogger(__name__)

MAX_THREADS: Final = 1024
"""Calls block until their inputs are available, so the number of threads bounds the waiting
calls."""
MAX_IDLE: Final = 16
"""Maximum number of idle threads that are kept. A step in progress needs one: with a maximum of
two, a parameter server of two workers created a thread per step (60-100 µs of CPU time,
2026-11-27)."""
_ONE_EVENT: Final[int] = getattr(select, "EPOLLIN", 0) | getattr(select, "EPOLLONESHOT", 0)
_ITS_END: Final[int] = getattr(select, "EPOLLRDHUP", 0) | getattr(select, "EPOLLONESHOT", 0)
_LEFT_ALONE_S: Final = 0.05
"""After this many seconds without a waiting thread, the reactor reads a channel with outstanding
answers."""


def available() -> bool:
    """Whether this system supports reading channels: Linux does."""
    return hasattr(select, "epoll") and hasattr(os, "eventfd")


class Reactor:
    """Reads ends of channels, in threads that it has only while it has ends. Thread-safe.

    `_lock` guards all fields. Sockets are armed for one event each; the thread that got it re-arms
    the socket, or notes in `_unarmed` that another thread must.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Resets all fields, also in a forked child, which has none of the threads.

        The epoll and wake-up descriptors belong to the parent: an event consumed here is lost
        there.
        """
        self._lock = threading.Lock()
        # An epoll, the waker of all threads in it, and the waker of one of them for a call that is
        # handed over; all live as long as a thread may use them.
        self._watch: tuple[select.epoll, Waker, Waker] | None = None
        self._handed: deque[Callable[[], None]] = deque()
        self._ends: dict[int, End] = {}
        self._watched: set[int] = set()
        self._unarmed: set[int] = set()
        self._threads = 0
        self._idle = 0
        self._is_full = False
        self._janitor: threading.Thread | None = None
        self._janitor_wake = threading.Event()

    # --------------------------------------------------------------------------------- ends

    def add(self, end: End) -> None:
        """Reads an end from now on: always if `is_always_read`, else while it is left alone.

        Raises:
            OSError: The process is out of descriptors.
            RuntimeError: The process cannot start another thread.
        """
        fd = end.wire.fileno()
        with self._lock:
            self._ends[fd] = end
            try:
                epoll, _, _ = self._open()
                epoll.register(fd, _ONE_EVENT if end.is_always_read else _ITS_END)
                if end.is_always_read:
                    self._watched.add(fd)
                elif self._janitor is None:
                    self._janitor_wake = threading.Event()
                    janitor = threading.Thread(
                        target=self._look_after,
                        args=(self._janitor_wake,),
                        name="channel-janitor",
                        daemon=True,
                    )
                    janitor.start()
                    self._janitor = janitor
            except BaseException:  # the system is out of descriptors or threads
                self._remove_locked(end)
                raise

    def resume(self, end: End) -> None:
        """Lets another thread read an end while this one does something that may block."""
        with self._lock:
            if self._watch_locked(end):
                self._open()

    def watch(self, end: End) -> None:
        """Reads an end until a thread waits on it."""
        with self._lock:
            self._watch_locked(end)

    def unwatch(self, end: End) -> None:
        """Leaves reading an end to a thread that waits on it."""
        fd = end.wire.fileno()
        if fd in self._watched:
            with self._lock:
                if fd in self._watched:
                    self._watched.discard(fd)
                    self._arm(fd, _ITS_END)

    def read_all(self) -> None:
        """Reads every end: a thread is about to block, and others may block on it."""
        with self._lock:
            ends = list(self._ends.values())
        self._watch_those_left_alone(ends)

    def remove(self, end: End) -> None:
        """Forgets an end."""
        with self._lock:
            self._remove_locked(end)

    def _remove_locked(self, end: End) -> None:
        fd = end.wire.fileno()
        if self._ends.get(fd) is end:
            del self._ends[fd]
            self._watched.discard(fd)
            self._unarmed.discard(fd)
            self._forget(fd)

    def _watch_those_left_alone(self, ends: list[End]) -> None:
        for end in ends:
            if end.is_left_alone:
                self.watch(end)

    def _watch_locked(self, end: End) -> bool:
        """Has an end read if it is one of ours; returns whether it is."""
        fd = end.wire.fileno()
        if self._ends.get(fd) is not end:
            return False
        if fd not in self._watched:
            self._watched.add(fd)
            self._arm(fd, _ONE_EVENT)
        return True

    def _note_unarmed(self, end: End) -> None:
        """Has the janitor arm an end: arming it at once would loop while another thread reads."""
        fd = end.wire.fileno()
        with self._lock:
            if self._ends.get(fd) is end:
                self._unarmed.add(fd)

    # ------------------------------------------------------------------------------ threads

    def hand_over(self, call: Callable[[], None]) -> None:
        """Runs something that may block in another thread, if need be in a new one.

        Args:
            call: Must not raise. It may be dropped once the last end is removed.
        """
        with self._lock:
            if self._watch is None:
                return
            self._handed.append(call)
            self._open()
            self._arm(self._watch[2].fileno(), _ONE_EVENT)
            if self._idle:
                return
        try:
            threading.Thread(target=self._run_handed, name="channel-call", daemon=True).start()
        except RuntimeError as error:  # a reading thread runs it when it is done
            _log.warning("A call waits for a thread: %s", error)

    def _run_handed(self) -> None:
        with self._lock:
            call = self._handed.popleft() if self._handed else None
            if call is not None:
                self._open()  # others to watch while this one may block
                if self._handed and self._watch is not None:
                    self._arm(self._watch[2].fileno(), _ONE_EVENT)
        if call is not None:
            call()

    def _open(self) -> tuple[select.epoll, Waker, Waker]:
        if self._watch is None:
            watch = select.epoll(), Waker(), Waker()
            watch[0].register(watch[1], select.EPOLLIN)
            watch[0].register(watch[2], 0)
            watch[2].wake()  # readable as soon as it is armed
            self._watch = watch
        if self._idle == 0 and self._threads < MAX_THREADS:
            self._start(self._watch)
        elif self._idle == 0 and not self._is_full:
            self._is_full = True
            _log.warning(
                "%d calls of this process wait for tensors, as many as it has threads for. Further "
                "ones begin when one of these ends. If training makes no progress, use fewer tasks "
                "per process, or fewer workers per parameter server",
                self._threads,
            )
        return self._watch

    def _start(self, watch: tuple[select.epoll, Waker, Waker]) -> None:
        """Starts a reading thread; if that fails, the existing ones must suffice."""
        thread = threading.Thread(target=self._work, args=(watch,), name="channel", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._threads:
                raise
            _log.warning("Channels are read by %d threads: %s", self._threads, error)
        else:
            self._threads += 1
            self._idle += 1

    def _arm(self, fd: int, events: int) -> None:
        if self._watch is not None:
            with contextlib.suppress(OSError, ValueError):
                self._watch[0].modify(fd, events)

    def _forget(self, fd: int) -> None:
        """Removes a socket, and ends the threads when there is nothing left to read."""
        if self._watch is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self._watch[0].unregister(fd)
        if self._ends:
            return
        self._watch[1].wake()  # now and later: nobody reads it
        self._watch = None
        self._janitor_wake.set()
        self._janitor = None
        self._threads = self._idle = 0
        self._watched.clear()
        self._unarmed.clear()
        self._handed.clear()

    def _work(self, watch: tuple[select.epoll, Waker, Waker]) -> None:
        while True:
            events = watch[0].poll(None, 1)
            fd = events[0][0]
            with self._lock:
                if watch is not self._watch:
                    return
                self._idle -= 1
                end = self._ends.get(fd)
                self._watched.discard(fd)
            if fd == watch[2].fileno():
                self._run_handed()
            elif end is not None:
                end.attend()
                if end.is_left_alone:
                    self.watch(end)
                elif not end.is_always_read:
                    self._note_unarmed(end)
            del end
            with self._lock:
                if watch is not self._watch:
                    return
                if self._idle >= MAX_IDLE:
                    self._threads -= 1
                    return
                self._idle += 1

    def _look_after(self, wake: threading.Event) -> None:
        while not wake.wait(_LEFT_ALONE_S):
            with self._lock:
                if wake is not self._janitor_wake:
                    return
                ends = list(self._ends.values())
                unwatched = [end for fd, end in self._ends.items() if fd not in self._watched]
                for fd in self._unarmed - self._watched:
                    self._arm(fd, _ITS_END)
                self._unarmed.clear()
            self._watch_those_left_alone(unwatched)
            for end in ends:
                if end.holds_back:
                    self.hand_over(end.flush)
            del ends, unwatched


reactor: Final = Reactor()
"""The reactor of this process, shared by all its tasks."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reactor.begin)
