"""Waiting for what another thread or process does and tells nobody of."""

import time
from collections.abc import Callable


def wait_until(found: Callable[[], object], within_s: float) -> None:
    """Returns once something is found, which must be within so many seconds."""
    deadline = time.monotonic() + within_s
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.005)
