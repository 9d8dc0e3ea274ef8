"""Threads that compute while no test runs are found, with what they compute."""

import threading
import time

from support.busy_threads import left_busy


def spin(until: threading.Event) -> None:
    while not until.is_set():
        pass


def test_a_thread_that_spins_is_found() -> None:
    until = threading.Event()
    thread = threading.Thread(target=spin, args=(until,), name="spinner")
    thread.start()
    try:
        (found,) = left_busy(within_s=0.2)
    finally:
        until.set()
        thread.join()
    assert found.startswith("spinner\n")
    assert "in spin" in found


def test_threads_that_wait_or_stop_soon_are_not() -> None:
    until, never = threading.Event(), threading.Event()
    soon = threading.Thread(target=spin, args=(until,))
    waiting = threading.Thread(target=never.wait)
    for each in (soon, waiting):
        each.start()
    threading.Timer(0.3, until.set).start()
    began = time.monotonic()
    assert left_busy() == []
    assert time.monotonic() - began < 5
    never.set()
    for each in (soon, waiting):
        each.join()
