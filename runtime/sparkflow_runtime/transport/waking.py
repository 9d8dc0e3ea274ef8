"""Wakes a thread that waits on sockets, from another thread."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

_of_threads = threading.local()


class Waker:
    """A descriptor to poll along with others, which another thread makes readable.

    Each thread that waits for an answer has its own, with a check that may end the wait.
    """

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._check: Callable[[], None] = lambda: None
        self._woken = False

    @classmethod
    def of_this_thread(cls, check: Callable[[], None]) -> Waker:
        """Returns the calling thread's, for one wait; `check` raises what ends it."""
        found: Waker | None = getattr(_of_threads, "waker", None)
        if found is None:
            found = _of_threads.waker = cls()
        found._check = check
        if found._woken:
            found._woken = False
            with contextlib.suppress(BlockingIOError):  # two wake-ups were read at once
                os.eventfd_read(found._fd)
        return found

    def fileno(self) -> int:
        """Readable once `wake` was called."""
        return self._fd

    def check(self) -> None:
        """Raises the error that ended the waiting step."""
        self._check()

    def wake(self) -> None:
        """Makes the thread check again; called by others while they know that it waits."""
        os.eventfd_write(self._fd, 1)
        self._woken = True  # last: once it is set, the descriptor is readable

    def __del__(self) -> None:
        """Closes its descriptor."""
        os.close(self._fd)
