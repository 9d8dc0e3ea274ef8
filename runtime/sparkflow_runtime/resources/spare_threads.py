"""Threads that run one call after the other and never keep the process alive.

There are as many as calls were under way at once; a call never waits for a thread, since it may be
what another one waits for. A thread without a call for `IDLE_TIMEOUT_S` ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

IDLE_TIMEOUT_S: Final = 30.0


class _Spare:
    """A thread; `_given` is released when it has got a call."""

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
            self._call = None  # an idle thread holds on to nothing
            _idle.append(self)
            if not self._given.acquire(timeout=IDLE_TIMEOUT_S):
                try:
                    _idle.remove(self)
                except ValueError:  # somebody is about to give it a call
                    self._given.acquire()
                else:
                    return


_idle: list[_Spare] = []
"""Those without a call; appending, popping and removing are atomic."""


def start_thread(call: Callable[[], object]) -> None:
    """Runs a call, which must not raise, in another thread. Thread-safe.

    Raises:
        RuntimeError: The process cannot have more threads.
    """
    try:
        spare = _idle.pop()
    except IndexError:
        _Spare(call)
    else:
        spare.give(call)


def idle_threads() -> set[threading.Thread]:
    """Those that have no call, and end when none comes."""
    return {each.thread for each in list(_idle)}


os.register_at_fork(after_in_child=_idle.clear)  # threads do not follow into a forked child
