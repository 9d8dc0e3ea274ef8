"""`LateRuns`: ends runs that wait for what a failed thread of their session would have made."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Final

from sparkflow import logging
from sparkflow.train.sessions.coordinator import Coordinator

_LEAST_GRACE_S: Final = 1.0
"""How long a run may take at least after a thread has failed."""


class LateRuns:
    """Closes a session if a run has not ended a long time after a thread failed.

    A run may wait for what that thread has made, such as for the tokens of `SyncReplicasOptimizer`,
    and would hear nothing. Runs of any thread are told by `begin` and `end`; those of queue runners
    are not, which end with their queues.

    Args:
        coord: Learns of the failures of threads.
        grace_s: How long threads may take to stop, in seconds, and a run when one has failed.
        close: Closes the session.
    """

    def __init__(self, coord: Coordinator, grace_s: float, close: Callable[[], None]) -> None:
        self._coord = coord
        self._grace_s = grace_s
        self._close: Callable[[], None] | None = close
        self._runs: set[object] = set()  # changed by single operations, each of which is atomic
        self._over = threading.Event()  # closed, or a run was ended
        self._has_ended_one = False
        coord.call_when_failed(self._watch)

    def begin(self) -> object:
        """A run begins; what `end` is to be given when it ends."""
        run = object()
        self._runs.add(run)
        return run

    def end(self, run: object) -> None:
        """A run has ended."""
        self._runs.discard(run)

    def raise_cause(self) -> None:
        """For a run that has failed.

        Raises:
            Exception: What the thread raised, where a run was ended because of it.
        """
        if self._has_ended_one:
            self._coord.raise_requested_exception()

    def stop(self) -> None:
        """The session is closed; may be called again."""
        self._over.set()
        self._close = None

    def _watch(self) -> None:
        """A thread has failed."""
        if self._over.is_set():
            return
        with contextlib.suppress(RuntimeError):  # there are no more threads: runs end or they wait
            threading.Thread(target=self._end_late_one, name="end-late-run", daemon=True).start()

    def _end_late_one(self) -> None:
        """Closes the session once a run has taken as long as it may."""
        grace_s = max(self._grace_s, _LEAST_GRACE_S)
        earlier = set(self._runs)
        while not self._over.wait(grace_s):
            close = self._close
            if not earlier.isdisjoint(self._runs.copy()) and close is not None:
                logging.info(
                    "A run is ended that has not come to an end within %g s of a thread's failure",
                    grace_s,
                )
                self._has_ended_one = True
                close()
                return
            earlier = self._runs.copy()
