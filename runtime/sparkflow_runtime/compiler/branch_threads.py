"""The Python threads that run branches of plans, and how a step hands branches to them.

A thread begins when a branch first needs one, waits without using a processor, and stays until the
process ends; a forked child has none until it needs them. A branch for which there is no thread
runs on the step's own when that comes to wait for it, so branches never wait for each other.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
from collections.abc import Callable
from typing import Any

from sparkflow_runtime.codegen import threads
from sparkflow_runtime.errors import InvalidArgumentError

_limit = 0
"""What `set_count` was given; 0 for no limit."""


def count() -> int:
    """How many branches of a step may run at once: as many as kernels have threads, or fewer."""
    processors = threads.count()
    return min(processors, _limit) if _limit else processors


def set_count(number: int) -> None:
    """Limits the branches that run at once in plans made from now on, in the whole process.

    Args:
        number: At most so many; 1 for no branches, 0 for what `count` says without this.

    Raises:
        InvalidArgumentError: The number is negative.
    """
    if number < 0:
        raise InvalidArgumentError(
            message=f"The number of branches must be 0 (the default) or more, got {number}"
        )
    global _limit
    _limit = number


class _Task:
    """A branch that runs, or will."""

    __slots__ = ("_arguments", "_context", "_function", "done", "error", "values")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments
        self._context = contextvars.copy_context()  # numpy's settings of the step's thread
        self.done = threading.Lock()
        self.done.acquire()
        self.values: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.values = self._context.run(self._function, *self._arguments)
        except BaseException as error:  # it is raised where the branch is waited for
            self.error = error
        finally:
            del self._function, self._arguments, self._context


class _Worker:
    """A thread that runs one task after the other."""

    def __init__(self, number: int) -> None:
        self._task: _Task | None = None
        self._given = threading.Lock()
        self._given.acquire()
        self.thread = threading.Thread(
            target=self._work, name=f"sparkflow-branch-{number}", daemon=True
        )
        self.thread.start()

    def give(self, task: _Task | None) -> None:
        """Has it run a task; None ends the thread."""
        self._task = task
        self._given.release()

    def _work(self) -> None:
        while True:
            self._given.acquire()
            task, self._task = self._task, None
            if task is None:
                return
            task.run()
            _idle.append(self)  # before the step goes on, which may have the next task
            task.done.release()
            del task  # what it gave is not to live until then


_lock = threading.Lock()
"""Guards the making of workers."""
_workers: list[_Worker] = []
_idle: list[_Worker] = []
"""Workers without a task; appending and popping are atomic."""
_is_closed = False


def _hand_over(task: _Task) -> bool:
    """Gives a task to a thread; False if there is none for it."""
    try:
        worker = _idle.pop()
    except IndexError:
        made = _new_worker()
        if made is None:
            return False
        worker = made
    worker.give(task)
    return True


def _new_worker() -> _Worker | None:
    with _lock:
        if _is_closed or len(_workers) >= count() - 1:
            return None
        if not _workers:
            atexit.register(_close)
            os.register_at_fork(after_in_child=_forget)
        try:
            worker = _Worker(len(_workers))
        except RuntimeError:  # the system has no more threads, which costs speed only
            return None
        _workers.append(worker)
        return worker


def _close() -> None:
    """Ends the threads; branches of steps that still run go on without them."""
    global _is_closed
    _is_closed = True
    while _idle:
        worker = _idle.pop()
        worker.give(None)
        worker.thread.join()


def _forget() -> None:
    """In a forked child: its parent's threads are not there, and nobody holds the lock."""
    global _lock
    _lock = threading.Lock()
    _workers.clear()
    _idle.clear()


class Branches:
    """The branches of one fork of one step; for the thread of that step.

    Args:
        fill: Whether the branches take all processors, so that kernels in them are not to be
            divided among more threads.
    """

    __slots__ = ("_fill", "_holds", "_tasks", "_waiting")

    def __init__(self, fill: bool) -> None:
        self._fill = fill
        self._holds = False
        self._tasks: list[_Task] = []
        self._waiting: list[_Task] = []

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Runs a branch on another thread, if there is one; not before it is waited for if not."""
        if self._fill and not self._holds:
            threads.hold_pool()
            self._holds = True
        task = _Task(function, arguments)
        self._tasks.append(task)
        if not _hand_over(task):
            self._waiting.append(task)

    def values(self) -> list[Any]:
        """What each branch returned, in the order in which they were started.

        Raises:
            BaseException: What the first branch raised that failed. All have ended then.
        """
        for task in self._waiting:
            task.run()
            task.done.release()
        self._wait()
        for task in self._tasks:
            if task.error is not None:
                raise task.error
        values = [task.values for task in self._tasks]
        self._tasks.clear()  # they are not to outlive their last use
        return values

    def abandon(self) -> None:
        """Waits for the branches that were started, whatever they raise; begins no others."""
        for task in self._waiting:
            self._tasks.remove(task)
        self._wait()

    def _wait(self) -> None:
        """The step's memory is theirs until they end, so nothing may cut this short."""
        interruption: BaseException | None = None
        for task in self._tasks:
            while True:
                try:
                    task.done.acquire()
                    break
                except BaseException as error:  # a signal's handler raised it
                    interruption = error
        if self._holds:
            self._holds = False
            threads.release_pool()
        if interruption is not None:
            raise interruption
