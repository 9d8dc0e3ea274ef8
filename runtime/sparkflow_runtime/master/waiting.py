"""Waits, for a new session, for tasks of its cluster that have not started yet."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Final, Protocol

from sparkflow_runtime.errors import DeadlineExceededError

TELL_INTERVAL_S: Final = 10.0
"""How often missing tasks are logged."""
_LOOK_INTERVAL_S: Final = 0.2
"""How often to check whether the session is still wanted."""

_log = logging.getLogger("tensorflow")


class Awaited(Protocol):
    """A task that may not have started yet."""

    def ready(self) -> Future[None]:
        """Returns a future that is done once it answers; may be cancelled."""


def await_tasks(links: Mapping[str, Awaited], is_wanted: Callable[[], bool]) -> None:
    """Returns once every task answers, however long that takes.

    Every ten seconds the log names each missing task, as TensorFlow's does.

    Args:
        links: The tasks by name.
        is_wanted: Whether to continue waiting.

    Raises:
        DeadlineExceededError: `is_wanted` returned False; the message names the missing tasks.
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
