"""The running steps of an executable: how they begin, end, fail and are cancelled.

All partitions but one are started on their workers; that one runs in the calling thread; then the
others are awaited, one after another. The first failure ends the rest on all workers; so do a
cancellation, the closing of the session and an expired deadline.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    OpError,
    OutOfRangeError,
    from_status,
    to_status,
)

if TYPE_CHECKING:
    from sparkflow_runtime.transport.waking import Waker
    from sparkflow_runtime.worker.step import Shortcuts

_SETTLE_TIMEOUT_S: Final = 10.0
"""How long a failed step waits for its other partitions to report how they ended."""


class StepIds:
    """Numbers steps from a random start on, so that those of two masters share no rendezvous.

    A forked process gets a different start.

    Args:
        first: The bits that all of them have.

    Attributes:
        unused: The step ids, for `next`.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self.draw()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.draw)

    def draw(self) -> None:
        """Draws a new start."""
        self.unused = itertools.count(self._first | random.SystemRandom().getrandbits(40) << 20)


_step_ids: Final = StepIds()


class FinishesSteps(Protocol):
    """A worker, see `links.WorkerLink`."""

    def finish_step(self, step_id: int, error: OpError | None = None) -> None:
        """Ends and forgets a step."""


class Pending(Protocol):
    """A partition that was started."""

    @property
    def ends_step(self) -> bool:
        """Whether its worker forgets the step by itself when the partition ends well."""

    def end(self, step: RunningStep) -> Any:
        """Waits for it in the calling thread; returns its results.

        Raises:
            OpError: It failed, or see `RunningStep.check`.
        """


class StepTimedOutError(DeadlineExceededError):
    """A step exceeded its own timeout, as opposed to an op's."""


class RunningStep:
    """One step. Thread-safe; the lock of its `RunningSteps` guards the fields about its end.

    Attributes:
        id: Its id on the workers.
        timeout_s: How long it may take; None: no limit.
        reason: Why it was cancelled; None if it was not.
        failures: The errors of partitions that no thread currently waits for.
        has_part_here: Whether a partition in this process runs after the remote ones have started.
        shortcuts: That partition's bundles that need no request.
        waker: The waker of the thread that runs it, which may wait on a socket.
    """

    __slots__ = (
        "_deadline",
        "_steps",
        "failures",
        "has_part_here",
        "id",
        "reason",
        "shortcuts",
        "timeout_s",
        "waker",
    )

    def __init__(self, steps: RunningSteps[Any], timeout_s: float | None) -> None:
        self.id = next(_step_ids.unused)
        self.timeout_s = timeout_s
        self.reason: OpError | None = None
        self.failures: list[BaseException] = []
        self.has_part_here = False
        self.shortcuts: Shortcuts | None = None
        self.waker: Waker | None = None
        self._steps = steps
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s

    def cancel(self, error: OpError) -> None:
        """Ends the step with `error`; does nothing if it is over."""
        self._steps.cancel(self, error)

    def fail(self, error: BaseException) -> None:
        """Records the failure of a partition that no thread currently waits for; the others end."""
        self._steps.fail(self, error)

    def check(self) -> None:
        """Returns while the step is in progress.

        Raises:
            OpError: The error with which it was cancelled or a partition failed.
        """
        if self.reason is not None:
            raise self.reason
        if self.failures:
            raise from_status(*to_status(self.failures[0]))

    def wait_for(self, future: Future[Any]) -> Any:
        """Waits until a partition has ended, or something else ends the step.

        Raises:
            StepTimedOutError: The step takes too long.
            OpError: The partition failed, or see `check`.
        """
        changed = self._steps.changed
        with changed:
            while not (future.done() or self.reason is not None or self.failures):
                left_s = None if self._deadline is None else self._deadline - time.monotonic()
                if left_s is not None and left_s <= 0:
                    break
                changed.wait(left_s)
        if future.cancelled():
            raise CancelledError(message="The task is shutting down")
        if future.done():
            return future.result()
        self.check()
        text = f"Timed out: the step took longer than {self.timeout_s:g} s"
        raise StepTimedOutError(message=text)


class InBackground:
    """A partition that another thread runs or awaits.

    Args:
        step: Notified when the partition has ended.
        future: The partition's results.
    """

    ends_step = False

    def __init__(self, step: RunningStep, future: Future[Any]) -> None:
        self.future = future
        changed = step._steps.changed

        def ended(_: Future[Any]) -> None:
            failed = failure_of(future)
            if failed is not None:
                step.fail(failed)
            with changed:
                changed.notify_all()

        future.add_done_callback(ended)

    def end(self, step: RunningStep) -> Any:
        """See `Pending`."""
        return step.wait_for(self.future)


LinkT = TypeVar("LinkT", bound=FinishesSteps)


