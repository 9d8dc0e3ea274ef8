"""Runs of collectives in sessions: turns, failures that reach the others, leaving."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    UnavailableError,
    UnknownError,
)
from sparkflow_runtime.resources.collectives import (
    collective_exchange as collective,
    collective_runs,
)
from sparkflow_runtime.resources.collectives.collective_exchange import Exchange, Group
from sparkflow_runtime.resources.collectives.collective_runs import Collectives
from support.meetings import FakeMeeting, MeetingPlace, device_names
from support.step import FakeStep

DEADLINE_S = 30
NAMES = device_names(2)


class Rank:
    """A session of one rank."""

    def __init__(self, rank, place, threads, between=True, names=NAMES):
        self.group = Group(3, rank, names, between)
        self.collectives = Collectives()
        self.meeting = FakeMeeting(place, names[rank], threads)

    def step(self, number=1):
        step = FakeStep(step_id=number)
        step.ranks = self.meeting
        return step

    def start(self, step, instance=5, value=1.0, timeout_s=DEADLINE_S, elements=3):
        def work(exchange):
            buffer = np.full(elements, value)
            collective.all_reduce(exchange, buffer, "Add", False)
            return (buffer, exchange.turn)

        self.collectives.start(step, self.group, instance, timeout_s, work)

    def wait(self, step, instance=5, timeout_s=DEADLINE_S):
        return self.collectives.wait(step, self.group, instance, timeout_s)

    def run(self, number=1, **options):
        step = self.step(number)
        self.start(step, **options)
        return self.wait(step)


@pytest.fixture
def threads():
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def ranks(threads):
    place = MeetingPlace()
    return [Rank(rank, place, threads) for rank in range(2)]


def both(threads, ranks, call):
    return [future.result(DEADLINE_S) for future in [threads.submit(call, rank) for rank in ranks]]


def test_runs_have_turns_of_their_own(ranks, threads):
    def call(rank):
        own = 1.0 + rank.group.rank
        return [rank.run(number, value=own * number) for number in (1, 2, 3)]

    for results in both(threads, ranks, call):
        assert [turn for _, turn in results] == [0, 1, 2]
        assert [buffer[0] for buffer, _ in results] == [3, 6, 9]


def test_instances_may_start_in_any_order(ranks, threads):
    def call(rank):
        step = rank.step()
        order = (5, 6) if rank.group.rank else (6, 5)
        for instance in order:
            rank.start(step, instance, float(instance))
        return [rank.wait(step, instance)[0][0] for instance in (5, 6)]

    assert both(threads, ranks, call) == [[10, 12], [10, 12]]


def test_within_a_step_nothing_is_counted(threads):
    place, fresh = MeetingPlace(), MeetingPlace()
    ranks = [Rank(rank, place, threads, between=False) for rank in range(2)]
    assert [turn for _, turn in both(threads, ranks, lambda rank: rank.run())] == [0, 0]
    for rank in ranks:
        rank.meeting = FakeMeeting(fresh, NAMES[rank.group.rank], threads)
    assert [turn for _, turn in both(threads, ranks, lambda rank: rank.run(2))] == [0, 0]


def test_who_does_not_come_in_time_is_named(ranks):
    step = ranks[0].step()
    ranks[0].start(step)
    match = r"instance 5 of group 3: rank 0 .* waited 0.01 s for rank 1 \(/job:w/.* in run 0"
    with pytest.raises(DeadlineExceededError, match=match):
        ranks[0].wait(step, timeout_s=0.01)


def test_a_failed_group_stays_failed(ranks, threads):
    step = ranks[0].step()
    ranks[0].start(step)
    with pytest.raises(DeadlineExceededError):
        ranks[0].wait(step, timeout_s=0.01)
    with pytest.raises(DeadlineExceededError, match="instance 5 of group 3"):
        ranks[0].start(ranks[0].step(2), instance=6)
    with pytest.raises(DeadlineExceededError, match=r"rank 0 .* waited 0.01 s"):
        threads.submit(ranks[1].run).result(DEADLINE_S)


def test_a_step_that_ends_between_the_halves_ends_the_others_too(ranks, threads):
    step = ranks[0].step()
    ranks[0].start(step)
    step.cancel(CancelledError(message="the user gave up"))
    with pytest.raises(AbortedError, match=r"rank 0 .* gave up: the user gave up"):
        threads.submit(ranks[1].run).result(DEADLINE_S)


def test_a_cancelled_step_says_so_itself(ranks, threads):
    step = ranks[0].step()
    ranks[0].start(step)
    waiting = threads.submit(ranks[0].wait, step)
    step.cancel(CancelledError(message="the user gave up"))
    with pytest.raises((CancelledError, InternalError)):
        waiting.result(DEADLINE_S)


def test_callbacks_of_steps_are_taken_back(ranks, threads):
    def call(rank):
        step = rank.step()
        rank.start(step)
        rank.wait(step)
        return step.callbacks

    assert both(threads, ranks, call) == [0, 0]


def test_closing_a_session_leaves_the_group(ranks, threads):
    both(threads, ranks, lambda rank: rank.run())
    ranks[1].collectives.close()
    with pytest.raises(FailedPreconditionError, match=r"rank 1 .* left collective group 3"):
        threads.submit(ranks[0].run, 2).result(DEADLINE_S)


def test_a_rank_that_hears_of_it_first_keeps_nobody_from_the_steps_before(threads, monkeypatch):
    """Rank 0 leaves after a step, rank 2 begins another; rank 1 still takes part in the first."""
    names, place = device_names(3), MeetingPlace()
    ranks = [Rank(rank, place, threads, names=names) for rank in range(3)]
    is_behind, may_go_on = threading.Event(), threading.Event()
    receive = Exchange.receive

    def slow(exchange, peer, tag):
        if (exchange.group.rank, peer, exchange.turn) == (1, 2, 0) and tag.startswith("g"):
            is_behind.set()
            assert may_go_on.wait(DEADLINE_S)
        return receive(exchange, peer, tag)

    monkeypatch.setattr(Exchange, "receive", slow)
    first, behind, ahead = (threads.submit(rank.run, elements=50_000) for rank in ranks)
    for future in (first, ahead):
        assert future.result(DEADLINE_S)[0][0] == 3
    assert is_behind.wait(DEADLINE_S)
    ranks[0].collectives.close()
    with pytest.raises(FailedPreconditionError, match=r"rank 0 .* left collective group 3"):
        threads.submit(ranks[2].run, 2, elements=50_000).result(DEADLINE_S)
    may_go_on.set()
    assert behind.result(DEADLINE_S)[0][0] == 3
    with pytest.raises(FailedPreconditionError, match=r"rank 0 .* left collective group 3"):
        threads.submit(ranks[1].run, 2, elements=50_000).result(DEADLINE_S)


def test_of_a_step_that_failed_nothing_is_kept(ranks, threads):
    """One of its instances may be complete: whoever waits for another one fails at once."""
    both(threads, ranks, lambda rank: rank.run(1))
    step = ranks[0].step(2)
    ranks[0].start(step)
    threads.submit(ranks[1].run, 2).result(DEADLINE_S)
    ranks[0].wait(step)
    seen = []
    monitor = ranks[0].meeting
    end = monitor.end
    monitor.end = lambda error, is_complete: (seen.append(is_complete), end(error, is_complete))
    ranks[0].start(step, instance=6)
    with pytest.raises(DeadlineExceededError):
        ranks[0].wait(step, instance=6, timeout_s=0.01)
    (is_complete,) = seen
    kept = {(i, t): is_complete(f"collective3.{i}.0.1-hello", t) for i in (5, 6) for t in (0, 1)}
    assert kept == {(5, 0): True, (5, 1): False, (6, 0): False, (6, 1): False}


def test_closing_what_was_never_used_is_nothing(ranks):
    ranks[0].collectives.close()
    ranks[0].collectives.close()


def test_what_fails_in_a_thread_fails_where_it_is_waited_for(ranks):
    step = ranks[0].step()

    def work(exchange):
        raise ValueError("a bug")

    ranks[0].collectives.start(step, ranks[0].group, 5, DEADLINE_S, work)
    with pytest.raises(UnknownError, match="instance 5 of group 3: ValueError: a bug"):
        ranks[0].wait(step)


def test_what_did_not_start_cannot_be_waited_for(ranks):
    with pytest.raises(InternalError, match="did not start"):
        ranks[0].wait(ranks[0].step())


class Alone(FakeStep):
    """A step whose group never meets."""

    def join(self, group, rank, devices, timeout_s):
        raise DeadlineExceededError(message=f"{group} {rank} {len(devices)} {timeout_s}")


def test_who_is_missing_when_ranks_meet_is_what_is_said(ranks, monkeypatch):
    monkeypatch.setattr(collective_runs, "_GRACE_S", DEADLINE_S)
    step = Alone()
    step.ranks = ranks[1].meeting
    ranks[1].start(step, timeout_s=0.5)
    with pytest.raises(DeadlineExceededError, match=r"3@/job:w/replica:0/task:0.* 1 2 0.5"):
        ranks[1].wait(step, timeout_s=0.5)


class Late(FakeStep):
    """A step whose group meets only after it has failed."""

    def join(self, group, rank, devices, timeout_s):
        self.fail()
        return self.meeting()


def test_a_group_that_failed_while_it_met_is_ended(ranks, threads):
    step = Late()
    step.ranks = ranks[0].meeting
    error = UnavailableError(message="too late")
    step.fail = lambda: ranks[0].collectives._member(ranks[0].group).fail(error, (1, 0))
    ranks[0].start(step)
    with pytest.raises(UnavailableError, match="too late"):
        threads.submit(ranks[1].run).result(DEADLINE_S)
