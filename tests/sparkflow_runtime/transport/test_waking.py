"""A waker is readable once it was woken, and for only one wait."""

import os
import select
import threading

import pytest

from sparkflow_runtime.transport.waking import Waker

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="needs Linux")


def is_readable(waker: Waker, wait_ms: int = 0) -> bool:
    poll = select.poll()
    poll.register(waker, select.POLLIN)
    return bool(poll.poll(wait_ms))


def nothing() -> None:
    return None


def test_another_thread_wakes_it() -> None:
    waker = Waker.of_this_thread(nothing)
    assert not is_readable(waker)
    thread = threading.Thread(target=waker.wake)
    thread.start()
    assert is_readable(waker, 20_000)
    thread.join()


def test_each_thread_has_one_and_each_wait_begins_unwoken() -> None:
    first = Waker.of_this_thread(nothing)
    first.wake()
    first.wake()
    again = Waker.of_this_thread(nothing)
    assert again is first
    assert not is_readable(again)
    again.wake()
    assert is_readable(again)
    others = list[Waker]()
    thread = threading.Thread(target=lambda: others.append(Waker.of_this_thread(nothing)))
    thread.start()
    thread.join()
    assert others[0] is not first


def test_the_check_is_that_of_the_present_wait() -> None:
    def fail() -> None:
        raise ValueError("the step is over")

    waker = Waker.of_this_thread(fail)
    with pytest.raises(ValueError, match="the step is over"):
        waker.check()
    Waker.of_this_thread(nothing).check()


@pytest.mark.parametrize("is_written", [False, True])
def test_a_word_may_come_while_the_next_wait_begins(
    monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """`is_written`: the message can be read, but its sender has not continued yet."""
    waker = Waker.of_this_thread(nothing)
    write = os.eventfd_write
    held, go_on = threading.Event(), threading.Event()

    def hold(fd: int, value: int) -> None:
        if is_written:
            write(fd, value)
        held.set()
        assert go_on.wait(20)
        if not is_written:
            write(fd, value)

    with monkeypatch.context() as patch:
        patch.setattr("sparkflow_runtime.transport.waking.os.eventfd_write", hold)
        thread = threading.Thread(target=waker.wake)
        thread.start()
        assert held.wait(20)
        try:
            if is_written:
                patch.undo()
                waker.wake()
            Waker.of_this_thread(nothing)
        finally:
            go_on.set()
            thread.join()
    assert is_readable(waker) != is_written  # this wait checks once more, or was woken before
    assert not is_readable(Waker.of_this_thread(nothing))
