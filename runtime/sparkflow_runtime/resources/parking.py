"""How a run of a partition is left where an op would wait, and continued when it need not.

An op asks a queue or an accumulator for something by a `Request`, which is done at once or later.
Most ops wait for that in their thread (`waiting`). Within a `Visit` they do not: `requested` raises
`Parked`, which ends that part of the run, and the run is *parked*. It has something called when its
request is done, and then begins that part again, where `requested` gives the same requests as
before. So a run that waits holds no thread, and several runs that one event ends the wait of are
continued by one thread, the one that caused it, without any thread being woken.

That thread is in the midst of something else then. `soon` has it continue them when that is over,
one after the other, however many more these continue (`run_to_completion`); nothing is called while
locks are held, or from within itself. Threads that may yet wait for something themselves have a
thread of their own do it.
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
    """What an op asks for. The lock of whom it asks guards the fields.

    Attributes:
        done: Whether it is over, with `error` or without; it stays so.
        error: Why nothing comes.
        on_done: Called once when it is done, without that lock; raises nothing, and is quick.
    """

    done: bool = False
    error: OpError | None = None
    on_done: Callable[[], None] | None = None

    def fail(self, error: OpError) -> None:
        """Ends it with an error."""
        self.error = error
        self.done = True  # last: who sees it may look at the rest without the lock


MOST_GATHERED: Final = 16
"""After so many short calls what they have for the end does not wait for more of them."""

R = TypeVar("R", bound=Request)
T = TypeVar("T")


class Owner(Protocol):
    """Whom a request was made to. Thread-safe."""

    def park(self, request: Request, on_done: Callable[[], None]) -> bool:
        """Has something called when a request is done; False, and nothing, if it is."""

    def give_up(self, request: Request, error: OpError) -> None:
        """Ends a request with an error, unless it is done."""


class Parked(BaseException):
    """Raised by an op that would wait; not an error, and no kernel may take it for one.

    Attributes:
        owner: For whom.
        request: For what.
    """

    def __init__(self, owner: Owner, request: Request) -> None:
        super().__init__("A run is parked")
        self.owner = owner
        self.request = request


class Visit:
    """The requests of one part of a run, which makes the same ones in every attempt."""

    __slots__ = ("_made", "_next")

    def __init__(self) -> None:
        self._made: list[tuple[Owner, Request]] = []
        self._next = 0

    def attempt(self, call: Callable[..., T], *args: Any) -> T:
        """Calls something in which ops of this thread do not wait.

        Raises:
            Parked: One would.
        """
        self._next = 0
        outer, _this_thread.visit = _this_thread.visit, self
        try:
            return call(*args)
        finally:
            _this_thread.visit = outer

    @property
    def is_begun(self) -> bool:
        """Whether anything was asked for."""
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
    """The request of an op: to be waited for, unless the thread runs a part that can be left.

    Args:
        make: Asks for it.
        owner: For whom that asks.

    Raises:
        Parked: It is not done, and the op is not to wait.
        OpError: What `make` raises.
    """
    visit = _this_thread.visit
    if visit is None:
        return make()
    request = visit._request(make, owner)
    if not request.done:
        raise Parked(owner, request)
    return request


def tell(done: Iterable[Request]) -> None:
    """Tells parked runs of requests that are done; without the lock of whom they were made to."""
    for each in done:
        on_done, each.on_done = each.on_done, None  # which refers to the request
        if on_done is not None:
            on_done()


class _Todo:
    """What a thread does when what it does now is over: `short` first, then `last`, then `long`."""

    __slots__ = ("last", "long", "short")

    def __init__(self) -> None:
        self.short: deque[Callable[[], None]] = deque()
        self.last: dict[Callable[[list[Any]], None], list[Any]] = {}
        self.long: deque[Callable[[], None]] = deque()

    def next(self) -> Callable[[], None] | None:
        """What comes next; all long ones but one get threads, where they go on side by side."""
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
    """What this module knows of a thread."""

    visit: Visit | None = None
    todo: _Todo | None = None


_this_thread = _Thread()


def run_to_completion(call: Callable[[], None]) -> None:
    """Calls something that never waits, then whatever it and that have `soon` called.

    Args:
        call: It may raise: the others are called nevertheless.
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
    """Has something called by this thread, as soon as what it does is over, or else by another.

    Args:
        call: Raises nothing, and never waits.
        is_short: Whether it computes next to nothing.
    """
    todo = _this_thread.todo
    if todo is None:
        elsewhere(call)
    else:
        (todo.short if is_short else todo.long).append(call)


def at_the_end(call: Callable[[list[T]], None], given: T) -> None:
    """Calls something after the short calls that this thread is to do soon, or else at once.

    Args:
        call: Gets all that was given for it until then; raises nothing. Whichever was the first to
            be given something is called first.
        given: What it is to get.
    """
    todo = _this_thread.todo
    if todo is None:
        call([given])
    else:
        todo.last.setdefault(call, []).append(given)


def elsewhere(call: Callable[[], None]) -> None:
    """Has something called by another thread; by this one where the process can have no more.

    Args:
        call: Raises nothing.
    """
    try:
        start_thread(call)
    except RuntimeError:
        call()
