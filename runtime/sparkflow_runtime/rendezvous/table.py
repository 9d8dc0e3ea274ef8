"""The rendezvous of one step: values wait for takers, takers wait for values.

A key is taken exactly once per iteration of the step loop. Blocking waits end with the value, with
the end of the sender's data, or with the error that ended the step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    OutOfRangeError,
)


class EndOfLoop(OutOfRangeError):
    """A peer's loop ended at this iteration because its data did: ours ends too, without error."""

    def __init__(self) -> None:
        super().__init__(message="The loop of a peer has ended")
        self.located = True


class StepRendezvous:
    """The meeting place of one step on one task. Safe to use from several threads.

    `_ready` guards all fields.
    """

    def __init__(self) -> None:
        self._ready = threading.Condition()
        self._values: dict[tuple[str, int], Any] = {}
        self._ended_at: dict[str, int] = {}
        self._error: BaseException | None = None
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next_callback = 0

    def put(self, key: str, iteration: int, value: Any) -> None:
        """Leaves a value for its taker; ignored once the step has failed."""
        with self._ready:
            if self._error is None:
                self._values[key, iteration] = value
                self._ready.notify_all()

    def take(self, key: str, iteration: int, timeout_s: float | None = None) -> Any:
        """Waits for the value of this key and iteration and removes it.

        Raises:
            EndOfLoop: The sender's loop ended before it sent this iteration's value.
            DeadlineExceededError: Nothing came for `timeout_s` seconds.
            OpError: The error the step was aborted with.
        """
        place = (key, iteration)
        with self._ready:
            arrived = self._ready.wait_for(
                lambda: (
                    self._error is not None
                    or place in self._values
                    or self._ended_at.get(_source(key), 1 << 62) <= iteration
                ),
                timeout_s,
            )
            if place in self._values:
                return self._values.pop(place)
            if self._error is not None:
                raise self._error
            if not arrived:
                raise DeadlineExceededError(
                    message=f"Nothing was sent under {key!r} (iteration {iteration}) "
                    f"for {timeout_s:g} s"
                )
            raise EndOfLoop

    def end(self, source: str, iteration: int) -> None:
        """Declares that the partition `source` sends nothing from this iteration on."""
        with self._ready:
            self._ended_at[source] = min(iteration, self._ended_at.get(source, iteration))
            self._ready.notify_all()

    def abort(self, error: BaseException) -> None:
        """Ends every present and future wait of this step with `error`; the first one stays."""
        with self._ready:
            if self._error is not None:
                return
            self._error = error
            self._values.clear()
            callbacks = list(self._callbacks.values())
            self._ready.notify_all()
        for callback in callbacks:
            callback()

    @property
    def error(self) -> BaseException | None:
        """What the step was aborted with."""
        return self._error

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when the step is aborted, at once if it was; the result undoes this."""
        with self._ready:
            number = self._next_callback
            self._next_callback += 1
            failed = self._error is not None
            if not failed:
                self._callbacks[number] = callback
        if failed:
            callback()

        def undo() -> None:
            with self._ready:
                self._callbacks.pop(number, None)

        return undo


def _source(key: str) -> str:
    return key.partition("-")[0]


class RendezvousTable:
    """The step rendezvous of one task by step id.

    A peer may ask for a tensor of a step before this task has heard of the step, so both ends
    create the entry. `_lock` guards `_steps` and `_finished`.
    """

    MAX_FINISHED = 4096

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[int, StepRendezvous] = {}
        self._finished: dict[int, BaseException] = {}

    def find(self, step_id: int) -> StepRendezvous:
        """The rendezvous of that step, created when there is none.

        Raises:
            AbortedError: The step is over.
        """
        with self._lock:
            error = self._finished.get(step_id)
            if error is not None:
                raise error
            found = self._steps.get(step_id)
            if found is None:
                found = self._steps[step_id] = StepRendezvous()
            return found

    def finish(self, step_id: int, error: BaseException | None = None) -> None:
        """Forgets a step; whoever still waits in it gets `error`, or an AbortedError."""
        reason = error or AbortedError(message=f"Step {step_id} is over")
        with self._lock:
            step = self._steps.pop(step_id, None)
            self._finished[step_id] = reason
            while len(self._finished) > self.MAX_FINISHED:
                del self._finished[next(iter(self._finished))]
        if step is not None:
            step.abort(reason)

    def abort_all(self, message: str) -> None:
        """Ends every step, for the shutdown of the task."""
        with self._lock:
            steps = list(self._steps)
        for step_id in steps:
            self.finish(step_id, CancelledError(message=message))
