"""Delivers the updates of a step loop to listeners, however slow they are."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, TimeoutError as FutureTimeoutError
from typing import Any, Final

import numpy as np

from sparkflow_runtime.errors import OpError, from_status, to_status
from sparkflow_runtime.worker.loop import LoopEnd, LoopUpdate

MAX_UPDATES: Final = 64
"""How many updates wait for a listener before they are merged."""
MAX_VALUES_BYTES: Final = 1 << 26
"""How many bytes of values wait for a listener before the oldest are dropped."""


class LoopUpdates:
    """The updates of one loop, for any number of listeners. Thread-safe.

    Each listener has its own queue; `publish` never waits. Waiting updates are merged into fewer,
    longer ones. When their values exceed `MAX_VALUES_BYTES`, the oldest values are dropped; the
    numbers of steps always stay correct.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: _Listener | None = _Listener()
        self._listeners: list[_Listener] = [self._first]
        self._end: Future[LoopEnd] = Future()

    @property
    def done(self) -> bool:
        """Whether the loop has ended in any way."""
        return self._end.done()

    def publish(self, update: LoopUpdate) -> None:
        """Queues an update for every listener."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.put(update)

    def finish(self, end: LoopEnd | BaseException) -> None:
        """Records how the loop ended; nothing is published afterwards."""
        if isinstance(end, LoopEnd):
            self._end.set_result(end)
        else:
            self._end.set_exception(end)
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.end()

    def wait(self, timeout_s: float | None = None) -> LoopEnd:
        """Blocks until the loop has ended.

        Raises:
            OpError: The error that ended the loop, if not its data, bounds, number of steps or a
                request to stop.
            TimeoutError: It is still running after `timeout_s` seconds.
        """
        try:
            return self._end.result(timeout_s)
        except FutureTimeoutError:  # another class than TimeoutError in Python 3.10
            raise TimeoutError(f"The loop is still running after {timeout_s} s") from None
        except OpError as error:
            # Every thread raises its own instance, as a traceback belongs to one thread.
            raise from_status(*to_status(error)) from None

    def follow(self) -> Iterator[LoopUpdate]:
        """Yields the updates for one more listener as they arrive; ends with the loop.

        The first listener gets all updates, others those from now on.

        Raises:
            OpError: As `wait` does.
        """
        return (update for update in self.poll(None) if update is not None)

    def poll(self, interval_s: float | None) -> Iterator[LoopUpdate | None]:
        """As `follow`, but also yields None whenever nothing arrived for `interval_s` seconds."""
        with self._lock:
            listener, self._first = self._first, None
            if listener is None:
                listener = _Listener()
                self._listeners.append(listener)
            if self._end.done():
                listener.end()
        return self._follow(listener, interval_s)

    def _follow(self, listener: _Listener, interval_s: float | None) -> Iterator[LoopUpdate | None]:
        try:
            while True:
                update = listener.take(interval_s)
                if update is None and listener.ended:
                    break
                yield update
        finally:
            with self._lock:
                self._listeners.remove(listener)
        self.wait()


class _Listener:
    """The updates that a listener has not received yet. `_changed` guards all fields."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[LoopUpdate] = deque()
        self._size_bytes = 0
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether all updates were received and no more follow."""
        with self._changed:
            return self._ended and not self._waiting

    def put(self, update: LoopUpdate) -> None:
        with self._changed:
            self._waiting.append(update)
            self._size_bytes += _size_bytes(update)
            if len(self._waiting) > MAX_UPDATES or self._size_bytes > MAX_VALUES_BYTES:
                self._waiting = deque(coalesced(list(self._waiting)))
                self._size_bytes = sum(map(_size_bytes, self._waiting))
            self._changed.notify()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()

    def take(self, timeout_s: float | None) -> LoopUpdate | None:
        """Removes and returns the oldest; None at the end, or if none arrived in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended, timeout_s)
            if not self._waiting:
                return None
            update = self._waiting.popleft()
            self._size_bytes -= _size_bytes(update)
            return update


def coalesced(updates: Sequence[LoopUpdate]) -> list[LoopUpdate]:
    """Merges updates into fewer ones about the same steps, at most half of the maximum.

    Values of the oldest are dropped if all are too large. Neighbours whose values have the same
    shapes are merged; if too many remain, values of the oldest are dropped as well.
    """
    size_bytes = 0
    begin = len(updates)
    while begin:
        size_bytes += _size_bytes(updates[begin - 1])
        if size_bytes > MAX_VALUES_BYTES // 2 and begin < len(updates):
            break
        begin -= 1
    joined = [_join(run) for run in _runs(updates[begin:])]
    excess = max(0, len(joined) - MAX_UPDATES // 2)
    old = [*updates[:begin], *joined[:excess]]
    return [*([_emptied(old)] if old else []), *joined[excess:]]


def _runs(updates: Sequence[LoopUpdate]) -> list[list[LoopUpdate]]:
    """Groups neighbours whose values can be merged."""
    runs: list[list[LoopUpdate]] = []
    for update in updates:
        if runs and _fits(runs[-1][-1], update):
            runs[-1].append(update)
        else:
            runs.append([update])
    return runs


def _fits(update: LoopUpdate, following: LoopUpdate) -> bool:
    return (
        not following.num_dropped
        and len(update.values) == len(following.values)
        and all(
            a.shape[1:] == b.shape[1:] and a.dtype == b.dtype
            for a, b in zip(update.values, following.values, strict=True)
        )
    )


def _join(run: Sequence[LoopUpdate]) -> LoopUpdate:
    if len(run) == 1:
        return run[0]
    columns = zip(*(update.values for update in run), strict=True)
    return _sum(run, tuple(np.concatenate(column) for column in columns), run[0].num_dropped)


def _emptied(old: Sequence[LoopUpdate]) -> LoopUpdate:
    values = tuple(value[:0] for value in old[-1].values)
    return _sum(old, values, sum(update.num_steps for update in old))


def _sum(
    run: Sequence[LoopUpdate], values: tuple[np.ndarray[Any, Any], ...], num_dropped: int
) -> LoopUpdate:
    return LoopUpdate(
        run[0].first_step,
        sum(update.num_steps for update in run),
        values,
        sum(update.waited_s for update in run),
        sum(update.elapsed_s for update in run),
        num_dropped,
    )


def _size_bytes(update: LoopUpdate) -> int:
    return sum(
        sum(map(len, value.flat)) if value.dtype.hasobject else value.nbytes
        for value in update.values
    )