class RunningSteps(Generic[LinkT]):
    """The running steps of one executable. Thread-safe; `_lock`, the lock of `changed`, guards all.

    Args:
        links: The workers that take part in each step.

    Attributes:
        links: The workers, each once.
        changed: Notified whenever something may end a wait.
    """

    def __init__(self, links: Sequence[LinkT]) -> None:
        self.links = tuple({id(link): link for link in links}.values())
        # Used directly, as `Condition` enters it in Python code, which is slower.
        self._lock = threading.Lock()
        self.changed = threading.Condition(self._lock)
        self._running: set[RunningStep] = set()
        self._closed: OpError | None = None

    def begin(self, timeout_s: float | None = None) -> RunningStep:
        """Returns a new step, which can be cancelled from now on.

        Raises:
            OpError: The error with which `close` was called.
        """
        self.check()
        step = RunningStep(self, timeout_s)
        with self._lock:
            self._running.add(step)
        return step

    def check(self) -> None:
        """Raises the error with which `close` was called, if it was."""
        if self._closed is not None:
            raise from_status(*to_status(self._closed))

    def cancel(self, step: RunningStep, error: OpError) -> None:
        """See `RunningStep.cancel`."""
        with self._lock:
            if step not in self._running:
                return
            if step.reason is None:
                step.reason = error
            self._wake(step)
        self._finish(step, error)

    def fail(self, step: RunningStep, error: BaseException) -> None:
        """See `RunningStep.fail`."""
        with self._lock:
            if step not in self._running:
                return
            step.failures.append(error)
            self._wake(step)
        self._finish(step, CancelledError(message=f"The step failed elsewhere: {error}"))

    def close(self, error: OpError) -> None:
        """Ends every running step with `error`, and lets no new one begin."""
        with self._lock:
            self._closed = error
            running = list(self._running)
        for step in running:
            self.cancel(step, error)

    def run(
        self,
        step: RunningStep,
        begin: Callable[[], Iterable[Pending]],
        here: Callable[[], Any] | None = None,
    ) -> list[Any]:
        """Runs a step.

        Args:
            step: From `begin`; it is over when this returns or raises.
            begin: Starts the other partitions, one after another, and returns them.
            here: Runs a partition in this thread; None if there is none.

        Returns:
            The results of `here`, then of the started partitions, in order.

        Raises:
            OpError: The first failure, or the error with which `cancel` was called.
        """
        from sparkflow_runtime.transport.waking import Waker

        begun: list[Pending] = []
        results: list[Any] = []
        is_forgotten = False
        step.has_part_here = here is not None
        step.waker = Waker.of_this_thread(_pass)
        try:
            self.check()
            begun.extend(begin())  # The list includes partitions started before a failure.
            if here is not None:
                results.append(here())
            results += [pending.end(step) for pending in begun]
            step.check()  # Everything may have been done before workers knew of the cancellation.
            is_forgotten = bool(begun) and begun[0].ends_step
            return results
        except Exception as error:
            cause = self._failed(step, begun, error)
            if cause is error:
                raise
            raise cause from None
        finally:
            # Also after Ctrl-C: no partition continues alone.
            with self._lock:
                self._running.discard(step)
                step.waker = None
            if not is_forgotten:
                self._finish(step)

    def _failed(
        self, step: RunningStep, begun: Sequence[Pending], error: Exception
    ) -> BaseException:
        """Ends the other partitions after one has failed; returns the error that ended the step."""
        futures = [each.future for each in begun if isinstance(each, InBackground)]
        first = _first_cause([*step.failures, error, *_failures(futures)])
        self._finish(step, CancelledError(message=f"The step failed elsewhere: {first}"))
        wait(futures, timeout=_SETTLE_TIMEOUT_S)
        first = _first_cause([*step.failures, error, *_failures(futures)])
        reason = step.reason
        if isinstance(reason, CancelledError) and isinstance(first, CancelledError):
            # Its message names what was waiting.
            return first if first.located else reason
        # Closing a session closes its queues, which a task may notice first.
        derived = _DERIVED if self._closed is None else (*_DERIVED, OutOfRangeError)
        return reason if reason is not None and isinstance(first, derived) else first

    def _wake(self, step: RunningStep) -> None:
        if step.waker is not None:
            step.waker.wake()
        self.changed.notify_all()

    def _finish(self, step: RunningStep, error: OpError | None = None) -> None:
        for link in self.links:
            link.finish_step(step.id, error)


def _pass() -> None:
    """Does nothing: a waiting thread reports what ends its wait."""


_DERIVED = (AbortedError, CancelledError)
"""The errors with which a partition ends because another one failed."""


def failure_of(future: Future[Any]) -> BaseException | None:
    """Returns the error of a partition; None if it has not failed."""
    if future.cancelled():
        return CancelledError(message="The task is shutting down")
    return future.exception() if future.done() else None


def _failures(futures: Iterable[Future[Any]]) -> list[BaseException]:
    return [error for error in map(failure_of, futures) if error is not None]


def _first_cause(failures: Sequence[BaseException]) -> BaseException:
    """Returns the failure that ended the step, not those it caused in other partitions."""
    causes = [error for error in failures if not isinstance(error, _DERIVED)]
    located = [error for error in causes if isinstance(error, OpError) and error.located]
    return (located or causes or list(failures))[0]
