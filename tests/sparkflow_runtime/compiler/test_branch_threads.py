import os
import threading

import numpy as np
import pytest

from sparkflow_runtime.codegen import threads
from sparkflow_runtime.compiler import branch_threads
from sparkflow_runtime.compiler.branch_threads import Branches
from sparkflow_runtime.errors import InvalidArgumentError


@pytest.fixture(autouse=True)
def _three(monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 3)
    yield
    branch_threads.set_count(0)


def test_branches_run_at_once():
    meeting = threading.Barrier(3, timeout=20)
    branches = Branches(False)
    branches.start(meeting.wait)
    branches.start(meeting.wait)
    mine = meeting.wait()
    assert sorted([mine, *branches.values()]) == [0, 1, 2]


def test_values_come_in_the_order_of_the_starts():
    branches = Branches(False)
    branches.start(divmod, 17, 5)
    branches.start(lambda: (threading.current_thread().name,))
    quotient, (name,) = branches.values()
    assert quotient == (3, 2)
    assert name.startswith("sparkflow-branch-")


def test_threads_are_used_again():
    for _ in range(50):
        branches = Branches(False)
        branches.start(threading.get_ident)
        branches.start(threading.get_ident)
        assert threading.get_ident() not in branches.values()
    assert len(branch_threads._workers) <= 2


def test_what_finds_no_thread_runs_on_the_steps_own(monkeypatch):
    monkeypatch.setattr(branch_threads, "_hand_over", lambda task: False)
    branches = Branches(False)
    branches.start(threading.get_ident)
    assert branches.values() == [threading.get_ident()]


def test_a_branch_has_the_numpy_settings_of_its_step():
    with np.errstate(divide="raise", over="ignore"):
        branches = Branches(False)
        branches.start(np.geterr)
        (inside,) = branches.values()
    assert (inside["divide"], inside["over"]) == ("raise", "ignore")


def test_the_first_branch_that_failed_is_told_of_after_all_have_ended():
    ended = []
    first_may_fail = threading.Event()

    def fail_late():
        first_may_fail.wait(20)
        ended.append("first")
        raise KeyError("first")

    def fail():
        ended.append("second")
        first_may_fail.set()
        raise ValueError("second")

    branches = Branches(False)
    branches.start(fail_late)
    branches.start(fail)
    with pytest.raises(KeyError, match="first"):
        branches.values()
    assert ended == ["second", "first"]


def test_an_abandoned_branch_has_ended(monkeypatch):
    go, ended = threading.Event(), []

    def run():
        go.wait(20)
        ended.append(True)
        raise ValueError

    branches = Branches(False)
    branches.start(run)
    go.set()
    branches.abandon()
    assert ended == [True]
    monkeypatch.setattr(branch_threads, "_hand_over", lambda task: False)
    branches = Branches(False)
    branches.start(run)  # it has not begun, and need not any more
    branches.abandon()
    assert ended == [True]


def test_waiting_goes_on_after_an_interruption():
    """Whatever a signal's handler raises, the step's memory is the branch's until it ends."""

    class Interrupted:
        def __init__(self, lock):
            self.lock, self.times = lock, 0

        def acquire(self):
            self.times += 1
            if self.times == 1:
                raise KeyboardInterrupt
            return self.lock.acquire()

    ended = []
    branches = Branches(False)
    branches.start(ended.append, 1)
    done = branches._tasks[0].done
    branches._tasks[0].done.acquire()  # it has ended: its lock was released
    done.release()
    stand_in = Interrupted(done)
    branches._tasks[0].done = stand_in
    with pytest.raises(KeyboardInterrupt):
        branches.values()
    assert stand_in.times == 2
    assert ended == [1]


def test_who_fills_the_processors_holds_the_pool(monkeypatch):
    held = []
    monkeypatch.setattr(threads, "hold_pool", lambda: held.append(1))
    monkeypatch.setattr(threads, "release_pool", lambda: held.append(-1))
    branches = Branches(True)
    branches.start(lambda: sum(held))
    assert branches.values() == [1]
    assert held == [1, -1]
    branches = Branches(True)
    branches.start(len, ())
    branches.abandon()
    assert held == [1, -1] * 2
    Branches(False).start(len, ())
    assert held == [1, -1] * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_makes_threads_of_its_own():
    branches = Branches(False)
    branches.start(len, ())
    branches.values()
    child = os.fork()
    if not child:
        code = 1
        try:
            branches = Branches(False)
            branches.start(threading.get_ident)
            code = int(branches.values() == [threading.get_ident()])
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_limit():
    assert branch_threads.count() == 3
    branch_threads.set_count(2)
    assert branch_threads.count() == 2
    branch_threads.set_count(8)
    assert branch_threads.count() == 3
    with pytest.raises(InvalidArgumentError, match="got -1"):
        branch_threads.set_count(-1)
