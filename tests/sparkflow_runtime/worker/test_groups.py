"""Meetings of ranks on one task: joining, exchanging, leaving, ending."""

import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    UnavailableError,
)
from sparkflow_runtime.rendezvous.table import RendezvousTable
from sparkflow_runtime.transport.peers import Peers
from sparkflow_runtime.worker import groups as groups_module
from sparkflow_runtime.worker.groups import Groups
from support.step import FakeStep

TASK = "/job:w/replica:0/task:0"
DEVICES = tuple(f"{TASK}/device:CPU:{index}" for index in range(2))
DEADLINE_S = 30.0


@pytest.fixture
def groups():
    peers = Peers({})
    made = Groups(TASK, RendezvousTable(), lambda: peers)
    yield made
    made.close(CancelledError(message="the test is over"))
    peers.close()


@pytest.fixture
def threads():
    with ThreadPoolExecutor(4) as pool:
        yield pool


def nothing(key, turn):
    return False


def join(groups, rank, step=None, timeout_s=DEADLINE_S):
    return groups.join("g", rank, DEVICES, timeout_s, step or FakeStep())


@pytest.fixture
def meetings(groups, threads):
    futures = [threads.submit(join, groups, rank) for rank in range(2)]
    return [future.result(DEADLINE_S) for future in futures]


def test_ranks_exchange_turn_by_turn(meetings, threads):
    first, second = meetings
    value = np.arange(3)
    for turn in range(5):
        first.send("k-a", turn, DEVICES[1], (value + turn,))
        (got,) = threads.submit(second.receive, "k-a", turn, DEVICES[0]).result(DEADLINE_S)
        np.testing.assert_array_equal(got, value + turn)


def test_what_is_sent_may_change_and_what_is_lent_is_not_copied(meetings):
    first, second = meetings
    value = np.zeros(3)
    first.send("k-sent", 0, DEVICES[1], (value,))
    first.send("collective7.1.0.1-lent", 0, DEVICES[1], (value,), lent=True)
    value += 1
    assert second.receive("k-sent", 0, DEVICES[0])[0].tolist() == [0, 0, 0]
    assert second.receive("collective7.1.0.1-lent", 0, DEVICES[0])[0].tolist() == [1, 1, 1]


def test_calls_run_in_threads_of_their_own(meetings):
    assert meetings[0].submit(lambda: 7).result(DEADLINE_S) == 7


def test_ending_ends_those_who_wait(meetings, threads):
    first, second = meetings
    waiting = threads.submit(second.receive, "k-a", 0, DEVICES[0])
    first.end(UnavailableError(message="rank 0 has failed"), nothing)
    with pytest.raises(UnavailableError, match="rank 0 has failed"):
        waiting.result(DEADLINE_S)


def test_what_went_in_complete_steps_is_given_before_the_end(meetings, threads):
    first, second = meetings
    for turn in (0, 1):
        first.send("k-a", turn, DEVICES[1], (np.full(2, turn),))
    waiting = threads.submit(second.receive, "k-b", 1, DEVICES[0])
    first.end(UnavailableError(message="rank 0 has failed"), lambda key, turn: turn == 0)
    leaving = threads.submit(first.leave, CancelledError(message="the session was closed"))
    assert not waiting.done()
    assert not leaving.done()
    assert second.receive("k-a", 0, DEVICES[0])[0].tolist() == [0, 0]
    for call in (waiting.result, lambda timeout: second.receive("k-a", 1, DEVICES[0])):
        with pytest.raises(UnavailableError, match="rank 0 has failed"):
            call(DEADLINE_S)
    leaving.result(DEADLINE_S)
    with pytest.raises(UnavailableError, match="rank 0 has failed"):
        second.receive("k-a", 2, DEVICES[0])


