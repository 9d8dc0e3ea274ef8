"""Schedules the strands of a step, several of which may wait.

A step with several ops that may wait and do not depend on each other is cut into strands
(`ir.strands`). One thread at a time has the *turn*, and only it runs kernels, so strands interact
no more than the nodes of a sequence do. A waiting kernel gives up the turn meanwhile
(`others_go_on`), and another thread runs what is ready; without such a wait there is no thread.

Whether a Python function waits cannot be observed from outside. It keeps the turn for `GRACE_S`, so
that functions that do not wait run one after another, always in the same order; a function that
took longer once gives up the turn at once from then on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token, copy_context
from heapq import heappop, heappush
from typing import Any, Final, Protocol

import numpy as np

from sparkflow_runtime.resources.spare_threads import start_thread

GRACE_S: Final = 0.02
"""How long a Python function keeps the turn."""
_IDLE_S: Final = 1.0
"""An idle watching thread ends after this time."""
PATIENCE_S: Final = 0.1
"""How long a step waits before it tries out what it computes in any case."""


class Strand(Protocol):
    """A strand of a step, with its dependencies."""

    @property
    def before(self) -> int:
        """The number of strands that must end before it begins."""

    @property
    def after(self) -> Sequence[int]:
        """The numbers of the strands that wait for it."""


class Turns:
    """The turn of one partition's step. Thread-safe: `changed` guards all fields, also of runs.

    Args:
        slow: Keys of the Python functions that took long before; is updated.

    Attributes:
        is_shared: Whether another thread may know of it; until then no locking is needed. The
            thread that has the turn sets it.
    """

    def __init__(self, slow: set[object]) -> None:
        self.changed = threading.Condition(threading.Lock())
        self.slow = slow
        self.is_shared = False
        self._context = copy_context()
        self._taken = True
        self._runs: list[StrandRun] = []
        self._is_thread_coming = False

    def give_up(self) -> None:
        """Gives up the turn; the caller runs no kernel until `take_back`."""
        self.is_shared = True
        with self.changed:
            self._leave()

    def take_back(self) -> None:
        """Waits for the turn; Ctrl-C is raised once the turn is held."""
        interrupted: BaseException | None = None
        with self.changed:
            while self._taken:
                try:
                    self.changed.wait()
                except BaseException as error:
                    interrupted = error
            self._taken = True
        if interrupted is not None:
            raise interrupted

    def begin(self, run: StrandRun) -> None:
        """Adds a run to those that threads execute."""
        with self.changed:
            self._runs.append(run)

    def end(self, run: StrandRun) -> None:
        """Removes a run."""
        with self.changed:
            self._runs.remove(run)

    def next_of(self, run: StrandRun) -> int | None:
        """Returns the next strand for the caller, which has the turn; None at the run's end."""
        if not self.is_shared:
            number = run.pop()
            return number if number is not None or run.is_over else self._next_shared(run)
        return self._next_shared(run)

    def _next_shared(self, run: StrandRun) -> int | None:
        with self.changed:
            while True:
                if run.is_over:
                    return None
                number = run.pop()
                if number is not None:
                    return number
                run.is_awaited = True
                self._leave()
                while self._taken or not run.needs_thread():
                    try:
                        self.changed.wait()
                    except BaseException as error:  # Ctrl-C: no part of the step continues alone
                        run.fail(error)
                run.is_awaited = False
                self._taken = True

    def is_anything_ready(self) -> bool:
        """Whether any strand is ready."""
        with self.changed:
            return any(run.has_ready for run in self._runs)

    def take_from(self, watched: Watched) -> None:
        """Takes the turn away from a call, unless the call has ended."""
        with self.changed:
            if not watched.is_over:
                watched.lost_turn = True
                self.slow.add(watched.key)
                self._leave()

    def _leave(self) -> None:
        self._taken = False
        self.changed.notify_all()
        ready = [run for run in self._runs if run.has_ready]
        if ready and not self._is_thread_coming and not any(run.is_awaited for run in ready):
            self._is_thread_coming = True
            self._start(self._help)

    def _start(self, call: Callable[[], object]) -> None:
        context = self._context.copy()
        start_thread(lambda: context.run(call))

    def _help(self) -> None:
        """Runs ready strands of all runs until there are none."""
        with self.changed:
            self._is_thread_coming = False
            while self._taken:
                self.changed.wait()
            self._taken = True
        _turns.set(self)
        with np.errstate(all="ignore"):
            while True:
                with self.changed:
                    found = self._any_ready()
                    if found is None:
                        self._leave()
                        return
                run, number = found
                run.perform(number)

    def _any_ready(self) -> tuple[StrandRun, int] | None:
        for run in reversed(self._runs):
            number = run.pop()
            if number is not None:
                return run, number
        return None


