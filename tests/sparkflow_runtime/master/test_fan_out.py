import threading

import pytest

from sparkflow_runtime.errors import UnavailableError
from sparkflow_runtime.master.fan_out import MAX_THREADS, for_each


def test_answers_come_in_order_from_a_bounded_number_of_threads() -> None:
    threads: set[int] = set()

    def ask(number: int) -> int:
        threads.add(threading.get_ident())
        return number * number

    assert for_each(ask, range(1000)) == [number * number for number in range(1000)]
    assert 1 <= len(threads) <= MAX_THREADS
    assert threading.get_ident() not in threads


def test_one_is_asked_in_this_thread() -> None:
    assert for_each(lambda _: threading.get_ident(), ["one"]) == [threading.get_ident()]
    assert for_each(lambda _: 1, []) == []


def test_all_are_asked_at_once() -> None:
    together = threading.Barrier(8, timeout=20)
    assert sorted(for_each(lambda _: together.wait(), range(8))) == list(range(8))


def test_a_failure_does_not_wait_for_those_who_hang() -> None:
    hanging = threading.Event()

    def ask(number: int) -> bool:
        if number == 3:
            raise UnavailableError(message="task 3 cannot be reached")
        return hanging.wait(60)

    with pytest.raises(UnavailableError, match="task 3"):
        for_each(ask, range(5))
    hanging.set()
