"""Who goes on where several parts of one step may wait.

A step that has several ops that may wait, none of which follows another, is cut into strands
(`ir.strands`). One thread at a time has the *turn*, and only it runs kernels, so that strands
meet no more than the nodes of a straight line do. A kernel that waits gives up the turn meanwhile
(`others_go_on`), and a thread goes on with what is ready; without such a wait there is no thread.

A Python function may wait in ways that nobody sees from outside. It keeps the turn for `GRACE_S`,
so that functions that do not wait run one after the other, in the same order every time; one that
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
"""How long a Python function may take before others go on without it."""
_IDLE_S: Final = 1.0
"""So long the thread that watches them stays without such functions."""
PATIENCE_S: Final = 0.1
"""How long a step waits before what it computes anyway is tried out."""


class Strand(Protocol):
    """A part of a step; the attributes say whom it waits for and who waits for it."""

    @property
    def before(self) -> int:
        """How many strands must end before it begins."""

    @property
    def after(self) -> Sequence[int]:
        """The numbers of the strands that wait for it."""


class Turns:
    """The turn of one partition's step. Thread-safe: `changed` guards all fields, also of runs.

    Args:
        slow: Keys of the Python functions that took long before; is added to.

    Attributes:
        is_shared: Whether another thread may know of it; until then nothing need be locked. The
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
        """Lets others go on; the caller runs no kernel until `take_back`."""
        self.is_shared = True
        with self.changed:
            self._leave()

    def take_back(self) -> None:
        """Waits for the turn; Ctrl-C is raised once it is there."""
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
        """Has threads look at a run, too."""
        with self.changed:
            self._runs.append(run)

    def end(self, run: StrandRun) -> None:
        """The opposite."""
        with self.changed:
            self._runs.remove(run)

    def next_of(self, run: StrandRun) -> int | None:
        """A strand of a run that the caller, who has the turn, has to run; None at its end."""
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
                    except BaseException as error:  # Ctrl-C: nothing of the step goes on alone
                        run.fail(error)
                run.is_awaited = False
                self._taken = True

    def is_anything_ready(self) -> bool:
        """Whether somebody could go on."""
        with self.changed:
            return any(run.has_ready for run in self._runs)

    def take_from(self, watched: Watched) -> None:
        """Takes the turn from a call that has it, unless it has ended."""
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
        """Runs what is ready, of any run, until nothing is."""
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
    """A call that nobody sees into. The lock of its turns guards the fields.

    Attributes:
        key: What it calls.
        turns: Whose turn it has.
        begun_s: When it began, on the monotonic clock.
        is_over: Whether it has ended.
        lost_turn: Whether others go on meanwhile.
    """

    __slots__ = ("begun_s", "is_over", "key", "lost_turn", "turns")

    def __init__(self, key: object, turns: Turns) -> None:
        self.key = key
        self.turns = turns
        self.begun_s = time.monotonic()
        self.is_over = False
        self.lost_turn = False


class _Watch:
    """One thread of the process that looks at all calls that nobody sees into, while there are any.

    `_lock` guards the fields.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets everything: threads do not follow into a forked child."""
        self._lock = threading.Lock()
        self._calls: set[Watched] = set()
        self._has_thread = False

    def add(self, call: Watched) -> None:
        """Has others go on once the call has taken `GRACE_S`."""
        with self._lock:
            self._calls.add(call)
            needs_thread, self._has_thread = not self._has_thread, True
        if needs_thread:
            start_thread(self._look)

    def remove(self, call: Watched) -> None:
        """It has ended."""
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
        strands: Those.
        call: Runs the strand of a number.
        stop: Ends what the others wait for, once one has failed.

    Attributes:
        error: What the first failure was.
        is_awaited: Whether the thread that began it waits for something to do.
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
        """Whether nothing of it runs, and nothing will."""
        return not self._running and (not self._left or self.error is not None)

    @property
    def has_ready(self) -> bool:
        """Whether a strand could begin."""
        return bool(self._ready) and self.error is None

    def needs_thread(self) -> bool:
        """Whether the thread that began it has something to do."""
        return self.is_over or self.has_ready

    def pop(self) -> int | None:
        """The first strand that is ready, which begins now."""
        if not self.has_ready:
            return None
        self._running += 1
        return heappop(self._ready)

    def execute(self, slow: set[object]) -> None:
        """Runs all strands; blocks until they have ended.

        Args:
            slow: See `Turns`.

        Raises:
            BaseException: The first failure of one.
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
        """Runs a strand that `pop` gave, in the thread that has the turn."""
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
        """Begins no strand any more, and ends what those wait for that run."""
        if self.error is None:
            self.error = error
            self._stop()


_turns: ContextVar[Turns | None] = ContextVar("turns", default=None)
"""What this thread has the turn of."""


class Rehearsal:
    """What a step computes in any case, tried where something else of it waits long.

    What is computed beside its readers, after something that may wait, cannot fail before that has
    ended. Where it waits for `PATIENCE_S`, it is tried out, so that the step fails at once.

    Args:
        attempt: Computes it, and raises where that fails.
    """

    __slots__ = ("_attempt", "_lock")

    def __init__(self, attempt: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._attempt: Callable[[], object] | None = attempt

    @property
    def is_due(self) -> bool:
        """Whether nobody has tried yet."""
        return self._attempt is not None

    def run(self) -> None:
        """Tries, unless somebody has."""
        with self._lock:
            attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt()


_rehearsal: ContextVar[Rehearsal | None] = ContextVar("rehearsal", default=None)


def due_rehearsal() -> Rehearsal | None:
    """What is to be tried after `PATIENCE_S` of waiting, if there is something."""
    found = _rehearsal.get()
    return found if found is not None and found.is_due else None


def begin_rehearsal(attempt: Callable[[], object] | None) -> Token[Rehearsal | None]:
    """Has `attempt` tried where something waits long, until `end_rehearsal`; None: nothing."""
    return _rehearsal.set(None if attempt is None else Rehearsal(attempt))


def end_rehearsal(outer: Token[Rehearsal | None]) -> None:
    """Puts back what there was before `begin_rehearsal`, which gave `outer`."""
    _rehearsal.reset(outer)


@contextmanager
def others_go_on() -> Iterator[None]:
    """Lets the rest of the step go on while this thread waits for something in the block."""
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
    """Calls a function that may wait, and may run other sessions; the rest of the step may go on.

    Args:
        key: What tells the function from others.
        function: It.
        arguments: What it is given.
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
