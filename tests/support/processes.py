"""Waiting for processes that have been told to end."""

import time
from collections.abc import Callable

END_S = 5.0
"""How long after its end the processes of a run may still be there, in seconds."""


def left_after(find: Callable[[], list[int]], within_s: float = END_S) -> list[int]:
    """The processes that `find` still sees so many seconds after the end of their run."""
    deadline = time.monotonic() + within_s
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
