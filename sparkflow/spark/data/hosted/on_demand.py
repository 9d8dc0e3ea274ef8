"""The hosted rows of a process, created on first use: most processes have none."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkflow.spark.data.hosted.hosted_rows import HostedRows
    from sparkflow_runtime.resources.datasets.dataset import Dataset


class HostedOnDemand:
    """A lazily created `HostedRows`. Thread-safe.

    Args:
        worker: The worker's index.
        messages: Messages about rows that already exist.
    """

    def __init__(self, worker: int, messages: Iterable[Mapping[str, Any]] = ()) -> None:
        self._worker = worker
        self._messages = messages
        self._lock = threading.Lock()  # guards _made
        self._made: HostedRows | None = None

    def take(self, message: Mapping[str, Any]) -> None:
        """See `HostedRows.take`."""
        self._rows().take(message)

    def find(self, text: str) -> Dataset:
        """See `HostedRows.find`."""
        return self._rows().find(text)

    def _rows(self) -> HostedRows:
        with self._lock:
            if self._made is None:
                # Imports pyarrow, which takes a fifth of a process's start.
                from sparkflow.spark.data.hosted.hosted_rows import HostedRows

                self._made = HostedRows(self._worker)
                for message in self._messages:
                    self._made.take(message)
            return self._made
