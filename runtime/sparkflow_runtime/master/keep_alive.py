"""Keeps a master's sessions on the workers alive by renewing their leases every few seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from sparkflow_runtime.master.links import LEASE_S, WorkerLink

KEEP_ALIVE_S: Final = LEASE_S / 6
"""A worker forgets a session after five missed renewals in a row."""


class KeepAlive:
    """Renews one session's leases in a separate thread, until it is closed.

    Args:
        session: The session's handle.
        links: The remote workers that have it.
        pause: Waits for that many seconds; returns True if the session was closed meanwhile.
    """

    def __init__(
        self,
        session: str,
        links: Iterable[WorkerLink],
        pause: Callable[[float], bool] | None = None,
    ) -> None:
        self._session = session
        self._links = list(links)
        self._closed = threading.Event()
        self._pause = pause or self._closed.wait
        threading.Thread(target=self._keep, name="session-keep-alive", daemon=True).start()

    def close(self) -> None:
        """Stops renewing; may be called again."""
        self._closed.set()

    def _keep(self) -> None:
        while not self._pause(KEEP_ALIVE_S):
            for link in self._links:
                link.keep_session(self._session)
