"""The running steps of an executable: how they begin, end, fail and are cancelled."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, wait
from typing import Any, Final, TypeVar

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    OpError,
    OutOfRangeError,
    from_status,
    to_status,
)
from sparkflow_runtime.master.links import WorkerLink
from sparkflow_runtime.transport.channel.waking import ThreadWaker

T = TypeVar("T")

_step_numbers = itertools.count(random.SystemRandom().getrandbits(40) << 20)
"""Step ids start at random, so that two masters of one cluster do not meet in a rendezvous."""

_SETTLE_TIMEOUT_S: Final = 10.0
"""How long a failed step waits for its other partitions to say how they ended."""


class RunningSteps:
    """The steps of one executable. Thread-safe; `_lock` guards `_reasons` and `_closed`.

    Args:
        links: The workers that take part in each step.

    Attributes:
        links: The same, each once.
    """

    def __init__(self, links: Sequence[WorkerLink]) -> None:
        self.links = tuple({id(link): link for link in links}.values())
        self._lock = threading.Lock()
        # Why a running step is to end, None while it is not.
        self._reasons: dict[int, OpError | None] = {}
        self._wakers: dict[int, ThreadWaker] = {}
        self._failures: dict[int, OpError] = {}
        self._closed: OpError | None = None

    def begin(self) -> int:
        """The id of a new step, which `cancel` ends from now on.

        Raises:
            OpError: What `close` was called with.
        """
        self.check()
        step_id = next(_step_numbers)
        with self._lock:
            self._reasons[step_id] = None
        return step_id

    def check(self) -> None:
        """Passes until `close` is called; then raises its error."""
        if self._closed is not None:
            raise from_status(*to_status(self._closed))

    def cancel(self, step_id: int, error: OpError) -> None:
        """Ends a step with `error`; one that is over is ignored."""
        with self._lock:
            if step_id not in self._reasons:
                return
            if self._reasons[step_id] is None:
                self._reasons[step_id] = error
            if step_id in self._wakers:
                self._wakers[step_id].wake()
        self._finish(step_id, error)

    def close(self, error: OpError) -> None:
        """Ends every running step with `error`, and lets none begin any more."""
        with self._lock:
            self._closed = error
            running = list(self._reasons)
        for step_id in running:
            self.cancel(step_id, error)

    def run(
        self,
        step_id: int,
        start: Callable[[], Iterable[Future[Any]]],
        *,
        timeout_s: float | None = None,
        ends_early: Callable[[Any], int | None] | None = None,
    ) -> list[Any]:
        """Starts the partitions of a step and waits for all of them.

        Args:
            step_id: From `begin`; the step is over when this returns or raises.
            start: Gives one future per partition.
            timeout_s: How long the step may take.
            ends_early: For loops: after how many steps the others are to end, if a partition's
                result says that its loop ended early.

        Returns:
            The partitions' results, in order.

        Raises:
            OpError: The first failure, or what `cancel` was called with.
        """
        futures: list[Future[Any]] = []
        try:
            self.check()
            futures.extend(start())  # What was started before a failure is in the list, too.
            failed = self._wait(step_id, futures, timeout_s, ends_early)
            if not failed:
                self._check_cancelled(step_id)
                return [future.result() for future in futures]
            first = _first_cause(failed)
            self._finish(step_id, CancelledError(message=f"The step failed elsewhere: {first}"))
            wait(futures, timeout=_SETTLE_TIMEOUT_S)
            raise self._cause(step_id, [*failed, *_failures(futures)])
        finally:
            # Also after Ctrl-C: no partition goes on alone.
            self._finish(step_id, AbortedError(message=f"Step {step_id} is over"))
            with self._lock:
                del self._reasons[step_id]

    def run_here(
        self, step_id: int, call: Callable[[Callable[[], None]], None], is_alone: bool
    ) -> None:
        """Runs a step in this thread.

        Args:
            step_id: From `begin`; the step is over when this returns or raises.
            call: Runs it; what it is given raises when the step was cancelled or has failed.
            is_alone: Whether its one partition ends the step by itself if all goes well.

        Raises:
            OpError: Its failure, or what `cancel` was called with.
        """
        with self._lock:
            self._wakers[step_id] = ThreadWaker.of_this_thread(_pass)
        try:
            call(lambda: self._check_failed(step_id))
            self._check_cancelled(step_id)
        except BaseException as error:
            self._finish(step_id, AbortedError(message=f"Step {step_id} is over"))
            with self._lock:
                first = self._failures.get(step_id)
            failures = [error] if first is None else [first, error]
            raise self._cause(step_id, failures) from None
        else:
            if not is_alone:
                self._finish(step_id, AbortedError(message=f"Step {step_id} is over"))
        finally:
            with self._lock:
                del self._reasons[step_id], self._wakers[step_id]
                self._failures.pop(step_id, None)

    def fail(self, step_id: int, error: OpError) -> None:
        """A partition of a step that `run_here` runs has failed elsewhere; the others end."""
        with self._lock:
            waker = self._wakers.get(step_id)
            if waker is None:
                return
            self._failures.setdefault(step_id, error)
            waker.wake()
        self._finish(step_id, CancelledError(message=f"The step failed elsewhere: {error}"))

    def _check_failed(self, step_id: int) -> None:
        self._check_cancelled(step_id)
        with self._lock:
            error = self._failures.get(step_id)
        if error is not None:
            raise from_status(*to_status(error))

    def _wait(
        self,
        step_id: int,
        futures: Sequence[Future[Any]],
        timeout_s: float | None,
        ends_early: Callable[[Any], int | None] | None,
    ) -> list[BaseException]:
        """The failures there are when something has failed, or none when all is done."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        pending = set(futures)
        told = ends_early is None
        while pending:
            remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
            done, pending = wait(pending, remaining, FIRST_EXCEPTION if told else FIRST_COMPLETED)
            failed = _failures(done)
            if failed:
                return failed
            if not done:
                text = f"Timed out: the step took longer than {timeout_s:g} s"
                self.cancel(step_id, DeadlineExceededError(message=text))
                return _failures(done) or [DeadlineExceededError(message=text)]
            if pending and ends_early is not None and not told:
                found = [ends_early(future.result()) for future in done]
                counts = [count for count in found if count is not None]
                told = bool(counts)
                for link in self.links if told else ():
                    link.end_loop(step_id, min(counts))
        return []

    def _check_cancelled(self, step_id: int) -> None:
        """Passes unless the step was cancelled, even if all of it was done before workers knew."""
        with self._lock:
            reason = self._reasons[step_id]
        if reason is not None:
            raise reason

    def _cause(self, step_id: int, failures: Sequence[BaseException]) -> BaseException:
        first = _first_cause(failures)
        with self._lock:
            reason = self._reasons[step_id]
        if isinstance(reason, CancelledError) and isinstance(first, CancelledError):
            return first if first.located else reason  # it says what was waiting
        # A session that is closed closes its queues, which may be what a task hears of first.
        derived = _DERIVED if self._closed is None else (*_DERIVED, OutOfRangeError)
        return reason if reason is not None and isinstance(first, derived) else first

    def _finish(self, step_id: int, error: OpError) -> None:
        for link in self.links:
            link.finish_step(step_id, error)


def _pass() -> None:
    """Whoever waits says what ends its wait."""


_DERIVED = (AbortedError, CancelledError)
"""What a partition fails with because another one did."""


def _failures(futures: Iterable[Future[Any]]) -> list[BaseException]:
    found: list[BaseException] = []
    for future in futures:
        if future.cancelled():
            found.append(CancelledError(message="The task is shutting down"))
        elif future.done():
            error = future.exception()
            if error is not None:
                found.append(error)
    return found


def _first_cause(failures: Sequence[BaseException]) -> BaseException:
    """The failure that ended the step, rather than those it caused in other partitions."""
    causes = [error for error in failures if not isinstance(error, _DERIVED)]
    located = [error for error in causes if isinstance(error, OpError) and error.located]
    return (located or causes or list(failures))[0]
