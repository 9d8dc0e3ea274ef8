"""Rounds with threads: replicas are held until the step's update is done."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
)
from sparkflow_runtime.resources.replicas.meeting import GradientRounds
from sparkflow_runtime.resources.replicas.rounds import Contribution, Rounds
from support.step import FakeStep

DEADLINE_S = 60


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as executor:
        yield executor


def made(num_replicas, num_required=None, timeout_s=DEADLINE_S, **options):
    rounds = Rounds(num_replicas, num_required or num_replicas, **options)
    return GradientRounds("rounds", rounds, timeout_s)


def values(contributions):
    return [each.value for each in contributions]


def meet(rounds, replica, value, step=None, weight=1.0):
    running = step or FakeStep()
    return rounds.meet(Contribution(replica, weight, value), values, running)


def waiting(pool, rounds, replica, value, call=meet):
    """A replica that waits for others, and its step."""
    step = FakeStep()
    future = pool.submit(call, rounds, replica, value, step)
    assert step.waiting.wait(DEADLINE_S)
    return future, step


def test_the_replica_that_completes_a_round_makes_the_update(pool):
    rounds = made(2)
    held, _ = waiting(pool, rounds, 0, "a")
    assert meet(rounds, 1, "b") == ["a", "b"]
    assert not held.done(), "the update is not made yet"
    rounds.release(1)
    assert held.result(DEADLINE_S) is None
    rounds.release(0)  # it does not belong to it
    assert rounds.step_of(0) == rounds.step_of(1) == 1


def test_the_first_replica_is_woken_to_make_the_update(pool):
    rounds = made(2, elects_first=True)
    held, _ = waiting(pool, rounds, 0, "a")
    other = pool.submit(meet, rounds, 1, "b")
    assert held.result(DEADLINE_S) == ["a", "b"]
    rounds.release(0)
    assert other.result(DEADLINE_S) is None


def test_late_contributions_are_dropped_and_counted():
    rounds = made(2, 1)
    assert rounds.step_of(1) == 0
    assert meet(rounds, 0, "a") == ["a"]
    rounds.release(0)
    assert meet(rounds, 1, "late") is None
    assert rounds.late == 1
    assert meet(rounds, 1, "in time") == ["in time"]


def test_a_late_replica_goes_on_when_the_update_is_made(pool):
    rounds = made(2, 1)
    assert meet(rounds, 0, "a") == ["a"]
    late, _ = waiting(pool, rounds, 1, "late")
    rounds.release(0)
    assert late.result(DEADLINE_S) is None
    assert rounds.step_of(1) == 1


def test_a_replica_that_leaves_completes_the_round_of_the_others(pool):
    rounds = made(2)
    held, _ = waiting(pool, rounds, 0, "a")
    rounds.leave(1)
    assert held.result(DEADLINE_S) == ["a"]


def test_a_cancelled_contribution_does_not_count(pool):
    rounds = made(2)
    held, step = waiting(pool, rounds, 0, "cancelled")
    step.cancel()
    with pytest.raises(CancelledError):
        held.result(DEADLINE_S)
    other, _ = waiting(pool, rounds, 1, "b")
    assert meet(rounds, 0, "again") == ["again", "b"]
    rounds.release(0)
    assert other.result(DEADLINE_S) is None


def test_a_replica_that_was_started_anew_replaces_its_contribution(pool):
    rounds = made(2)
    dead, _ = waiting(pool, rounds, 0, "dead")
    new = pool.submit(meet, rounds, 0, "new")
    with pytest.raises(AbortedError, match=r"Replica 0 contributed to step 0 of 'rounds' again"):
        dead.result(DEADLINE_S)
    assert meet(rounds, 1, "b") == ["new", "b"]
    rounds.release(1)
    assert new.result(DEADLINE_S) is None


def test_who_waits_too_long_is_told_for_whom():
    with pytest.raises(
        DeadlineExceededError, match=r"waited 0 s for the gradients of replica\(s\) 0, 2"
    ):
        meet(made(3, timeout_s=0.0), 1, "b")


def test_who_waits_too_long_for_an_update_is_told_whose():
    rounds = made(2, 1, timeout_s=0.0)
    meet(rounds, 1, "b")
    with pytest.raises(DeadlineExceededError, match="for replica 1 to finish its update"):
        meet(rounds, 0, "a")


def test_dropping_the_rounds_ends_all_waiting(pool):
    rounds = made(2)
    held, _ = waiting(pool, rounds, 0, "a")
    rounds.close()
    with pytest.raises(AbortedError, match="dropped by its task"):
        held.result(DEADLINE_S)


def test_means_are_for_every_replica(pool):
    def mean(rounds, replica, value, step):
        return rounds.mean(Contribution(replica, 1.0, value), values, step)

    rounds = made(3)
    first, _ = waiting(pool, rounds, 2, "c", mean)
    second, _ = waiting(pool, rounds, 0, "a", mean)
    assert mean(rounds, 1, "b", FakeStep()) == ["a", "b", "c"]
    assert first.result(DEADLINE_S) == second.result(DEADLINE_S) == ["a", "b", "c"]


def test_what_cannot_be_combined_ends_the_round_for_all(pool):
    def fail(contributions):
        raise InvalidArgumentError(message="they differ")

    rounds = made(2)
    held, _ = waiting(pool, rounds, 0, "a")
    with pytest.raises(InvalidArgumentError, match="they differ"):
        rounds.meet(Contribution(1, 1.0, "b"), fail, FakeStep())
    assert held.result(DEADLINE_S) is None


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_weights_are_finite_and_not_negative(weight):
    with pytest.raises(InvalidArgumentError, match="weight is finite and at least 0"):
        meet(made(1), 0, "a", weight=weight)
