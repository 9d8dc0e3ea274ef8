"""The rendezvous of one step: values wait for receivers, receivers wait for values.

A key is received exactly once per iteration of the step loop. Blocking waits end with the value,
with the end of the loop, or with the error that ended the step.

A sender may be `MAX_AHEAD` iterations ahead of its receiver, then it waits: otherwise a partition
that only sends would fill the memory. This cannot deadlock: partitions receive and send in one
global order (see `passes.partition`), and a sender waits for something at least one iteration
earlier in that order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from sparkflow_runtime.errors import (
    CancelledError,
    Code,
    DeadlineExceededError,
    OpError,
    OutOfRangeError,
    from_status,
    to_status,
)

if TYPE_CHECKING:
    from sparkflow_runtime.transport.channel.serving import Sink

MAX_AHEAD: Final = 2
"""Maximum number of values of one key that may wait for their receiver."""
_NEVER: Final = 1 << 62


class EndOfLoop(OutOfRangeError):
    """Raised when a peer's data ended before this iteration: the loop ends without an error."""

    def __init__(self) -> None:
        super().__init__(message="The loop of a peer has ended")
        self.located = True


class StepRendezvous:
    """The rendezvous of one step on one task. Safe to use from several threads.

    `_lock` guards all fields but `session`; `_ready` signals changes.

    Attributes:
        session: The session whose step it is, once a partition of it has begun here; "" before.
    """

    def __init__(self) -> None:
        self.session = ""
        # Used directly, as `Condition` enters it in Python code, which is slower.
        self._lock = threading.RLock()
        self._ready = threading.Condition(self._lock)
        self._values: dict[tuple[str, int], Any] = {}
        self._waiting: dict[str, int] = {}
        self._ended_at: dict[str, int] = {}
        self._limit = _NEVER
        self._begun: dict[object, int] = {}
        self._held = False
        self._status: tuple[int, str] | None = None
        self._callbacks: dict[int, tuple[int, Callable[[], None]]] = {}
        self._next_callback = 0
        self._takers: dict[str, Sink] = {}

    def send(
        self,
        key: str,
        iteration: int,
        values: tuple[Any, ...],
        lent: Sequence[int],
        keep: Callable[[tuple[Any, ...]], Any],
    ) -> None:
        """Sends values to the task that has requested them; keeps them here until one does.

        Args:
            key: The key of the values.
            iteration: The iteration of the loop.
            values: They may change once this returns.
            lent: See `Sink`.
            keep: Returns the values in a form that can be kept here.

        Raises:
            EndOfLoop: The loop ended before this iteration.
            OpError: The error with which the step was aborted, or the other task is gone.
        """
        kept: Any = None
        is_kept = False
        while True:
            with self._lock:
                self._check(iteration)
                taker = self._takers.get(key)
                if taker is None and is_kept:
                    if self._waiting.get(key, 0) < MAX_AHEAD:
                        self._values[key, iteration] = kept, lent
                        self._waiting[key] = self._waiting.get(key, 0) + 1
                        self._ready.notify_all()
                        return
                    self._ready.wait()
                    continue
            if taker is None:
                kept, is_kept = keep(values), True
                continue
            taker.send(iteration, values, lent, lambda: self.check(iteration))
            self._drop_if_done(key, taker, iteration + 1)
            return

    def subscribe(self, key: str, taker: Sink) -> None:
        """Sends the values of a key to a task that requests them, beginning with those kept here.

        Raises:
            OpError: The error with which the step was aborted.
        """
        source = key.partition("-")[0]
        with taker.ordered:
            with self._lock:
                self._raise_error()
                places = sorted(place for place in self._values if place[0] == key)
                there = [(place[1], self._values.pop(place)) for place in places]
                self._waiting.pop(key, None)
                self._takers[key] = taker
                ended = min(self._limit, self._ended_at.get(source, _NEVER))
                self._ready.notify_all()
            for iteration, (values, lent) in there:
                taker.send(iteration, values, lent, lambda: None)
                self._drop_if_done(key, taker, iteration + 1)
        if ended < _NEVER:
            taker.end(ended)

    def unsubscribe(self, key: str, taker: Sink) -> None:
        """Undoes `subscribe`."""
        with self._lock:
            if self._takers.get(key) is taker:
                del self._takers[key]

    def _drop_if_done(self, key: str, taker: Sink, next_iteration: int) -> None:
        if not taker.wants(next_iteration):
            self.unsubscribe(key, taker)

    def put(self, key: str, iteration: int, value: Any) -> None:
        """Keeps a value for its receiver; waits while `MAX_AHEAD` earlier ones are pending.

        Raises:
            EndOfLoop: The loop ended before this iteration.
            OpError: The error with which the step was aborted.
        """
        self.send(key, iteration, value, (), lambda value: value)

    def take(
        self,
        key: str,
        iteration: int,
        timeout_s: float | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> Any:
        """Waits for the value of this key and iteration and removes it.

        Args:
            key: The value's key; starts with its partition's number and "-".
            iteration: The iteration of the loop.
            timeout_s: How long to wait at most.
            wanted: Whether the value is still needed; called again after `wake`.

        Raises:
            EndOfLoop: The loop ended before this iteration's value was sent.
            CancelledError: `wanted` returned False.
            DeadlineExceededError: Nothing arrived for `timeout_s` seconds.
            OpError: The error with which the step was aborted.
        """
        place = (key, iteration)
        source = key.partition("-")[0]

        def settled() -> bool:
            return (
                place in self._values
                or self._status is not None
                or iteration >= min(self._limit, self._ended_at.get(source, _NEVER))
                or not wanted()
            )

        with self._lock:
            if not self._ready.wait_for(settled, timeout_s):
                raise DeadlineExceededError(
                    message=f"Nothing was sent for {key!r} (iteration {iteration}) "
                    f"for {timeout_s:g} s"
                )
            if not wanted():
                raise CancelledError(message=f"Nothing waits for {key!r} any longer")
            if place in self._values:
                self._waiting[key] -= 1
                self._ready.notify_all()
                return self._values.pop(place)[0]
            self._raise_error()
            raise EndOfLoop

    def wake(self) -> None:
        """Makes every `take` call `wanted` again."""
        with self._lock:
            self._ready.notify_all()

    def drain(
        self, timeout_s: float, of: Callable[[str, int], bool] = lambda key, iteration: True
    ) -> bool:
        """Waits until all values were received or the step is over; returns False on timeout.

        Args:
            timeout_s: How long to wait at most.
            of: Whether to wait for the value of a given key and iteration.
        """
        with self._lock:
            return self._ready.wait_for(
                lambda: not any(of(key, iteration) for key, iteration in self._values), timeout_s
            )

    def end(self, source: str, iteration: int) -> None:
        """Declares that partition `source` sends nothing from this iteration on."""
        with self._lock:
            self._ended_at[source] = min(iteration, self._ended_at.get(source, _NEVER))
            takers = [t for key, t in self._takers.items() if key.partition("-")[0] == source]
            self._ready.notify_all()
        for taker in takers:
            taker.end(iteration)

    def begin(self, partition: object, iteration: int) -> None:
        """Returns when a partition may begin this iteration; waits while the step is held.

        Args:
            partition: Any value that identifies the partition within the step; begins with
                iteration 0.
            iteration: The iteration.

        Raises:
            EndOfLoop: The loop ended before this iteration.
            OpError: The error with which the step was aborted.
        """
        if not iteration:
            with self._lock:  # The dictionary that `hold` iterates over grows only here.
                self._begun[partition] = 0
        # Written first and checked second, without a lock: either `hold` counts this iteration, or
        # this sees that the step is held.
        self._begun[partition] = iteration + 1
        if self._held or self._status is not None or iteration >= self._limit:
            with self._lock:
                self._ready.wait_for(lambda: not self._held or self._status is not None)
                self._check(iteration)

    def hold(self) -> int:
        """Lets no partition begin an iteration until `limit`; returns the largest number begun."""
        with self._lock:
            self._held = True
            return max(self._begun.values(), default=0)

    def limit(self, num_iterations: int) -> None:
        """Ends the loop of every partition here after this many iterations."""
        with self._lock:
            self._limit = min(num_iterations, self._limit)
            self._held = False
            over = [n for n, (turn, _) in self._callbacks.items() if turn >= self._limit]
            callbacks = [self._callbacks.pop(number)[1] for number in over]
            takers = list(self._takers.values())
            self._ready.notify_all()
        for callback in callbacks:
            callback()
        for taker in takers:
            taker.end(num_iterations)

    def abort(self, error: BaseException) -> None:
        """Ends every present and future wait of this step with `error`; the first error is kept.

        Only its code and message are kept: the traceback would keep tensors alive.
        """
        self.end_with(to_status(error))

    def end_with(self, status: tuple[int, str]) -> None:
        """As `abort`, given an error's code and message: a step that succeeded creates no error."""
        with self._lock:
            if self._status is not None:
                return
            self._status = status
            self._values.clear()
            self._waiting.clear()
            callbacks = [callback for _, callback in self._callbacks.values()]
            self._callbacks.clear()
            takers = list(self._takers.values())
            self._takers.clear()
            self._ready.notify_all()
        for callback in callbacks:
            callback()
        for taker in takers:
            taker.fail(from_status(*status))

    def check(self, iteration: int) -> None:
        """Returns if the step is in progress and this iteration belongs to its loop.

        Raises:
            EndOfLoop: The loop ended before this iteration.
            OpError: The error with which the step was aborted.
        """
        if self._status is not None or iteration >= self._limit:
            with self._lock:
                self._check(iteration)

    def on_abort(self, callback: Callable[[], None], iteration: int = -1) -> Callable[[], None]:
        """Calls `callback` once when the step is aborted, at once if it was.

        Args:
            callback: What to call; in any thread.
            iteration: The waiting iteration: `callback` is also called when the loop ends before
                it.

        Returns:
            A function that removes the callback.
        """
        with self._lock:
            number = self._next_callback
            self._next_callback += 1
            over = self._status is not None or iteration >= self._limit
            if not over:
                self._callbacks[number] = (iteration, callback)
        if over:
            callback()

        def undo() -> None:
            with self._lock:
                self._callbacks.pop(number, None)

        return undo

    def _check(self, iteration: int) -> None:
        self._raise_error()
        if iteration >= self._limit:
            raise EndOfLoop

    def _raise_error(self) -> None:
        # Each thread raises an instance of its own: a traceback belongs to one of them.
        if self._status is not None:
            raise from_status(*self._status)


class RendezvousTable:
    """The step rendezvous of one task, by step id.

    A peer may ask for a tensor of a step before this task has heard of the step, so both ends
    create the entry. `_lock` guards all fields.
    """

    MAX_FINISHED = 4096

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[int, StepRendezvous] = {}
        self._finished: dict[int, tuple[int, str]] = {}
        self._closed: tuple[int, str] | None = None

    def find(self, step_id: int) -> StepRendezvous:
        """Returns the rendezvous of a step; creates it if there is none.

        Raises:
            OpError: The step is over (its error, else AbortedError), or the table was closed.
        """
        with self._lock:
            status = self._closed or self._finished.get(step_id)
            if status is not None:
                raise from_status(*status)
            found = self._steps.get(step_id)
            if found is None:
                found = self._steps[step_id] = StepRendezvous()
            return found

    def running(self) -> list[int]:
        """Returns the steps that are not over."""
        with self._lock:
            return list(self._steps)

    def peek(self, step_id: int) -> StepRendezvous | None:
        """Returns the rendezvous of a step, if there is one."""
        with self._lock:
            return self._steps.get(step_id)

    def finish(self, step_id: int, error: OpError | None = None) -> None:
        """Forgets a step; its remaining waits end with `error`, or an AbortedError."""
        status: tuple[int, str] = (Code.ABORTED, f"Step {step_id} is over")
        if error is not None:
            status = to_status(error)
        with self._lock:
            step = self._steps.pop(step_id, None)
            self._finished[step_id] = status
            while len(self._finished) > self.MAX_FINISHED:
                del self._finished[next(iter(self._finished))]
        if step is not None:
            step.end_with(status)

    def finish_all_of(self, session: str) -> None:
        """Forgets the steps of a session that has ended.

        A master reports when a step is over, but may die before that; values that nobody received
        would then stay here.
        """
        with self._lock:
            left = [number for number, step in self._steps.items() if step.session == session]
        for number in left:
            self.finish(number, CancelledError(message=f"Session {session!r} is gone"))

    def close(self, error: OpError) -> None:
        """Ends every present and future step with `error`, for the shutdown of the task."""
        with self._lock:
            self._closed = to_status(error)
            steps, self._steps = list(self._steps.values()), {}
        for step in steps:
            step.abort(error)
