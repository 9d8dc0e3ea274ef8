"""The threads that read channels: many calls may block, and too many are reported."""

import contextlib
import socket
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from sparkflow_runtime.errors import UnavailableError
from sparkflow_runtime.testing.leaks import assert_nothing_left
from sparkflow_runtime.transport.channel import reactor as reactor_module
from sparkflow_runtime.transport.channel.reactor import Reactor, available
from support.channels import WAIT_S, Channel

DEADLINE_S = 30


@pytest.fixture
def reactor():
    """A reactor with a channel on which nothing arrives."""
    made, (near, far) = Reactor(), socket.socketpair()
    end = SimpleNamespace(wire=near, is_always_read=True, is_left_alone=False, attend=lambda: None)
    made.add(end)
    yield made
    made.remove(end)
    near.close()
    far.close()


class Blocked:
    """A call that blocks until it may end.

    Attributes:
        begun: Released whenever it begins.
        may_end: Ends it, and all others.
    """

    def __init__(self):
        self.begun, self.may_end = threading.Semaphore(0), threading.Event()

    def __call__(self):
        self.begun.release()
        self.may_end.wait(DEADLINE_S)


def test_calls_that_block_leave_others_to_run(reactor):
    call = Blocked()
    for _ in range(20):
        reactor.hand_over(call)
    assert all(call.begun.acquire(timeout=DEADLINE_S) for _ in range(20))
    call.may_end.set()


def test_it_says_once_that_no_thread_is_left(reactor, monkeypatch, caplog):
    monkeypatch.setattr(reactor_module, "MAX_THREADS", 2)
    call = Blocked()
    for _ in range(4):
        reactor.hand_over(call)
        assert call.begun.acquire(timeout=DEADLINE_S)
    call.may_end.set()
    said = [each.message for each in caplog.records if "has threads for" in each.message]
    assert [each.partition(" wait")[0] for each in said] == ["2 calls of this process"]


@pytest.mark.skipif(not available(), reason="channels need Linux")
def test_a_reactor_without_channels_has_no_threads() -> None:
    before = set(threading.enumerate())
    made = Channel("unix")
    assert made.call(b"", np.ones(1))[0] == 2
    made.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT_S)
    assert made.reactor._watch is None
    with contextlib.suppress(UnavailableError):
        made.asker.ask(1, ["a"], loops=False)


@pytest.fixture
def no_threads(monkeypatch):
    """The process cannot have more threads until this is undone."""

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield patch


@pytest.mark.skipif(not available(), reason="channels need Linux")
def test_a_thread_that_the_process_cannot_have_is_asked_for_again(no_threads):
    with assert_nothing_left():
        made, (near, far) = Reactor(), socket.socketpair()
        end = SimpleNamespace(wire=near, is_always_read=True, is_left_alone=False, attend=near.recv)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start"):
                made.add(end)
        assert made._watch is None
        no_threads.undo()
        came = threading.Event()
        end.attend = came.set
        made.add(end)
        far.send(b"a")
        assert came.wait(DEADLINE_S)
        made.remove(end)
        near.close()
        far.close()


def test_a_call_waits_for_a_thread_that_reads_where_it_cannot_have_its_own(reactor, no_threads):
    done = threading.Event()
    reactor._idle = 0  # the existing one seems to be busy
    reactor.hand_over(done.set)
    assert done.wait(DEADLINE_S)
