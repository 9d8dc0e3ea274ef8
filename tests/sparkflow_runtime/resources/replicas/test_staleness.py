"""Bounded staleness: the rule against a model, and the waiting."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
)
from sparkflow_runtime.resources.replicas.staleness import Clocks, StalenessClock
from support.step import FakeStep

DEADLINE_S = 60


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_a_replica_may_be_so_many_steps_ahead(bound):
    clocks = Clocks(2, bound)
    for _ in range(bound):
        clocks.advance(0)
        assert clocks.may_go_on(0)
    clocks.advance(0)
    assert not clocks.may_go_on(0)
    assert clocks.behind(0) == [1]
    clocks.advance(1)
    assert clocks.may_go_on(0)


def test_a_replica_that_joins_is_one_of_the_slowest():
    clocks = Clocks(2, 1)
    for _ in range(2):
        clocks.advance(0)
        clocks.advance(1)
    clocks.join(0)
    assert clocks.steps_of(0) == 2
    clocks.advance(5)
    assert clocks.steps_of(5) == 3


@pytest.mark.parametrize("seed", range(200))
def test_random_events_keep_the_bound(seed):
    """Replicas that step only when allowed are never further apart; none waits without reason."""
    chance = random.Random(seed)
    count, bound = chance.randint(1, 5), chance.randint(0, 3)
    clocks = Clocks(count, bound)
    steps = dict.fromkeys(range(count), 0)
    for _ in range(200):
        replica = chance.randrange(count)
        event = chance.choices(["step", "leave", "join"], [20, 1, 1])[0]
        if event == "step" and replica in steps:
            slowest = min(steps.values())
            may = steps[replica] - slowest <= bound
            assert clocks.may_go_on(replica) is may
            assert bool(clocks.behind(replica)) is not may
            if may:
                clocks.advance(replica)
                steps[replica] += 1
        elif event == "leave":
            clocks.leave(replica)
            steps.pop(replica, None)
        elif event == "join":
            clocks.join(replica)
            steps.pop(replica, None)
            steps[replica] = min(steps.values(), default=0)
        if steps:
            assert clocks.slowest == min(steps.values())
            assert max(steps.values()) - clocks.slowest <= bound + 1
            assert any(clocks.may_go_on(each) for each in steps), "somebody can always go on"


@pytest.mark.parametrize(("replicas", "bound"), [(0, 1), (1, -1)])
def test_bounds_that_make_no_sense(replicas, bound):
    with pytest.raises(InvalidArgumentError, match=f"{replicas} replicas and a bound of {bound}"):
        Clocks(replicas, bound)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as executor:
        yield executor


def waiting(pool, clock, replica):
    step = FakeStep()
    future = pool.submit(clock.advance, replica, step)
    assert step.waiting.wait(DEADLINE_S)
    return future, step


def test_the_fast_wait_for_the_slow(pool):
    clock = StalenessClock("clock", Clocks(2, 0), DEADLINE_S)
    fast, _ = waiting(pool, clock, 0)
    clock.advance(1, FakeStep())
    assert fast.result(DEADLINE_S) is None


def test_nobody_waits_for_who_left(pool):
    clock = StalenessClock("clock", Clocks(2, 0), DEADLINE_S)
    fast, _ = waiting(pool, clock, 0)
    clock.leave(1)
    assert fast.result(DEADLINE_S) is None
    clock.join(1)
    fast, step = waiting(pool, clock, 0)
    step.cancel()
    with pytest.raises(CancelledError):
        fast.result(DEADLINE_S)


def test_who_waits_too_long_is_told_for_whom():
    clock = StalenessClock("clock", Clocks(3, 1), 0.0)
    clock.advance(1, FakeStep())
    with pytest.raises(DeadlineExceededError, match=r"2 steps and waited 0 s .* replica\(s\) 0, 2"):
        clock.advance(1, FakeStep())


def test_dropping_the_clock_ends_all_waiting(pool):
    clock = StalenessClock("clock", Clocks(2, 0), DEADLINE_S)
    fast, _ = waiting(pool, clock, 0)
    clock.close()
    with pytest.raises(AbortedError, match="dropped by its task"):
        fast.result(DEADLINE_S)
