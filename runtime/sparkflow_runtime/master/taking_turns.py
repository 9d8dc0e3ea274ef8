"""Threads that run the same step again and again, such as a queue runner's.

In one interpreter several of them are often slower than one. Which is faster is measured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from sparkflow_runtime.resources.faster_way import FasterWay

_REPEATED_S: Final = 0.005
"""How long a thread repeats a step before another one may."""
_PATIENCE_S: Final = 0.05
"""A thread whose predecessor has not ended after this time does not wait for it any more: that one
waits itself, perhaps for something that only this one does."""


class TakingTurns:
    """Lets threads run at the same time, or one after another where that is not slower.

    Thread-safe: `_lock` guards `_inside` and `_most`; a thread that has the turn holds `_turn`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._way = FasterWay()
        self._inside = self._most = 0
        self._ended = 0  # changes whenever a call ends

    def run(self, call: Callable[[float], int]) -> None:
        """Lets the calling thread run steps; may wait for other threads first.

        Args:
            call: Runs steps for a number of seconds; returns how many.
        """
        with self._lock:
            self._inside += 1
            self._most = max(self._inside, self._most)
        has_turn = not self._way.by_threads and self._take_turn()
        try:
            steps = call(_REPEATED_S)
        finally:
            if has_turn:
                self._turn.release()
            with self._lock:
                self._inside -= 1
                self._ended += 1
        if self._most > 1:
            self._way.count(self._most, steps)

    def _take_turn(self) -> bool:
        """Returns whether this thread has got the turn; it may go on in any case."""
        while True:
            ended = self._ended
            if self._turn.acquire(timeout=_PATIENCE_S):
                return True
            if self._ended == ended or self._way.by_threads:
                return False
