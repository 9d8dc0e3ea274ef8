"""Ranks of collective groups find each other."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    UnavailableError,
)
from sparkflow_runtime.protos.worker_pb2 import CompleteGroupRequest
from sparkflow_runtime.rendezvous.groups import GroupTable

DEADLINE_S = 30


def applicant(rank, size=2, group="g", member=None):
    return CompleteGroupRequest(
        group=group, group_size=size, rank=rank, member=member or f"rank{rank}"
    )


@pytest.fixture
def ended():
    return []


@pytest.fixture
def table(ended):
    return GroupTable(lambda number, error: ended.append((number, error)))


@pytest.fixture
def threads():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def waiting_rank(table, threads, who):
    """A rank that joins, and an event that is set when it waits."""
    come = threading.Event()
    return threads.submit(table.join, who, DEADLINE_S, lambda: come.set() or True), come


def join_all(table, threads, size, **changes):
    futures = [
        threads.submit(table.join, applicant(rank, size, **changes), DEADLINE_S)
        for rank in range(size)
    ]
    return [future.result(DEADLINE_S) for future in futures]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_all_ranks_are_given_the_same_number(table, threads, size):
    numbers = join_all(table, threads, size)
    assert len(set(numbers)) == 1
    assert 1 << 62 <= numbers[0] < 1 << 63


def test_groups_and_rounds_have_numbers_of_their_own(table, threads):
    first = join_all(table, threads, 2)
    other = join_all(table, threads, 2, group="other")
    assert first[0] != other[0]


def test_a_rank_that_comes_again_ends_the_old_number(table, threads, ended):
    old = join_all(table, threads, 2)[0]
    again = threads.submit(table.join, applicant(1, member="new"), DEADLINE_S)
    late = threads.submit(table.join, applicant(0), DEADLINE_S)
    assert again.result(DEADLINE_S) == late.result(DEADLINE_S) != old
    ((number, error),) = ended
    assert number == old
    assert isinstance(error, AbortedError)
    assert "of collective group g joined again" in error.message


def test_a_rank_that_comes_again_too_early_takes_its_own_place(table, threads):
    first, come = waiting_rank(table, threads, applicant(1))
    assert come.wait(DEADLINE_S)
    second = threads.submit(table.join, applicant(1, member="new"), DEADLINE_S)
    with pytest.raises(AbortedError, match="Rank 1 of collective group g joined again"):
        first.result(DEADLINE_S)
    assert table.join(applicant(0), DEADLINE_S) == second.result(DEADLINE_S)


def test_missing_ranks_are_named(table):
    with pytest.raises(DeadlineExceededError, match="of 4 ranks, these have not joined: 0, 2, 3"):
        table.join(applicant(1, 4), 0.001)


def test_ranks_must_agree_on_the_size(table, threads):
    waiting, come = waiting_rank(table, threads, applicant(0, 3))
    assert come.wait(DEADLINE_S)
    with pytest.raises(InvalidArgumentError, match=r"Rank 1 says .* g has 2 ranks; others said 3"):
        table.join(applicant(1, 2), DEADLINE_S)
    table.close(UnavailableError(message="gone"))
    with pytest.raises(UnavailableError):
        waiting.result(DEADLINE_S)


@pytest.mark.parametrize(("rank", "size"), [(2, 2), (-1, 2), (0, 0), (0, 1 << 17)])
def test_ranks_that_cannot_be_are_refused(table, rank, size):
    with pytest.raises(InvalidArgumentError, match=f"no rank {rank} of {size}"):
        table.join(applicant(rank, size), DEADLINE_S)


def test_who_does_not_wait_any_more_is_let_go(table, threads):
    wanted = [True]
    waiting = threads.submit(table.join, applicant(0), DEADLINE_S, lambda: wanted[0])
    wanted[0] = False
    table.wake()
    with pytest.raises(CancelledError, match="no longer waits"):
        waiting.result(DEADLINE_S)


def test_closing_ends_waiting_and_joining(table, threads):
    waiting = threads.submit(table.join, applicant(0), DEADLINE_S)
    table.close(UnavailableError(message="shut down"))
    for call in (lambda: waiting.result(DEADLINE_S), lambda: table.join(applicant(1), 1)):
        with pytest.raises(UnavailableError, match="shut down"):
            call()
