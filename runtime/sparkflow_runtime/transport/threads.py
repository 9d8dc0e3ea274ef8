"""Threads that run calls concurrently and never keep the process alive."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, ParamSpec, TypeVar

IDLE_TIMEOUT_S: Final = 30.0
"""An idle thread ends after this many seconds."""
MAX_THREADS: Final = 1024
"""Handlers block until a peer's tensor is available, so the number of threads bounds the waiting
calls."""

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(Executor):
    """An executor of daemon threads. Safe to use from several threads.

    `concurrent.futures` waits at interpreter exit for whatever its threads do. Ours wait for
    tensors that may never come, so a script that forgot to stop its server would never end.

    `_changed` guards all fields.

    Args:
        max_threads: Maximum number of concurrent calls; further ones wait.
        name: Prefix of the threads' names.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads = max_threads
        self._name = name
        self._changed = threading.Condition(threading.Lock())
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads = 0
        self._idle = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Runs `fn(*args, **kwargs)` in a thread and returns its future.

        Raises:
            RuntimeError: `shutdown` was called, as the executor protocol requires, or the process
                cannot have a thread.
        """
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError(f"No new call after the shutdown of {self._name!r}")
            self._calls.append((future, lambda: fn(*args, **kwargs)))
            if self._idle >= len(self._calls):
                self._changed.notify()
            elif self._threads < self._max_threads:
                self._start()
        return future

    def _start(self) -> None:
        """Starts a thread; if that fails, the existing ones must suffice."""
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError:
            if not self._threads:
                self._calls.pop()
                raise
        else:
            self._threads += 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Lets every thread end after its call; does not wait for them, whatever `wait` is."""
        with self._changed:
            self._closed = True
            doomed = list(self._calls) if cancel_futures else []
            if cancel_futures:
                self._calls.clear()
            self._changed.notify_all()
        for future, _ in doomed:
            if future.cancel():
                future.set_running_or_notify_cancel()  # otherwise `wait` would wait forever

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._calls:
                    self._idle += 1
                    woken = not self._closed and self._changed.wait(IDLE_TIMEOUT_S)
                    self._idle -= 1
                    if not woken and not self._calls:
                        self._threads -= 1
                        return
                future, call = self._calls.popleft()
            _complete(future, call)
            del future, call  # An idle thread keeps nothing alive.


def _complete(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
