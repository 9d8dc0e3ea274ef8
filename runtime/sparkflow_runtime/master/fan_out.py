"""Asks many workers the same thing at once: one that hangs does not keep the others waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from typing import Final, TypeVar

MAX_THREADS: Final = 8
"""A cluster of a thousand tasks is asked by so many threads."""

T = TypeVar("T")
R = TypeVar("R")


def for_each(ask: Callable[[T], R], whom: Sequence[T]) -> list[R]:
    """What `ask` gives for each, in their order; blocks until all have answered.

    One is asked in this thread, several in at most `MAX_THREADS` others.

    Raises:
        BaseException: The first failure there was; who was not asked by then is not asked any more.
    """
    if len(whom) <= 1:
        return [ask(each) for each in whom]
    from sparkflow_runtime.transport.threads import DaemonThreads

    threads = DaemonThreads(min(len(whom), MAX_THREADS), "fan-out")
    try:
        futures = [threads.submit(ask, each) for each in whom]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        return [future.result() for future in futures]
    finally:
        threads.shutdown(cancel_futures=True)
