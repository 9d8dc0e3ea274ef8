"""A clock that the test advances."""

from __future__ import annotations

import threading


class FakeClock:
    """A fake `time.monotonic`: seconds since its creation, advanced by the test.

    `_lock` guards `_now`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0.0

    def __call__(self) -> float:
        """Returns the time in seconds."""
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> None:
        """Advances the time."""
        with self._lock:
            self._now += seconds
