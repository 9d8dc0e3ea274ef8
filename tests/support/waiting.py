"""Waits for effects of other threads or processes that are not announced."""

import time
from collections.abc import Callable


def wait_until(found: Callable[[], object], within_s: float) -> None:
    """Returns once something is found; fails if that takes longer than this."""
    deadline = time.monotonic() + within_s
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.005)
