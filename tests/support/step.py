"""A step without a session, to test and cancel kernels that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_runtime.errors import CancelledError, OpError
from sparkflow_runtime.resources.collectives.collective_exchange import Meeting


class FakeStep:
    """A `StepContext` that the test itself cancels. Thread-safe.

    `_lock` guards `_error` and `_callbacks`; callbacks run outside it.

    Args:
        step_id: The step's number.
        iteration: The iteration of the step loop.
        number: The training step's number.

    Attributes:
        waiting: Set while a callback is registered for cancellation, that is, while a kernel waits
            (or is about to): tests wait for it instead of sleeping.
        sent: The tensors passed to `send`, by key.
        ranks: The meeting of collectives' ranks, whatever their group; set by the test.
    """

    def __init__(self, step_id: int = 1, iteration: int = 0, number: int = 0) -> None:
        self.step_id = step_id
        self.iteration = iteration
        self.number = number
        self.waiting = threading.Event()
        self.sent: dict[str, tuple[Any, ...]] = {}
        self.ranks: Meeting | None = None
        self._lock = threading.Lock()
        self._error: OpError | None = None
        self._callbacks: list[Callable[[], None]] = []

    def cancel(self, error: OpError | None = None) -> None:
        """Ends the step with `error`, by default a CancelledError."""
        with self._lock:
            self._error = error or CancelledError(message="The step was cancelled")
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def stop(self) -> None:
        """Cancels the step."""
        self.cancel()

    def check_cancelled(self) -> None:
        """Raises the error with which the step was cancelled, if it was."""
        with self._lock:
            if self._error is not None:
                raise self._error

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when the step is cancelled; the returned function unregisters it."""
        with self._lock:
            self._callbacks.append(callback)
            self.waiting.set()

        def take_back() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)
                if not self._callbacks:
                    self.waiting.clear()

        return take_back

    @property
    def callbacks(self) -> int:
        """The number of callbacks registered for cancellation; 0 once every kernel has returned."""
        with self._lock:
            return len(self._callbacks)

    def send(
        self, key: str, destination: str, values: tuple[Any, ...], lent: Sequence[int] = ()
    ) -> None:
        """Keeps the tensors for `receive`."""
        self.sent[key] = values

    def receive(self, key: str, source: str) -> tuple[Any, ...]:
        """Returns the tensors sent under `key`; KeyError if there are none."""
        return self.sent[key]

    def transport(self, key: str, source: str) -> str:
        """Returns "memory", since nothing comes from elsewhere."""
        return "memory"

    def meeting(self) -> Meeting:
        """The test's `ranks`."""
        assert self.ranks is not None, "the test gave no meeting"
        return self.ranks

    def join(self, group: str, rank: int, devices: tuple[str, ...], timeout_s: float) -> Meeting:
        """Returns the test's `ranks`, without waiting."""
        return self.meeting()
