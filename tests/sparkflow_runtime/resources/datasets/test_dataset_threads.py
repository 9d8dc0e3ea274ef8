"""Parallel maps: short calls are made by the consumer, long ones by threads.

Order, errors and ends of these iterators are also tested in `ops/data/test_dataset.py`.
"""

import threading
import time

import pytest

from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from sparkflow_runtime.resources.datasets import dataset_sources, dataset_threads
from support.step import FakeStep

DEADLINE_S = 10


class Mapped:
    """An iterator over the numbers from 0, with the threads in which the function was called."""

    def __init__(self, function, count=1000, parallel=2):
        self.threads = []

        def call(step, element):
            self.threads.append(threading.get_ident())
            return function(step, element)

        source = dataset_sources.of_range(0, count, 1)
        self.iterator = dataset_threads.mapped_in_parallel(source, call, parallel).iterate()
        self.step = FakeStep()

    def next(self, count=1):
        """Returns this many results."""
        return [int(self.iterator.next(self.step)[0]) for _ in range(count)]

    def make_calls_here(self):
        """Takes elements until the function is called in this thread; returns how many."""
        for taken in range(1, 500):
            self.next()
            if self.threads[-1] == threading.get_ident():
                return taken
        raise AssertionError("all calls were made by other threads")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """A call is short if it does not wait, on busy machines as well."""
    monkeypatch.setattr(dataset_threads, "_SHORT_S", 0.02)


def negated(step, element):
    return (-element[0],)


def test_short_calls_are_made_by_the_consumer():
    mapped = Mapped(negated)
    taken = mapped.make_calls_here()
    assert taken >= 16
    assert mapped.next(100) == [-number for number in range(taken, taken + 100)]
    assert set(mapped.threads[-100:]) == {threading.get_ident()}
    mapped.iterator.close()


def test_long_calls_are_made_at_the_same_time():
    both = threading.Barrier(2)

    def slow(step, element):
        both.wait(DEADLINE_S)
        time.sleep(0.03)
        return element

    mapped = Mapped(slow, 40)
    assert mapped.next(40) == list(range(40))
    assert threading.get_ident() not in mapped.threads
    mapped.iterator.close()


def test_calls_that_become_long_go_back_to_threads():
    sleeps = threading.Event()

    def function(step, element):
        if sleeps.is_set():
            time.sleep(0.7)
        return element

    mapped = Mapped(function)
    taken = mapped.make_calls_here()
    sleeps.set()
    mapped.next()
    sleeps.clear()
    before = len(mapped.threads)
    assert mapped.next(3) == list(range(taken + 1, taken + 4))
    assert threading.get_ident() not in mapped.threads[before:]
    mapped.iterator.close()


def test_the_consumer_gets_errors_in_their_place_and_the_end():
    def function(step, element):
        if element[0] == 800:
            raise InvalidArgumentError(message="eight hundred")
        if element[0] == 900:
            raise OutOfRangeError(message="no more")
        return element

    mapped = Mapped(function)
    taken = mapped.make_calls_here()
    mapped.next(800 - taken)
    with pytest.raises(InvalidArgumentError, match="eight hundred"):
        mapped.next()
    assert mapped.next(99) == list(range(801, 900))
    assert mapped.iterator.next(mapped.step) is None
    assert mapped.iterator.next(mapped.step) is None
    mapped.iterator.close()


@pytest.mark.parametrize("end", ["close", "cancel"])
def test_a_call_of_the_consumer_ends_with_the_iterator_and_with_its_step(end):
    blocks, waiting = threading.Event(), threading.Event()

    def function(step, element):
        if blocks.is_set():
            ended = threading.Event()
            take_back = step.on_cancel(ended.set)
            waiting.set()
            assert ended.wait(DEADLINE_S)
            take_back()
            step.check_cancelled()
        return element

    mapped = Mapped(function)
    mapped.make_calls_here()
    blocks.set()
    errors = []

    def take():
        try:
            mapped.next()
        except CancelledError as error:
            errors.append(error)

    taking = threading.Thread(target=take)
    taking.start()
    assert waiting.wait(DEADLINE_S)
    if end == "close":
        mapped.iterator.close()
    else:
        mapped.step.cancel()
    taking.join(DEADLINE_S)
    assert len(errors) == 1
    assert taking.ident in mapped.threads
    mapped.iterator.close()


def test_a_closed_iterator_makes_no_calls():
    mapped = Mapped(negated)
    mapped.make_calls_here()
    mapped.iterator.close()
    before = len(mapped.threads)
    with pytest.raises(CancelledError):
        mapped.next()
    assert len(mapped.threads) == before
