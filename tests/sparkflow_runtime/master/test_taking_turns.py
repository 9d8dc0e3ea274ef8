"""Threads that repeat a step: at the same time, or one after another."""

import threading

import pytest

from sparkflow_runtime.master import taking_turns
from sparkflow_runtime.master.taking_turns import TakingTurns

DEADLINE_S = 10


class Way:
    """A `FasterWay` that the test decides; records what is counted."""

    def __init__(self, by_threads):
        self.by_threads = by_threads
        self.counted = []

    def count(self, ahead, elements):
        """Records them."""
        self.counted.append((ahead, elements))


@pytest.fixture
def make(monkeypatch):
    def made(by_threads):
        monkeypatch.setattr(taking_turns, "FasterWay", lambda: Way(by_threads))
        return TakingTurns()

    return made


def in_threads(turns, calls):
    threads = [threading.Thread(target=turns.run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def join(threads):
    for thread in threads:
        thread.join(DEADLINE_S)
    assert not any(thread.is_alive() for thread in threads)


def test_one_thread_counts_nothing(make):
    turns = make(False)
    turns.run(lambda for_s: 3)
    assert turns._way.counted == []


def test_threads_run_at_the_same_time_where_that_is_faster(make):
    turns, both = make(True), threading.Barrier(2)

    def meet(for_s):
        both.wait(DEADLINE_S)
        return 7

    join(in_threads(turns, [meet, meet]))
    assert turns._way.counted == [(2, 7)] * 2


def test_threads_take_turns_where_that_is_faster(make, monkeypatch):
    monkeypatch.setattr(taking_turns, "_PATIENCE_S", DEADLINE_S)
    turns, inside, most = make(False), [], []

    def call(for_s):
        inside.append(None)
        most.append(len(inside))
        for _ in range(1000):  # longer than the interpreter's switch interval is not needed
            sum(range(50))
        inside.pop()
        return 1

    for _ in range(5):
        join(in_threads(turns, [call] * 4))
    assert most == [1] * 20


def test_a_turn_that_waits_for_another_thread_does_not_keep_it_from_running(make):
    turns, both = make(False), threading.Barrier(3)

    def meet(for_s):
        both.wait(DEADLINE_S)
        return 1

    join(in_threads(turns, [meet] * 3))


def test_an_error_ends_the_turn(make, monkeypatch):
    monkeypatch.setattr(taking_turns, "_PATIENCE_S", DEADLINE_S)
    turns = make(False)

    def fail(for_s):
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        turns.run(fail)
    join(in_threads(turns, [lambda for_s: 1]))
