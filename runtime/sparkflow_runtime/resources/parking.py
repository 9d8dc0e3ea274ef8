"""Parking: suspends a run of a partition when an op would wait, and resumes it later.

An op makes a `Request` to a queue or an accumulator, which is done at once or later. Most ops wait
for it in their thread (`waiting`). Within a `Visit` they do not: `requested` raises `Parked`, which
ends that part of the run, and the run is *parked*. It registers a callback for its request and then
repeats that part, in which `requested` returns the same requests as before. So a waiting run holds
no thread, and all runs that one event unblocks are resumed by one thread, the one that caused the
event, without waking any other.

That thread is busy at that moment. `soon` makes it resume them afterwards, one after another,
however many more these resume (`run_to_completion`); nothing is called while locks are held, or
recursively. Threads that may still wait themselves leave it to another thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from sparkflow_runtime.errors import InternalError, OpError
from sparkflow_runtime.resources.spare_threads import start_thread


@dataclass(slots=True, eq=False)
class Request:
    """An op's request. The lock of its owner guards the fields.

    Attributes:
        done: Whether it has ended, with or without `error`; never reset.
        error: The error that ended it.
        on_done: Called once when it is done, without that lock; must not raise, and must be quick.
    """

    done: bool = False
    error: OpError | None = None
    on_done: Callable[[], None] | None = None

    def fail(self, error: OpError) -> None:
        """Ends it with an error."""
        self.error = error
        self.done = True  # last: once it is set, the other fields may be read without the lock


MOST_GATHERED: Final = 16
"""Maximum number of short calls before the `last` calls run."""

R = TypeVar("R", bound=Request)
T = TypeVar("T")


class Owner(Protocol):
    """The receiver of requests, such as a queue. Thread-safe."""

    def park(self, request: Request, on_done: Callable[[], None]) -> bool:
        """Registers a callback for when a request is done; returns False if it is already."""

    def give_up(self, request: Request, error: OpError) -> None:
        """Ends a request with an error, unless it is done."""


class Parked(BaseException):
    """Raised by an op that would wait; not an error, and no kernel may handle it as one.

    Attributes:
        owner: The request's owner.
        request: The request.
    """

    def __init__(self, owner: Owner, request: Request) -> None:
        super().__init__("A run is parked")
        self.owner = owner
        self.request = request


class Visit:
    """The requests of one part of a run, which are the same in every attempt."""

    __slots__ = ("_made", "_next")

    def __init__(self) -> None:
        self._made: list[tuple[Owner, Request]] = []
        self._next = 0

    def attempt(self, call: Callable[..., T], *args: Any) -> T:
        """Calls a function in which ops of this thread do not wait.

        Raises:
            Parked: An op would wait.
        """
        self._next = 0
        outer, _this_thread.visit = _this_thread.visit, self
        try:
            return call(*args)
        finally:
            _this_thread.visit = outer

    @property
    def is_begun(self) -> bool:
        """Whether any request was made."""
        return bool(self._made)

    def _request(self, make: Callable[[], R], owner: Owner) -> R:
        if self._next == len(self._made):
            self._made.append((owner, make()))
        asked, found = self._made[self._next]
        if asked is not owner:
            raise InternalError(message="A run that was parked asks others than before")
        self._next += 1
        return found  # type: ignore[return-value]  # the same op made it


def requested(make: Callable[[], R], owner: Owner) -> R:
    """Returns an op's request; it must be awaited, unless the thread runs a part that can park.

    Args:
        make: Makes the request.
        owner: The request's owner.

    Raises:
        Parked: It is not done, and the op must not wait.
        OpError: Raised by `make`.
    """
    visit = _this_thread.visit
    if visit is None:
        return make()
    request = visit._request(make, owner)
    if not request.done:
        raise Parked(owner, request)
    return request


def tell(done: Iterable[Request]) -> None:
    """Notifies parked runs of requests that are done; called without the owner's lock."""
    for each in done:
        on_done, each.on_done = each.on_done, None  # which refers to the request
        if on_done is not None:
            on_done()


class _Todo:
    """A thread's pending calls, to run after the current one: `short`, then `last`, then `long`."""

    __slots__ = ("last", "long", "short")

    def __init__(self) -> None:
        self.short: deque[Callable[[], None]] = deque()
        self.last: dict[Callable[[list[Any]], None], list[Any]] = {}
        self.long: deque[Callable[[], None]] = deque()

    def next(self) -> Callable[[], None] | None:
        """Returns the next call; all long ones but one are run concurrently in other threads."""
        if self.short and len(self.last) < MOST_GATHERED:
            return self.short.popleft()
        if self.last:
            call = next(iter(self.last))
            return partial(call, self.last.pop(call))
        if not self.long:
            return None
        first = self.long.popleft()
        while self.long:
            elsewhere(self.long.popleft())
        return first


class _Thread(threading.local):
    """The state of a thread."""

    visit: Visit | None = None
    todo: _Todo | None = None


_this_thread = _Thread()


def run_to_completion(call: Callable[[], None]) -> None:
    """Calls a function that never waits, then all calls that this adds by `soon`.

    Args:
        call: May raise: the others are called nevertheless.
    """
    if _this_thread.todo is not None:
        call()
        return
    todo = _this_thread.todo = _Todo()
    try:
        call()
        while (following := todo.next()) is not None:
            following()
    finally:
        _this_thread.todo = None
        while (left := todo.next()) is not None:
            elsewhere(left)


def soon(call: Callable[[], None], is_short: bool) -> None:
    """Schedules a call for after this thread's current one, or else in another thread.

    Args:
        call: Must neither raise nor wait.
        is_short: Whether it computes almost nothing.
    """
    todo = _this_thread.todo
    if todo is None:
        elsewhere(call)
    else:
        (todo.short if is_short else todo.long).append(call)


def at_the_end(call: Callable[[list[T]], None], given: T) -> None:
    """Schedules a call after this thread's short calls; outside `run_to_completion`, runs it.

    Args:
        call: Receives everything collected for it until then; must not raise. Calls run in the
            order in which they were first scheduled.
        given: An item for it.
    """
    todo = _this_thread.todo
    if todo is None:
        call([given])
    else:
        todo.last.setdefault(call, []).append(given)


def elsewhere(call: Callable[[], None]) -> None:
    """Runs a call in another thread; in this one if no thread can be started.

    Args:
        call: Must not raise.
    """
    try:
        start_thread(call)
    except RuntimeError:
        call()
