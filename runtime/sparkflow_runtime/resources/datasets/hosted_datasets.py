"""Datasets of rows that a process hosts, whoever has put them there, by what graphs say of them.

They belong to the process and not to one of its servers, as Python functions do: a program may
start its server itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from sparkflow_runtime.errors import NotFoundError
from sparkflow_runtime.resources.datasets.dataset import Dataset

Find = Callable[[str], Dataset]
"""From what a graph says of the rows to a dataset of them; raises an `OpError` without any."""

_lock = threading.Lock()
_find: Find | None = None
"""Guarded by `_lock`."""


def host(find: Find | None) -> None:
    """Has graphs of this process find what it hosts; None for nothing from now on."""
    global _find
    with _lock:
        _find = find


def find(source: str) -> Dataset:
    """The dataset of a text.

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
