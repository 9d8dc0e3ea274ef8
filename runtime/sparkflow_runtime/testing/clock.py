"""A clock that the test moves."""

from __future__ import annotations

import threading


class FakeClock:
    """Seconds since its making, as tests let them pass. Stands in for `time.monotonic`.

    `_lock` guards `_now`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0.0

    def __call__(self) -> float:
        """The time now, in seconds."""
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        with self._lock:
            self._now += seconds
