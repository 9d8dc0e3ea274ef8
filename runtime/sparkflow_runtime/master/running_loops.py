"""The step loops of a client's session, wherever they run."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from sparkflow_runtime.errors import OpError

if TYPE_CHECKING:
    from sparkflow_runtime.worker.loop import LoopEnd, LoopUpdate

END_TIMEOUT_S: Final = 10.0
"""How long a loop that was cancelled may take to end."""


class RunningLoop(Protocol):
    """A step loop that was started. Thread-safe."""

    @property
    def done(self) -> bool:
        """Whether the loop has ended in any way."""

    def updates(self) -> Iterator[LoopUpdate]:
        """Yields the steps' results as they arrive, see `LoopUpdates.follow`."""

    def poll(self, interval_s: float | None) -> Iterator[LoopUpdate | None]:
        """As `follow`, but also yields None whenever nothing arrived for a number of seconds."""

    def wait(self, timeout_s: float | None = None) -> LoopEnd:
        """Blocks until the loop has ended, see `LoopUpdates.wait`."""

    def stop(self) -> None:
        """Ends the loop at the next step that all partitions can reach; does not wait for it."""

    def cancel(self, reason: str = "The loop was cancelled") -> None:
        """Ends the loop in the middle of its current step, with a CancelledError."""


class LoopRegister:
    """The loops of a session that may still run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loops: weakref.WeakSet[RunningLoop] = weakref.WeakSet()

    def add(self, loop: RunningLoop) -> RunningLoop:
        """Adds a loop."""
        with self._lock:
            self._loops.add(loop)
        return loop

    def await_end(self) -> None:
        """Waits until all have ended, each for `END_TIMEOUT_S` seconds at most."""
        with self._lock:
            loops = list(self._loops)
        for loop in loops:
            with contextlib.suppress(OpError, TimeoutError):
                loop.wait(END_TIMEOUT_S)
