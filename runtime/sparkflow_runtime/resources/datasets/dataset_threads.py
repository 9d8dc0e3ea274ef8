"""Datasets whose elements are computed in advance by their own threads.

A thread belongs to one iterator and ends with it: at the end of the data, when it is closed (also
by re-initialization or by the session's end), or when nothing refers to it any more.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from sparkflow_runtime.errors import CancelledError, OutOfRangeError
from sparkflow_runtime.resources.datasets.dataset import Call, Dataset, Element, ElementIterator
from sparkflow_runtime.resources.faster_way import FasterWay
from sparkflow_runtime.resources.waiting import wait_for

AUTOTUNE: Final = -1
MOST_THREADS: Final = 16
"""More threads than this are no faster in one interpreter."""
_AUTOTUNED_BUFFER: Final = 8
_JOIN_S: Final = 5.0
"""How long closing waits for a thread that is computing; Python cannot be interrupted."""
_NOTHING_READY: Final = object()


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
    """A buffer that a thread fills, as long as that is faster than computing without it.

    Once the consumer computes itself, the thread waits. `_changed` guards `_ready`, `_ended`,
    `_closed`, `_thread`, `_rests` and `_fills`.
    """

    def __init__(self, source: ElementIterator, size: int, way: FasterWay) -> None:
        self._source, self._size, self._way = source, size, way
        self._changed = threading.Condition()
        self._ready: deque[Element | Exception] = deque()
        self._ended = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._rests = False
        self._fills = False
        self._step = BackgroundStep()

    def next(self, step: Any) -> Element | None:
        if self._rests == self._way.by_threads:
            with self._changed:
                self._rests = not self._rests
                self._changed.notify_all()
        if not self._rests and self._thread is None and not self._start():
            return None
        found: Any = wait_for(self._changed, self._take, step)
        if found is _NOTHING_READY:
            found = self._source.next(_ConsumersStep(self._step, step))
            if found is None:
                self._end()
        if isinstance(found, Exception):
            raise found
        self._way.count(self._size + 1)
        return found or None

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _start(self) -> bool:
        """Starts the thread, which `close` then waits for; returns False if it was closed."""
        with self._changed:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._fill, name="sparkflow-prefetch", daemon=True)
                self._fills = True
                thread.start()
                self._thread = thread
            return self._thread is not None

    def _take(self) -> Any:
        if self._ready:
            self._changed.notify_all()
            return self._ready.popleft()
        if self._closed:
            raise CancelledError(message="The iterator was closed")
        if self._ended:
            return ()
        return _NOTHING_READY if self._rests and not self._fills else None

    def _fill(self) -> None:
        item: Element | Exception | None
        with np.errstate(all="ignore"):
            while True:
                try:
                    item = self._source.next(self._step)
                except Exception as error:  # raised when the element is requested
                    item = error
                with self._changed:
                    self._fills = False
                    if item is None:
                        self._ended = True
                    else:
                        self._ready.append(item)
                    self._changed.notify_all()
                    while not self._must_go_on():
                        self._changed.wait()
                    if self._closed or self._ended:
                        return
                    self._fills = True

    def _must_go_on(self) -> bool:
        has_room = not self._rests and len(self._ready) < self._size
        return has_room or self._closed or self._ended

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
    way = FasterWay()
    return Dataset(lambda: _Prefetched(source.iterate(), limit, way), source.length)


def begin_in_thread(size: int, way: FasterWay, dataset: Dataset) -> ElementIterator:
    """Returns an iterator that computes up to `size` elements in advance, where that is faster."""
    return _Prefetched(dataset.iterate(), size, way)


class _MappedInParallel(ElementIterator):
    """Keeps the given number of calls in progress; returns the results in order.

    The consumer's thread makes the calls as long as that is faster than giving them to others.
    `_done` guards `_closed` and `_pool`.
    """

    def __init__(self, source: ElementIterator, call: Call, parallel: int, way: FasterWay) -> None:
        self._source, self._call, self._parallel, self._way = source, call, parallel, way
        self._pool: ThreadPoolExecutor | None = None
        self._pending: deque[Future[Element]] = deque()
        self._done = threading.Condition()
        self._step = BackgroundStep()
        self._ended = False
        self._closed = False

    def next(self, step: Any) -> Element | None:
        if self._way.by_threads:
            self._start(step)
        try:
            if self._pending:
                future = self._pending[0]
                if not future.done():
                    wait_for(self._done, lambda: future.done() or None, step)
                result = self._pending.popleft().result()
            elif self._ended:
                return None
            else:
                self._require_open()
                element = self._source.next(step)
                if element is None:
                    self._ended = True
                    return None
                result = self._call(_ConsumersStep(self._step, step), element)
        except OutOfRangeError:
            self._ended = True
            self._pending.clear()
            return None
        self._way.count(self._parallel)
        return result

    def _require_open(self) -> None:
        if self._closed:
            raise CancelledError(message="The iterator was closed")

    def _start(self, step: Any) -> None:
        while len(self._pending) < self._parallel and not self._ended:
            self._require_open()
            future: Future[Element]
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

    def _run(self, element: Element) -> Element:
        with np.errstate(all="ignore"):
            return self._call(self._step, element)

    def _notify(self, _: Future[Element]) -> None:
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


def mapped_in_parallel(
    source: Dataset, call: Call, parallel: int, way: FasterWay | None = None
) -> Dataset:
    """Maps a function over the elements, with up to `parallel` calls in progress.

    Results keep their order. `AUTOTUNE` for one call per core. Calls are made one after the other
    while that is faster.
    """
    count = (os.cpu_count() or 1) if parallel == AUTOTUNE else parallel
    used = FasterWay() if way is None else way
    return Dataset(lambda: _MappedInParallel(source.iterate(), call, count, used), source.length)
