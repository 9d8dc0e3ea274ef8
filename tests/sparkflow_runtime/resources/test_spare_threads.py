"""Threads that are reused, and end when nobody has a call for them."""

import threading
from collections.abc import Iterator

import pytest

from sparkflow_runtime.resources import spare_threads
from sparkflow_runtime.resources.spare_threads import idle_threads, start_thread
from support.waiting import wait_until

WAIT_S = 20.0


@pytest.fixture(autouse=True)
def none_idle(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ignores threads of other tests, and makes those of these tests end soon."""
    monkeypatch.setattr(spare_threads, "_idle", [])
    monkeypatch.setattr(spare_threads, "IDLE_TIMEOUT_S", 0.2)
    before = set(threading.enumerate())
    yield
    for each in set(threading.enumerate()) - before:
        each.join(WAIT_S)
        assert not each.is_alive()


def run() -> threading.Thread:
    """Returns the thread that ran a call, once it is idle."""
    seen: list[threading.Thread] = []
    done = threading.Event()

    def call() -> None:
        seen.append(threading.current_thread())
        done.set()

    start_thread(call)
    assert done.wait(WAIT_S)
    return seen[0]


def test_an_idle_thread_runs_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_threads, "IDLE_TIMEOUT_S", 3.0)
    first = run()
    assert first.daemon
    wait_until(lambda: spare_threads._idle, WAIT_S)
    assert run() is first


def test_calls_at_once_do_not_wait_for_each_other() -> None:
    meet = threading.Barrier(5)
    for _ in range(4):
        start_thread(lambda: meet.wait(WAIT_S))
    meet.wait(WAIT_S)  # passes only if all four run concurrently


def test_a_thread_without_a_call_ends_and_is_not_given_one() -> None:
    first = run()
    first.join(WAIT_S)
    assert not first.is_alive()
    assert spare_threads._idle == []
    assert run() is not first


def test_threads_without_a_call_are_known() -> None:
    thread = run()
    wait_until(lambda: idle_threads() == {thread}, WAIT_S)
    begun, goes_on = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        goes_on.wait(WAIT_S)

    start_thread(call)
    assert begun.wait(WAIT_S)
    assert idle_threads() == set()
    goes_on.set()
    wait_until(lambda: idle_threads() == {thread}, WAIT_S)