class Watched:
    """An opaque call. The lock of its turns guards the fields.

    Attributes:
        key: What it calls.
        turns: The turns of its step.
        begun_s: Its start, on the monotonic clock.
        is_over: Whether it has ended.
        lost_turn: Whether it has lost the turn.
    """

    __slots__ = ("begun_s", "is_over", "key", "lost_turn", "turns")

    def __init__(self, key: object, turns: Turns) -> None:
        self.key = key
        self.turns = turns
        self.begun_s = time.monotonic()
        self.is_over = False
        self.lost_turn = False


class _Watch:
    """The thread of the process that watches opaque calls, while there are any.

    `_lock` guards the fields.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Clears everything: a forked child has no such thread."""
        self._lock = threading.Lock()
        self._calls: set[Watched] = set()
        self._has_thread = False

    def add(self, call: Watched) -> None:
        """Watches a call, which loses the turn after `GRACE_S`."""
        with self._lock:
            self._calls.add(call)
            needs_thread, self._has_thread = not self._has_thread, True
        if needs_thread:
            start_thread(self._look)

    def remove(self, call: Watched) -> None:
        """Records that a call has ended."""
        with self._lock:
            self._calls.discard(call)

    def _look(self) -> None:
        last_s = time.monotonic()
        while True:
            time.sleep(GRACE_S / 2)
            now_s = time.monotonic()
            with self._lock:
                if self._calls:
                    last_s = now_s
                elif now_s - last_s > _IDLE_S:
                    self._has_thread = False
                    return
                late = [call for call in self._calls if now_s - call.begun_s > GRACE_S]
                self._calls.difference_update(late)
            for call in late:
                call.turns.take_from(call)


_watch = _Watch()
os.register_at_fork(after_in_child=_watch.reset)


class StrandRun:
    """One run of the strands of a partition, or of a function.

    Args:
        strands: The strands.
        call: Runs the strand with a given number.
        stop: Ends the waits of the others, once one has failed.

    Attributes:
        error: The first failure.
        is_awaited: Whether the thread that started it waits for work.
    """

    def __init__(
        self,
        strands: Sequence[Strand],
        call: Callable[[int], object],
        stop: Callable[[], object],
    ) -> None:
        self.error: BaseException | None = None
        self.is_awaited = False
        self._strands = strands
        self._call = call
        self._stop = stop
        self._before = [strand.before for strand in strands]
        self._ready = [number for number, count in enumerate(self._before) if not count]
        self._left = len(strands)
        self._running = 0
        self._turns: Turns

    @property
    def is_over(self) -> bool:
        """Whether no strand runs, and none will."""
        return not self._running and (not self._left or self.error is not None)

    @property
    def has_ready(self) -> bool:
        """Whether a strand is ready."""
        return bool(self._ready) and self.error is None

    def needs_thread(self) -> bool:
        """Whether the thread that started it has work."""
        return self.is_over or self.has_ready

    def pop(self) -> int | None:
        """Removes and returns the first ready strand, which begins now."""
        if not self.has_ready:
            return None
        self._running += 1
        return heappop(self._ready)

    def execute(self, slow: set[object]) -> None:
        """Runs all strands; blocks until they have ended.

        Args:
            slow: See `Turns`.

        Raises:
            BaseException: The first failure of a strand.
        """
        outer = _turns.get()
        turns = self._turns = Turns(slow) if outer is None else outer
        token = None if outer is not None else _turns.set(turns)
        turns.begin(self)
        try:
            while (number := turns.next_of(self)) is not None:
                self.perform(number)
        finally:
            turns.end(self)
            if token is not None:
                _turns.reset(token)
        if self.error is not None:
            raise self.error

    def perform(self, number: int) -> None:
        """Runs a strand returned by `pop`, in the thread that has the turn."""
        error: BaseException | None = None
        try:
            self._call(number)
        except BaseException as raised:  # raised again by `execute`
            error = raised
        if self._turns.is_shared:
            with self._turns.changed:
                self._end(number, error is None)
        else:
            self._end(number, error is None)
        if error is not None:
            self.fail(error)

    def _end(self, number: int, is_done: bool) -> None:
        self._running -= 1
        self._left -= 1
        for follower in self._strands[number].after if is_done else ():
            self._before[follower] -= 1
            if not self._before[follower]:
                heappush(self._ready, follower)

    def fail(self, error: BaseException) -> None:
        """Starts no more strands, and ends the waits of running ones."""
        if self.error is None:
            self.error = error
            self._stop()


