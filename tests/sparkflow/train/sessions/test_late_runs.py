"""Runs that wait for a failed thread; how sessions use it is in test_monitored_session.py."""

import threading

import pytest

from sparkflow.train.sessions import late_runs
from sparkflow.train.sessions.coordinator import Coordinator
from sparkflow.train.sessions.late_runs import LateRuns

DEADLINE_S = 30


@pytest.fixture
def coord(monkeypatch):
    monkeypatch.setattr(late_runs, "_LEAST_GRACE_S", 0.02)
    return Coordinator()


def fail(coord):
    coord.request_stop(ValueError("no more"))


def test_a_run_that_does_not_end_closes_the_session_once_and_is_told_the_cause(coord):
    closed = threading.Semaphore(0)
    late = LateRuns(coord, 0.0, closed.release)
    late.end(late.begin())
    run = late.begin()
    late.raise_cause()  # there is none yet
    fail(coord)
    assert closed.acquire(timeout=DEADLINE_S)
    with pytest.raises(ValueError, match="no more"):
        late.raise_cause()
    late.end(run)
    assert not closed.acquire(timeout=0.05)


def test_runs_that_end_are_not_late_however_many_there_are(coord, monkeypatch):
    waits = []
    late = LateRuns(coord, 0.0, lambda: pytest.fail("closed"))
    run = late.begin()

    def wait(self, grace_s):
        """Simulates that this time has passed, while one run has ended and another begun."""
        nonlocal run
        waits.append(grace_s)
        late.end(run)
        run = late.begin()
        return len(waits) > 3

    monkeypatch.setattr(threading.Event, "wait", wait)
    late._end_late_one()
    assert len(waits) == 4
    late.raise_cause()


def test_nothing_is_closed_after_the_end(coord):
    late = LateRuns(coord, 0.0, lambda: pytest.fail("closed"))
    late.begin()
    late.stop()
    late.stop()
    fail(coord)
    late._end_late_one()
    late.raise_cause()
