"""Sessions on one task, with a clock that the test moves."""

import threading

import pytest

from sparkflow_runtime.errors import AbortedError
from sparkflow_runtime.testing.clock import FakeClock
from sparkflow_runtime.worker.sessions import MasterId, WorkerSessions


class Closing:
    """A resource that records whether it was closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def sessions(clock: FakeClock) -> WorkerSessions[str]:
    return WorkerSessions("/job:ps/replica:0/task:0", clock)


def test_a_session_without_a_lease_stays(sessions: WorkerSessions[str], clock: FakeClock) -> None:
    sessions.create("s")
    sessions.find("s").graphs["g"] = "partition"
    sessions.create("s", isolate=True)  # It exists already.
    clock.advance(1e6)
    sessions.expire()
    assert sessions.find("s").graphs == {"g": "partition"}
    assert sessions.find("s").variables is None
    sessions.delete("s")
    sessions.delete("s")
    text = r"Session 's' does not exist on /job:ps/replica:0/task:0; possibly this task was"
    for ask in (sessions.find, sessions.keep):
        with pytest.raises(AbortedError, match=text):
            ask("s")


def test_a_lease_ends_unless_it_is_renewed(sessions: WorkerSessions[str], clock: FakeClock) -> None:
    sessions.create("kept", lease_s=60)
    sessions.create("left", isolate=True, lease_s=60)
    queue = Closing()
    variables = sessions.find("left").variables
    assert variables is not None
    variables.put("", "queue", queue)
    clock.advance(59)
    sessions.keep("kept")
    sessions.expire()
    assert len(sessions) == 2
    clock.advance(1)
    sessions.expire()
    assert len(sessions) == 1
    assert queue.closed.is_set()
    clock.advance(58.5)
    sessions.expire()
    sessions.find("kept")
    clock.advance(0.5)
    sessions.expire()
    assert len(sessions) == 0


def test_a_thread_ends_leases_and_itself() -> None:
    sessions: WorkerSessions[str] = WorkerSessions("/job:ps/replica:0/task:0")
    before = set(threading.enumerate())
    sessions.create("long", lease_s=1000)
    sessions.create("short", isolate=True, lease_s=0.01)
    (watching,) = set(threading.enumerate()) - before
    queue = Closing()
    session = sessions._sessions.get("short")
    if session is not None and session.variables is not None:
        session.variables.put("", "queue", queue)
        assert queue.closed.wait(20)
    sessions.clear()
    watching.join(20)
    assert not watching.is_alive()
    sessions.create("again", lease_s=1000)
    assert len(set(threading.enumerate()) - before) == 1
    sessions.delete("again")


def test_a_master_that_starts_anew_ends_its_old_sessions(sessions: WorkerSessions[str]) -> None:
    old, new = (
        MasterId("/job:worker/replica:0/task:1", 1),
        MasterId("/job:worker/replica:0/task:1", 2),
    )
    other = MasterId("/job:worker/replica:0/task:2", 1)
    sessions.create("driver")
    sessions.create("other", master=other)
    sessions.create("a", master=old)
    sessions.create("b", master=old)
    assert len(sessions) == 4
    sessions.create("c", master=new)
    assert sorted(sessions.handles()) == ["c", "driver", "other"]
    sessions.create("d")  # Masters without a task are never considered the same.
    assert len(sessions) == 4


def test_who_asks_is_told_of_every_session_that_is_gone(clock: FakeClock) -> None:
    gone: list[str] = []
    sessions: WorkerSessions[str] = WorkerSessions("task", clock, on_forgotten=gone.append)
    before, after = MasterId("/job:worker/task:0", 1), MasterId("/job:worker/task:0", 2)
    sessions.create("of one that died", master=before)
    sessions.create("closed", master=after)
    assert gone == ["of one that died"]
    sessions.delete("closed")
    sessions.delete("closed")
    sessions.create("of one that is not heard of", lease_s=60)
    clock.advance(60)
    sessions.expire()
    sessions.create("left at the end")
    sessions.clear()
    assert gone[1:] == ["closed", "of one that is not heard of", "left at the end"]
