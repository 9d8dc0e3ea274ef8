"""Scratch memory is aligned, grows, and belongs to one thread and purpose."""

from __future__ import annotations

import threading

import numpy as np

from sparkflow_runtime.codegen.machine import scratch


def test_memory_is_aligned_and_used_again() -> None:
    first = scratch.take(100, "test")
    assert first.size >= 100
    assert first.dtype == np.uint8
    assert first.ctypes.data % scratch.ALIGNMENT == 0
    assert scratch.take(50, "test") is first


def test_memory_grows() -> None:
    scratch.take(100, "growing")
    assert scratch.take(10_000, "growing").size >= 10_000


def test_purposes_and_threads_have_their_own() -> None:
    mine = scratch.take(100, "shared")
    assert not np.shares_memory(mine, scratch.take(100, "other"))
    found = []
    thread = threading.Thread(target=lambda: found.append(scratch.take(100, "shared")))
    thread.start()
    thread.join()
    assert not np.shares_memory(mine, found[0])
