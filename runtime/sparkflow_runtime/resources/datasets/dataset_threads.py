"""Datasets whose elements are computed in advance by their own threads.

A thread belongs to one iterator and ends with it: at the end of the data, when it is closed (also
by re-initialization or by the session's end), or when nothing refers to it any more.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import numpy as np

from sparkflow_runtime.errors import CancelledError, OutOfRangeError
from sparkflow_runtime.resources.datasets.dataset import Call, Dataset, Element, ElementIterator
from sparkflow_runtime.resources.waiting import wait_for

AUTOTUNE: Final = -1
MOST_THREADS: Final = 16
"""More threads than this are no faster in one interpreter."""
_AUTOTUNED_BUFFER: Final = 8
_SHORT_S: Final = 50e-6
"""Calls that take less are short: giving one to another thread and back takes 90 us or more."""
_ENOUGH: Final = 16
_JOIN_S: Final = 5.0
"""How long closing waits for a thread that is computing; Python cannot be interrupted."""


class _FunctionStep:
    """The step of a dataset's function: it exchanges nothing with other tasks."""

    step_id = 0
    iteration = 0
    number = 0

    def send(self, key: str, destination: str, values: tuple[Any, ...]) -> None:
        """Not available in a dataset.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(f"A function of a dataset cannot send {key}")

    def receive(self, key: str, source: str) -> tuple[Any, ...]:
        """Not available in a dataset.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(f"A function of a dataset cannot receive {key}")


class BackgroundStep(_FunctionStep):
    """The step in which an iterator's thread computes; it ends when the iterator is closed.

    Safe to use from several threads; `_lock` guards `_cancelled` and `_callbacks`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._callbacks: list[Callable[[], None]] = []

    def cancel(self) -> None:
        """Ends the step."""
        with self._lock:
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def check_cancelled(self) -> None:
        """Raises CancelledError once it has ended."""
        if self._cancelled:
            raise CancelledError(message="The iterator was closed")

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once the step has ended; returns a function that unregisters it."""
        with self._lock:
            has_ended = self._cancelled
            if not has_ended:
                self._callbacks.append(callback)
        if has_ended:
            callback()

        def take_back() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return take_back


class _ConsumersStep(_FunctionStep):
    """The step of a call in the consumer's thread, which also ends with the consumer's step."""

    def __init__(self, iterators: BackgroundStep, consumers: Any) -> None:
        self._steps = iterators, consumers

    def check_cancelled(self) -> None:
        for step in self._steps:
            step.check_cancelled()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        called: list[bool] = []

        def call_once() -> None:
            if not called:
                called.append(True)
                callback()

        undo = [step.on_cancel(call_once) for step in self._steps]

        def take_back() -> None:
            for each in undo:
                each()

        return take_back


class _Prefetched(ElementIterator):
    """A buffer that a thread fills. `_changed` guards `_ready`, `_ended`, `_closed`, `_thread`."""

    def __init__(self, source: ElementIterator, size: int) -> None:
        self._source, self._size = source, size
        self._changed = threading.Condition()
        self._ready: deque[Element | Exception] = deque()
        self._ended = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._step = BackgroundStep()

    def next(self, step: Any) -> Element | None:
        if self._thread is None and not self._start():
            return None
        found: Any = wait_for(self._changed, self._take, step)
        if isinstance(found, Exception):
            raise found
        return found or None

    def _start(self) -> bool:
        """Starts the thread, which `close` then waits for; returns False if it was closed."""
        with self._changed:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._fill, name="sparkflow-prefetch", daemon=True)
                thread.start()
                self._thread = thread
            return self._thread is not None

    def _take(self) -> Element | Exception | None:
        if self._ready:
            self._changed.notify_all()
            return self._ready.popleft()
        if self._closed:
            raise CancelledError(message="The iterator was closed")
        return () if self._ended else None

    def _fill(self) -> None:
        item: Element | Exception | None
        with np.errstate(all="ignore"):
            while True:
                try:
                    item = self._source.next(self._step)
                except Exception as error:  # raised when the element is requested
                    item = error
                with self._changed:
                    if item is None:
                        self._ended = True
                    else:
                        self._ready.append(item)
                    self._changed.notify_all()
                    while len(self._ready) >= self._size and not self._closed:
                        self._changed.wait()
                    if self._closed or self._ended:
                        return

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
            thread = self._thread
        self._step.cancel()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)
        self._source.close()


