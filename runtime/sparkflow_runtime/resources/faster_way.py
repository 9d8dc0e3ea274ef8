"""Decides by measuring whether an iterator's elements are computed in threads or by its consumer.

Python's threads share one interpreter, which changes hands at each call of machine code. So threads
that compute in advance gain time where a function waits or stays in machine code for long, and lose
several times as much where it consists of many short calls. What it consists of cannot be seen from
outside, and depends on what else the process does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

_WINDOW_S: Final = 0.03
_LEAST: Final = 4
"""Elements that a window has at least, unless it takes `_LONG_WINDOW_S`."""
_LONG_WINDOW_S: Final = 0.1
_WINDOWS: Final = 3
"""Windows measured of each way; the fastest counts, because interruptions only take time."""
_CLEAR: Final = 2.0
"""A way that takes this much longer in a window has lost."""
_GAIN: Final = 0.9
"""Threads must take less than this part of the time: they also use other cores."""
_LONG_S: Final = 0.1
"""Threads that deliver an element in this time or more lose little by handing it over."""
_IDLE: Final = 0.05
"""A process that uses less of one core than this waits for something; threads wait at once."""
_FIRST_HOLD_S: Final = 0.5
_LAST_HOLD_S: Final = 16.0
"""How long a way is kept after a trial; twice as long after each one that confirms it."""
_TRIAL_S: Final = 1.0
"""A trial that takes longer, because the consumer paused, does not keep others from beginning."""


class _Trials:
    """Lets one trial of the process run at a time: they would disturb each other's measurements.

    Thread-safe; `_lock` guards the fields.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._until_s = 0.0

    def begin(self, owner: int, now_s: float) -> bool:
        """Returns whether a trial may begin now."""
        with self._lock:
            if self._owner and now_s < self._until_s:
                return False
            self._owner, self._until_s = owner, now_s + _TRIAL_S
            return True

    def end(self, owner: int) -> None:
        """Records that a trial has ended."""
        with self._lock:
            if self._owner == owner:
                self._owner = 0


_trials = _Trials()


class FasterWay:
    """Chooses between threads and the consumer, for iterators over one dataset or similar ones.

    It begins with threads, so that calls which wait for each other, or for something outside, never
    depend on the consumer. After every `_WINDOW_S` it may try the other way. Thread-safe; `_lock`
    guards all fields that are not public.

    Args:
        clock: Returns the time in seconds.
        used: Returns the processor time of the process in seconds.

    Attributes:
        by_threads: Whether threads compute.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        used: Callable[[], float] = time.process_time,
    ) -> None:
        self.by_threads = True
        self._clock, self._used = clock, used
        self._lock = threading.Lock()
        self._has_changed = True
        self._skipped = 0
        self._elements = 0
        self._began_s = self._used_s = 0.0
        self._best: dict[bool, float] = {}
        self._left = 0  # windows of a trial
        self._chosen = True
        self._hold_s = _FIRST_HOLD_S
        self._due_s = 0.0

    def count(self, ahead: int, elements: int = 1) -> None:
        """Records that elements have been delivered.

        Args:
            ahead: The number of elements that threads may have computed before they are needed.
            elements: How many have been delivered.
        """
        with self._lock:
            if self._has_changed:
                self._has_changed = False
                self._skipped = ahead
            if self._skipped > 0:
                self._skipped -= elements
                if self._skipped <= 0:
                    self._begin_window(self._clock())
                return
            self._elements += elements
            now_s = self._clock()
            taken_s = now_s - self._began_s
            if taken_s < _WINDOW_S or (self._elements < _LEAST and taken_s < _LONG_WINDOW_S):
                return
            busy = (self._used() - self._used_s) / taken_s
            self._end_window(now_s, taken_s / self._elements, busy)
            self._begin_window(now_s)

    def _begin_window(self, now_s: float) -> None:
        self._elements = 0
        self._began_s, self._used_s = now_s, self._used()

    def _end_window(self, now_s: float, each_s: float, busy: float) -> None:
        if busy < _IDLE:
            if not self.by_threads:
                self._decide(True, now_s)
        elif self._left:
            best = self._best
            best[self.by_threads] = min(each_s, best.get(self.by_threads, each_s))
            self._left -= 1
            if not self._left or best[not self._chosen] > _CLEAR * best[self._chosen]:
                self._decide(best[True] < _GAIN * best[False], now_s)
            else:
                self._change(not self.by_threads)
        elif self.by_threads and each_s >= _LONG_S:
            pass
        elif now_s >= self._due_s and _trials.begin(id(self), now_s):
            self._best = {self.by_threads: each_s}
            self._left = 2 * _WINDOWS - 1
            self._change(not self.by_threads)

    def _decide(self, by_threads: bool, now_s: float) -> None:
        _trials.end(id(self))
        is_confirmed = by_threads == self._chosen
        self._hold_s = min(2 * self._hold_s, _LAST_HOLD_S) if is_confirmed else _FIRST_HOLD_S
        self._due_s = now_s + self._hold_s
        self._left = 0
        self._chosen = by_threads
        self._change(by_threads)

    def _change(self, by_threads: bool) -> None:
        if by_threads != self.by_threads:
            self.by_threads = by_threads
            self._has_changed = True
