"""A pool of daemon threads, each running one call at a time.

The pool grows to the number of concurrent calls; a call never waits for a thread, because another
call may depend on it. An idle thread ends after `IDLE_TIMEOUT_S`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

IDLE_TIMEOUT_S: Final = 30.0


class _Spare:
    """A thread; `_given` is released when it has received a call."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call: Callable[[], object] | None = call
        self._given = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._work, name="sparkflow-strand", daemon=True)
        self.thread.start()

    def give(self, call: Callable[[], object]) -> None:
        self._call = call
        self._given.release()

    def _work(self) -> None:
        while True:
            assert self._call is not None
            self._call()
            self._call = None  # an idle thread keeps nothing alive
            _idle.append(self)
            if not self._given.acquire(timeout=IDLE_TIMEOUT_S):
                try:
                    _idle.remove(self)
                except ValueError:  # another thread is about to give it a call
                    self._given.acquire()
                else:
                    return


_idle: list[_Spare] = []
"""Idle threads; appending, popping and removing are atomic."""


def start_thread(call: Callable[[], object]) -> None:
    """Runs a call, which must not raise, in another thread. Thread-safe.

    Raises:
        RuntimeError: The process cannot start more threads.
    """
    try:
        spare = _idle.pop()
    except IndexError:
        _Spare(call)
    else:
        spare.give(call)


def idle_threads() -> set[threading.Thread]:
    """The idle threads, which end if no call arrives."""
    return {each.thread for each in list(_idle)}


os.register_at_fork(after_in_child=_idle.clear)  # a forked child has no such threads
