"""Closes the event loops that clients of Jupyter kernels leave open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from unittest import mock


@contextlib.contextmanager
def closed_afterwards() -> Iterator[None]:
    """Closes all event loops created in the block, except those that still run in a thread.

    jupyter_client creates and keeps one for each thread that calls it without one; its sockets are
    reported as unclosed at the end of the process, when no test can be blamed any more.
    """
    made: list[asyncio.AbstractEventLoop] = []
    make = asyncio.new_event_loop

    def recorded() -> asyncio.AbstractEventLoop:
        made.append(make())
        return made[-1]

    try:
        with mock.patch.object(asyncio, "new_event_loop", recorded):
            yield
    finally:
        for loop in made:
            if not loop.is_running():
                loop.close()
