"""Lets a kernel wait for another step until there is a result or a cancellation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from sparkflow_runtime.errors import CancelledError
from sparkflow_runtime.resources.turns import PATIENCE_S, due_rehearsal, others_go_on

T = TypeVar("T")


class Cancellation(Protocol):
    """The part of a running step that waiting needs; a `StepContext` has it."""

    def check_cancelled(self) -> None:
        """Raises the error that ended the step, if it has ended."""

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once if the step is cancelled; the returned function removes it."""


def wait_for(
    condition: threading.Condition,
    attempt: Callable[[], T | None],
    step: Cancellation,
    timeout_s: float | None = None,
    expired: Callable[[], Exception] | None = None,
) -> T:
    """Returns the first result of `attempt` that is not None; blocks until there is one.

    `attempt` is called with `condition` held, now and whenever the condition is notified. The
    step's deadline arrives as a cancellation. The step is never called while `condition` is held,
    and may call back from any thread.

    Args:
        condition: The condition to wait on.
        attempt: Returns the result, or None to continue waiting.
        step: Whose cancellation ends the wait.
        timeout_s: Maximum seconds to wait; None for no limit but the step's.
        expired: Returns the exception to raise on timeout, with `condition` held; needed with
            `timeout_s`.

    Raises:
        CancelledError, DeadlineExceededError, ...: The error that ended the step while this waited.
    """
    with condition:
        result = attempt()
    if result is not None:
        return result
    cancelled = False
    deadline = None if timeout_s is None else time.monotonic() + timeout_s

    def wake() -> None:
        nonlocal cancelled
        with condition:
            cancelled = True
            condition.notify_all()

    take_back = step.on_cancel(wake)
    try:
        step.check_cancelled()  # in case it was cancelled before the callback was registered
        rehearsal = due_rehearsal()
        while True:
            with others_go_on(), condition:
                while not cancelled:
                    result = attempt()
                    if result is not None:
                        return result
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        assert expired is not None
                        raise expired()
                    if rehearsal is None:
                        condition.wait(left)
                    elif not condition.wait(PATIENCE_S if left is None else min(left, PATIENCE_S)):
                        break
            if rehearsal is None or cancelled:
                break
            rehearsal.run()
            rehearsal = None
    finally:
        take_back()
    step.check_cancelled()
    raise CancelledError(message="The step was cancelled while it waited for another one")
