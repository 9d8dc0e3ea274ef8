"""Writing of checkpoints in the background: a thread writes while the next steps run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from sparkflow.spark.control.checkpoints.snapshot import Snapshot
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.errors import SparkTrainingError

_log = logging.getLogger(__name__)

MAX_FAILURES = 3
"""The number of consecutive failures that ends training: the user relies on checkpoints."""


@dataclass(frozen=True, slots=True)
class CheckpointEnded:
    """A checkpoint was written, or could not be.

    Attributes:
        step: The step of the checkpoint.
        path: Its path; "" if it failed.
        error: Why it failed.
    """

    step: int
    path: str
    error: Exception | None = None


class CheckpointWriter:
    """Writes one snapshot at a time. Used by one thread.

    Args:
        store: The store to write to.
        post: Called at the end of each, from the writing thread.

    Attributes:
        last_path: The path of the last complete one; "" before the first. Read it after `wait`.
    """

    def __init__(self, store: CheckpointStore, post: Callable[[CheckpointEnded], None]) -> None:
        self._store = store
        self._post = post
        self._thread: threading.Thread | None = None
        self._failures = 0
        self.last_path = ""

    def write(self, snapshot: Snapshot) -> None:
        """Starts to write; waits for the previous one, so that at most two are in memory."""
        self.wait()
        thread = threading.Thread(
            target=self._write, args=(snapshot,), name="checkpoint", daemon=True
        )
        thread.start()
        self._thread = thread

    def wait(self) -> None:
        """Blocks until no checkpoint is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def count(self, ended: CheckpointEnded) -> None:
        """Handles the outcome of a checkpoint; called by the thread that receives the events.

        Raises:
            SparkTrainingError: `MAX_FAILURES` checkpoints in a row have failed.
        """
        if ended.error is None:
            self._failures = 0
            return
        self._failures += 1
        _log.warning(
            "The checkpoint of step %d could not be written to %s: %s",
            ended.step,
            self._store.directory,
            ended.error,
        )
        if self._failures >= MAX_FAILURES:
            raise SparkTrainingError(
                f"{self._failures} checkpoints in a row could not be written to "
                f"checkpointDir={self._store.directory!r}; the last failure: {ended.error}"
            ) from ended.error

    def _write(self, snapshot: Snapshot) -> None:
        started = time.monotonic()
        try:
            path = self._store.write(snapshot)
        except Exception as error:
            self._post(CheckpointEnded(snapshot.step, "", error))
        else:
            self.last_path = path
            _log.info("wrote %s in %.1f s", path, time.monotonic() - started)
            self._post(CheckpointEnded(snapshot.step, path))
