"""Datasets of rows that a process hosts, by the text with which graphs refer to them.

Like Python functions they belong to the process, not to one of its servers: a program may start
its server itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from sparkflow_runtime.errors import NotFoundError
from sparkflow_runtime.resources.datasets.dataset import Dataset

Find = Callable[[str], Dataset]
"""Maps a graph's text to a dataset of the rows; raises an `OpError` if there are none."""

_lock = threading.Lock()
_find: Find | None = None
"""Guarded by `_lock`."""


def host(find: Find | None) -> None:
    """Sets the rows that graphs of this process find; None for none from now on."""
    global _find
    with _lock:
        _find = find


def find(source: str) -> Dataset:
    """Returns the dataset of a text.

    Raises:
        NotFoundError: This process hosts no such rows.
    """
    with _lock:
        found = _find
    if found is None:
        raise NotFoundError(
            message="This process hosts no rows of a DataFrame: build the dataset of a worker and "
            "its iterator under tf.device('/job:worker/task:N') of that worker"
        )
    return found(source)
