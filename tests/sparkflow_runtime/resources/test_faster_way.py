"""Which way a `FasterWay` chooses, on a clock that the test moves."""

import pytest

from sparkflow_runtime.resources import faster_way
from sparkflow_runtime.resources.faster_way import FasterWay


class Run:
    """A consumer whose elements take a given time, by threads and by itself.

    Args:
        threads_s: Seconds an element takes by threads.
        here_s: Seconds it takes without.
        busy: How many cores the process uses meanwhile.
    """

    def __init__(self, threads_s, here_s, busy=1.0):
        self.threads_s, self.here_s, self.busy = threads_s, here_s, busy
        self.now_s = self.used_s = 0.0
        self.way = FasterWay(lambda: self.now_s, lambda: self.used_s)
        self.here = 0

    def take(self, seconds):
        """Takes elements for this time; returns which part of it the consumer computed itself."""
        began, here = self.now_s, 0.0
        while self.now_s < began + seconds:
            each = self.threads_s if self.way.by_threads else self.here_s
            here += 0.0 if self.way.by_threads else each
            self.now_s += each
            self.used_s += each * self.busy
            self.way.count(2)
        return here / (self.now_s - began)


@pytest.fixture(autouse=True)
def no_other_trial(monkeypatch):
    monkeypatch.setattr(faster_way, "_trials", faster_way._Trials())


def test_it_begins_with_threads():
    run = Run(1e-3, 1e-3)
    assert run.way.by_threads
    assert run.take(0.02) == 0


def test_the_consumer_computes_what_takes_longer_in_threads():
    run = Run(300e-6, 100e-6)
    run.take(0.3)
    assert run.take(10) > 0.95


def test_threads_compute_what_is_faster_there():
    run = Run(100e-6, 300e-6)
    run.take(0.3)
    assert run.take(10) < 0.05


def test_equal_ways_are_left_to_the_consumer():
    run = Run(100e-6, 100e-6)
    run.take(0.5)
    assert run.take(10) > 0.85


def test_it_follows_what_changes():
    run = Run(300e-6, 100e-6)
    run.take(30)
    run.here_s = 1e-3
    run.take(20)
    assert run.take(10) < 0.1
    run.here_s = 50e-6
    run.take(20)
    assert run.take(10) > 0.9


def test_calls_that_wait_are_never_made_by_the_consumer():
    run = Run(0.01, 0.02, busy=0.01)
    assert run.take(60) == 0


def test_calls_that_begin_to_wait_go_to_threads_at_once():
    run = Run(300e-6, 100e-6)
    run.take(1)
    assert not run.way.by_threads
    run.here_s, run.busy = 0.7, 0.01
    run.take(0.7)
    assert run.way.by_threads


def test_threads_that_deliver_rarely_are_left_alone():
    run = Run(0.2, 0.2)
    assert run.take(60) == 0


def test_an_interruption_decides_nothing():
    run = Run(100e-6, 150e-6)
    while run.way.by_threads:
        run.take(1e-4)
    for _ in range(6):  # the trial, with a pause in some windows
        run.take(0.02)
        if run.way.by_threads:
            run.now_s += 0.025
            run.used_s += 0.025
    run.take(0.5)
    assert run.take(0.4) == 0


def test_one_trial_runs_at_a_time_unless_it_has_stopped():
    first, second = Run(100e-6, 120e-6), Run(100e-6, 120e-6)
    while first.way.by_threads:
        first.take(1e-4)
    assert second.take(0.5) == 0
    assert second.take(2) > 0