def test_nobody_waits_for_what_nobody_takes(groups, meetings, monkeypatch):
    monkeypatch.setattr(groups_module, "LEAVE_TIMEOUT_S", 0.05)
    first, second = meetings
    first.send("k-a", 0, DEVICES[1], (np.ones(2),))
    first.end(UnavailableError(message="rank 0 has failed"), lambda key, turn: True)
    with pytest.raises(UnavailableError, match="rank 0 has failed"):
        second.receive("k-b", 0, DEVICES[0])


def test_a_meeting_ends_with_its_task(groups, meetings):
    first, second = meetings
    first.send("k-a", 0, DEVICES[1], (np.ones(2),))
    groups.close(CancelledError(message="shut down"))
    first.end(UnavailableError(message="rank 0 has failed"), lambda key, turn: True)
    with pytest.raises(UnavailableError, match="rank 0 has failed"):
        second.receive("k-a", 0, DEVICES[0])


def test_leaving_waits_until_all_is_taken(meetings, threads):
    first, second = meetings
    first.send("k-a", 0, DEVICES[1], (np.ones(2),))
    leaving = threads.submit(first.leave, FailedPreconditionError(message="rank 0 left"))
    assert second.receive("k-a", 0, DEVICES[0])[0].tolist() == [1, 1]
    leaving.result(DEADLINE_S)
    with pytest.raises(FailedPreconditionError, match="rank 0 left"):
        second.receive("k-a", 1, DEVICES[0])


def test_joining_ends_with_its_step(groups, threads):
    step = FakeStep()
    waiting = threads.submit(join, groups, 1, step)
    assert step.waiting.wait(DEADLINE_S)
    step.cancel()
    with pytest.raises(CancelledError):
        waiting.result(DEADLINE_S)


def test_joining_ends_in_time(groups):
    with pytest.raises(DeadlineExceededError, match="these have not joined: 1"):
        join(groups, 0, timeout_s=0.01)


def test_joining_ends_with_the_task(groups, threads):
    step = FakeStep()
    waiting = threads.submit(join, groups, 1, step)
    assert step.waiting.wait(DEADLINE_S)
    groups.close(UnavailableError(message="shut down"))
    with pytest.raises(UnavailableError, match="shut down"):
        waiting.result(DEADLINE_S)


ENDINGS = {
    "leave": lambda meeting, error: meeting.leave(error),
    "end": lambda meeting, error: meeting.end(error, nothing),
}


@pytest.mark.parametrize("ends", ENDINGS)
def test_what_was_lent_last_lives_on_after_a_rank_has_gone(
    groups, meetings, threads, monkeypatch, ends
):
    """Its session has released the buffers, and another process reads their contents."""
    first, second = meetings
    alive = []
    for turn in range(3):
        for instance in (1, 2):
            lent = np.full(3, turn)
            alive.append(weakref.ref(lent))
            for tag in ("a", "b"):
                key = f"collective7.{instance}.0.1-{tag}"
                first.send(key, turn, DEVICES[1], (lent[:2],), lent=True)
                threads.submit(second.receive, key, turn, DEVICES[0]).result(DEADLINE_S)
            del lent
            first.release(instance, turn - 1)
    assert [each() is not None for each in alive] == [False] * 4 + [True] * 2
    ENDINGS[ends](first, CancelledError(message="over"))
    del first, second
    meetings.clear()
    assert [each() is not None for each in alive] == [False] * 4 + [True] * 2
    monkeypatch.setattr(groups_module, "LENT_S", -1.0)
    groups._keep([])
    groups._lent[0] = (0.0, groups._lent[0][1])
    groups._keep([])
    assert [each() is not None for each in alive] == [False] * 6


def test_what_was_lent_ends_with_the_task(groups, meetings):
    first, _ = meetings
    lent = np.zeros(3)
    alive = weakref.ref(lent)
    first.send("collective7.1.0.1-a", 0, DEVICES[1], (lent,), lent=True)
    del lent
    first.end(CancelledError(message="over"), nothing)
    del first, _
    meetings.clear()
    assert alive() is not None
    groups.close(CancelledError(message="the task ends"))
    assert alive() is None