def prefetched(source: Dataset, size: int) -> Dataset:
    """Returns the elements, computing up to `size` in advance; `AUTOTUNE` for a few."""
    if size == 0:
        return source
    limit = _AUTOTUNED_BUFFER if size < 0 else size
    return Dataset(lambda: _Prefetched(source.iterate(), limit), source.length)


def begin_in_thread(size: int) -> Callable[[Dataset], ElementIterator]:
    """Returns a function that creates iterators which compute up to `size` elements in advance."""
    return lambda dataset: _Prefetched(dataset.iterate(), size)


class _MappedInParallel(ElementIterator):
    """Keeps the given number of calls in progress; returns the results in order.

    Calls that take less time than giving them to another thread are made by the consumer's thread,
    after `_ENOUGH` short ones. `_done` guards `_closed` and `_pool`.
    """

    def __init__(self, source: ElementIterator, call: Call, parallel: int) -> None:
        self._source, self._call, self._parallel = source, call, parallel
        self._pool: ThreadPoolExecutor | None = None
        self._pending: deque[Future[tuple[Element, float]]] = deque()
        self._done = threading.Condition()
        self._step = BackgroundStep()
        self._short_calls = 0
        self._ended = False
        self._closed = False

    def next(self, step: Any) -> Element | None:
        if self._short_calls < _ENOUGH:
            self._start(step)
        if self._pending:
            future = self._pending.popleft()
            wait_for(self._done, lambda: future.done() or None, step)
            finish: Callable[[], tuple[Element, float]] = future.result
        elif self._ended:
            return None
        else:
            self._require_open()
            element = self._source.next(step)
            if element is None:
                self._ended = True
                return None
            finish = partial(self._timed, _ConsumersStep(self._step, step), element)
        try:
            result, seconds = finish()
        except OutOfRangeError:
            self._ended = True
            return None
        self._count(seconds)
        return result

    def _timed(self, step: Any, element: Element) -> tuple[Element, float]:
        """Returns the result of a call and the seconds that it took."""
        began = time.perf_counter()
        result = self._call(step, element)
        return result, time.perf_counter() - began

    def _count(self, seconds: float) -> None:
        """Records a call; a long one undoes as many short ones as would have taken its time."""
        change = 1 if seconds < _SHORT_S else -int(seconds / _SHORT_S)
        self._short_calls = min(max(self._short_calls + change, 0), 2 * _ENOUGH)

    def _require_open(self) -> None:
        if self._closed:
            raise CancelledError(message="The iterator was closed")

    def _start(self, step: Any) -> None:
        while len(self._pending) < self._parallel and not self._ended:
            self._require_open()
            future: Future[tuple[Element, float]]
            try:
                element = self._source.next(step)
            except Exception as error:  # raised at its place in the order
                step.check_cancelled()
                future = Future()
                future.set_exception(error)
                self._pending.append(future)
                continue
            if element is None:
                self._ended = True
                return
            with self._done:
                self._require_open()
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(
                        min(self._parallel, MOST_THREADS), "sparkflow-parallel-map"
                    )
                future = self._pool.submit(self._run, element)
            future.add_done_callback(self._notify)
            self._pending.append(future)

    def _run(self, element: Element) -> tuple[Element, float]:
        with np.errstate(all="ignore"):
            return self._timed(self._step, element)

    def _notify(self, _: Future[tuple[Element, float]]) -> None:
        with self._done:
            self._done.notify_all()

    def close(self) -> None:
        with self._done:
            self._closed = True
            pool = self._pool
        self._step.cancel()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)
        self._source.close()


def mapped_in_parallel(source: Dataset, call: Call, parallel: int) -> Dataset:
    """Maps a function over the elements, with up to `parallel` calls in progress.

    Results keep their order. `AUTOTUNE` for one call per core. Short calls are made one after the
    other, which is faster.
    """
    count = (os.cpu_count() or 1) if parallel == AUTOTUNE else parallel
    return Dataset(lambda: _MappedInParallel(source.iterate(), call, count), source.length)
