"""How a new session waits for tasks of its cluster that have not started yet."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Final, Protocol

from sparkflow_runtime.errors import DeadlineExceededError

TELL_INTERVAL_S: Final = 10.0
"""How often it is told which tasks are missing."""
_LOOK_INTERVAL_S: Final = 0.2
"""How soon it is noticed that nobody wants the session any more."""

_log = logging.getLogger("tensorflow")


class Awaited(Protocol):
    """Something that may have to start first."""

    def ready(self) -> Future[None]:
        """Is done once it answers; may be cancelled."""


def await_tasks(links: Mapping[str, Awaited], is_wanted: Callable[[], bool]) -> None:
    """Returns once every task answers, however long that takes.

    Every ten seconds a line of the log names each task that is missing, as TensorFlow's do.

    Args:
        links: The tasks by name.
        is_wanted: Whether to go on waiting.

    Raises:
        DeadlineExceededError: `is_wanted` said no; the text names the tasks that are missing.
        CancelledError: This server was stopped.
    """
    awaited = {link.ready(): task for task, link in links.items()}
    told = time.monotonic()
    try:
        pending: set[Future[None]] = set(awaited)
        while pending:
            done, pending = wait(pending, _LOOK_INTERVAL_S)
            for future in done:
                future.result()
            if not is_wanted():
                names = ", ".join(sorted(awaited[future] for future in pending)) or "its client"
                raise DeadlineExceededError(
                    message=f"The session was not created in time: no response from {names}"
                )
            if pending and time.monotonic() - told >= TELL_INTERVAL_S:
                told = time.monotonic()
                for future in sorted(pending, key=lambda each: awaited[each]):
                    _log.warning(
                        "CreateSession still waiting for response from worker: %s", awaited[future]
                    )
    finally:
        for future in awaited:
            future.cancel()