_turns: ContextVar[Turns | None] = ContextVar("turns", default=None)
"""The turns that this thread holds."""


class Rehearsal:
    """What a step computes in any case, tried out while another part of it waits long.

    A value computed next to its readers, after an op that may wait, cannot fail before that op has
    ended. If the op waits for `PATIENCE_S`, the value is tried out, so that the step fails at once.

    Args:
        attempt: Computes it; raises if that fails.
    """

    __slots__ = ("_attempt", "_lock")

    def __init__(self, attempt: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._attempt: Callable[[], object] | None = attempt

    @property
    def is_due(self) -> bool:
        """Whether it has not been tried yet."""
        return self._attempt is not None

    def run(self) -> None:
        """Tries it, unless that was done already."""
        with self._lock:
            attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt()


_rehearsal: ContextVar[Rehearsal | None] = ContextVar("rehearsal", default=None)


def due_rehearsal() -> Rehearsal | None:
    """The rehearsal to try after `PATIENCE_S` of waiting, if any."""
    found = _rehearsal.get()
    return found if found is not None and found.is_due else None


def begin_rehearsal(attempt: Callable[[], object] | None) -> Token[Rehearsal | None]:
    """Sets the attempt that long waits try, until `end_rehearsal`; None for none."""
    return _rehearsal.set(None if attempt is None else Rehearsal(attempt))


def end_rehearsal(outer: Token[Rehearsal | None]) -> None:
    """Restores the state before `begin_rehearsal`, which returned `outer`."""
    _rehearsal.reset(outer)


@contextmanager
def others_go_on() -> Iterator[None]:
    """Lets the rest of the step continue while this thread waits in the body."""
    turns = _turns.get()
    if turns is None:
        yield
        return
    turns.give_up()
    try:
        yield
    finally:
        turns.take_back()


def call_unseen(key: object, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function that may wait and may run other sessions; the step continues meanwhile.

    Args:
        key: Identifies the function.
        function: The function.
        arguments: Its arguments.
    """
    turns = _turns.get()
    if turns is None:
        outer = begin_rehearsal(None)
        try:
            return function(*arguments)
        finally:
            end_rehearsal(outer)
    watched = Watched(key, turns)
    if key in turns.slow or not turns.is_anything_ready():
        watched.lost_turn = True
        turns.give_up()
    else:
        turns.is_shared = True
        _watch.add(watched)
    token, outer = _turns.set(None), begin_rehearsal(None)
    try:
        return function(*arguments)
    finally:
        _turns.reset(token)
        end_rehearsal(outer)
        _watch.remove(watched)
        with turns.changed:
            watched.is_over = True
            must_wait = watched.lost_turn
        if must_wait:
            turns.take_back()
