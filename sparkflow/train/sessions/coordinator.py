"""`Coordinator`: threads that stop together; `LooperThread`: one that calls a function again."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from sparkflow import logging
from sparkflow._api import export
from sparkflow.errors import OutOfRangeError

_ExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
_LOOK_S = 0.05
"""How often a thread that joins looks whether a stop was requested."""


@export("train.Coordinator")
class Coordinator:
    """Lets any of several threads stop all of them; `join` raises the first exception.

    Safe to use from several threads: `_lock` guards what is below it.

    Args:
        clean_stop_exception_types: Exceptions that mean a stop and no failure; `OutOfRangeError`
            when None.
    """

    def __init__(
        self, clean_stop_exception_types: tuple[type[BaseException], ...] | None = None
    ) -> None:
        self._clean_stop_exception_types = (
            (OutOfRangeError,)
            if clean_stop_exception_types is None
            else tuple(clean_stop_exception_types)
        )
        self._stop_event = threading.Event()
        self._lock = threading.Lock()
        self._exc_info_to_raise: _ExcInfo | None = None
        self._joined = False
        self._registered_threads: set[threading.Thread] = set()
        self._when_failed: list[Callable[[], None]] = []

    def request_stop(self, ex: Any = None) -> None:
        """Asks the threads to stop.

        Args:
            ex: An exception, or what `sys.exc_info()` gives, that `join` is to raise. The first one
                counts; of a clean stop none does.

        Raises:
            The exception itself, when the coordinator has joined already.
        """
        with self._lock:
            found = self._failure(ex)
            if self._joined:
                # Nobody will join again: this is the last chance to report it.
                _reraise(found)
                return
            if self._stop_event.is_set():
                return
            told: list[Callable[[], None]] = []
            if found is not None:
                logging.info("Error reported to Coordinator: %s, %s", found[0], found[1])
                self._exc_info_to_raise = found
                told = self._when_failed
            self._stop_event.set()
        for each in told:
            each()

    def _failure(self, ex: Any) -> _ExcInfo | None:
        if ex is None:
            return None
        info: _ExcInfo
        if isinstance(ex, tuple):
            if len(ex) != 3 or not isinstance(ex[1], BaseException):
                raise ValueError(f"ex must be an exception or sys.exc_info(), got {ex!r}")
            info = ex
        elif isinstance(ex, BaseException):
            info = (type(ex), ex, ex.__traceback__)
        else:
            raise ValueError(f"ex must be an exception or sys.exc_info(), got {ex!r}")
        return None if isinstance(info[1], self._clean_stop_exception_types) else info

    def call_when_failed(self, call: Callable[[], None]) -> None:
        """Calls a function when an exception stops the threads, immediately if one already has.

        Not of TensorFlow's.

        Args:
            call: Is called by the thread that reports the exception.
        """
        with self._lock:
            has_failed = self._exc_info_to_raise is not None
            if not has_failed:
                self._when_failed = [*self._when_failed, call]
        if has_failed:
            call()

    def clear_stop(self) -> None:
        """Makes the coordinator ready to be used again."""
        with self._lock:
            self._joined = False
            self._exc_info_to_raise = None
            self._stop_event.clear()

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._stop_event.is_set()

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Requests a stop with the exception that leaves the block; the block swallows it."""
        try:
            yield
        except BaseException:
            self.request_stop(ex=sys.exc_info())

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Blocks until a stop is requested; False after `timeout` seconds without one."""
        return self._stop_event.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Has `join` wait for this thread, too."""
        with self._lock:
            self._registered_threads.add(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Blocks until all threads have ended.

        Args:
            threads: Threads to wait for besides the registered ones.
            stop_grace_period_secs: How long they may take once a stop is requested.
            ignore_live_threads: Leave those alone that still run then.

        Raises:
            RuntimeError: Some still run after the grace period.
            The exception passed to `request_stop`.
        """
        with self._lock:
            waiting = list(
                {**dict.fromkeys(self._registered_threads), **dict.fromkeys(threads or ())}
            )
        while not self._stop_event.is_set():
            alive = [thread for thread in waiting if thread.is_alive()]
            if not alive:
                break
            alive[0].join(_LOOK_S)
        deadline = time.monotonic() + stop_grace_period_secs
        for thread in waiting:
            thread.join(max(0.0, deadline - time.monotonic()))
        stragglers = [thread.name for thread in waiting if thread.is_alive()]
        with self._lock:
            self._joined = True
            self._registered_threads = set()
            failure = self._exc_info_to_raise
        _reraise(failure)
        if stragglers:
            if not ignore_live_threads:
                raise RuntimeError(
                    f"Coordinator stopped with threads still running: {' '.join(stragglers)}"
                )
            logging.info("Coordinator stopped with threads still running: %s", " ".join(stragglers))

    @property
    def joined(self) -> bool:
        """Whether `join` has ended since the last `clear_stop`."""
        return self._joined

    def raise_requested_exception(self) -> None:
        """Raises the exception passed to `request_stop`, if there is one."""
        with self._lock:
            failure = self._exc_info_to_raise
        _reraise(failure)


def _reraise(info: _ExcInfo | None) -> None:
    if info is not None and info[1] is not None:
        raise info[1].with_traceback(info[2])


@export("train.LooperThread")
class LooperThread(threading.Thread):
    """A thread that calls `run_loop` until its coordinator stops; a failure stops the coordinator.

    Args:
        coord: The coordinator.
        timer_interval_secs: From one call to the next; None for one right after the other.
        target: What `run_loop` calls, where it is not overridden.
        args: Its arguments.
        kwargs: Its keyword arguments.

    Raises:
        ValueError: `coord` is no Coordinator, or there are arguments without a target.
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        super().__init__(daemon=True)
        self._coord = coord
        self._timer_interval_secs = timer_interval_secs
        if target is None and (args is not None or kwargs is not None):
            raise ValueError("'args' and 'kwargs' argument require that you also pass 'target'")
        self._looped = target
        self._looped_args = tuple(args or ())
        self._looped_kwargs = dict(kwargs or {})
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> LooperThread:
        """Starts a thread that calls `target` again and again."""
        looper = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        looper.start()
        return looper

    def run(self) -> None:
        """What the thread does."""
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._timer_interval_secs is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                due = time.monotonic()
                while not self._coord.wait_for_stop(max(0.0, due - time.monotonic())):
                    due += self._timer_interval_secs
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called once before the loop; override it."""

    def stop_loop(self) -> None:
        """Called once after the loop, unless it failed; override it."""

    def run_loop(self) -> None:
        """Called again and again; calls the target."""
        if self._looped is not None:
            self._looped(*self._looped_args, **self._looped_kwargs)
