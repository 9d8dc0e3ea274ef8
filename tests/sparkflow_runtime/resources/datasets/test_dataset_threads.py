"""Threads of datasets: what they compute in advance, when they end, and who makes short calls."""

import contextlib
import threading
import time

import pytest

from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from sparkflow_runtime.resources.datasets import (
    dataset_threads,
    dataset_transforms,
    function_datasets as dataset_functions,
)
from sparkflow_runtime.resources.datasets.dataset_iterator import DatasetIterator
from support.datasets import add_one, numbers, values
from support.step import FakeStep

DEADLINE_S = 10


def sparkflow_threads():
    return [t for t in threading.enumerate() if t.name.startswith("sparkflow-p")]


def test_prefetching_stops_at_its_bound_and_its_thread_ends_when_it_is_closed():
    taken = threading.Semaphore(0)
    produced = []

    def count(step, element):
        produced.append(int(element[0]))
        taken.release()
        return element

    endless = dataset_transforms.repeated(numbers(5), -1)
    iterator = dataset_threads.prefetched(dataset_functions.mapped(endless, count), 3).iterate()
    assert iterator.next(FakeStep()) == (0,)
    for _ in range(4):  # the returned one and three more
        assert taken.acquire(timeout=10)
    assert len(produced) == 4
    assert len(sparkflow_threads()) == 1
    iterator.close()
    iterator.close()
    assert sparkflow_threads() == []


def test_closing_waits_for_a_thread_that_has_just_started(monkeypatch):
    class Started(threading.Thread):
        def start(self):
            super().start()
            if self.name == "sparkflow-prefetch":
                closing.start()
                closing.join(0.2)

    iterator = dataset_threads.prefetched(
        dataset_functions.mapped(numbers(3), add_one), 1
    ).iterate()
    closing = threading.Thread(target=iterator.close)
    monkeypatch.setattr(threading, "Thread", Started)
    with contextlib.suppress(CancelledError):
        iterator.next(FakeStep())
    closing.join(DEADLINE_S)
    assert sparkflow_threads() == []


def test_a_parallel_map_that_is_closed_while_its_source_computes_starts_no_thread():
    def close(step, element):
        iterator.close()
        return element

    source = dataset_functions.mapped(numbers(3), close)
    iterator = dataset_threads.mapped_in_parallel(source, add_one, 2).iterate()
    with pytest.raises(CancelledError, match="The iterator was closed"):
        iterator.next(FakeStep())
    assert sparkflow_threads() == []


def test_who_asks_late_is_told_at_once_that_the_iterator_was_closed():
    step = dataset_threads.BackgroundStep()
    told = []
    step.on_cancel(lambda: told.append("before"))
    step.on_cancel(lambda: told.append("taken back"))()
    step.cancel()
    step.on_cancel(lambda: told.append("after"))()
    assert told == ["before", "after"]


def test_a_thread_that_waits_in_a_function_ends_when_the_iterator_is_closed():
    waiting = threading.Event()

    def wait(step, element):
        ended = threading.Event()
        step.on_cancel(ended.set)
        waiting.set()
        assert ended.wait(10)
        step.check_cancelled()

    for make in (
        lambda: dataset_threads.prefetched(dataset_functions.mapped(numbers(3), wait), 1),
        lambda: dataset_threads.mapped_in_parallel(numbers(3), wait, 2),
    ):
        waiting.clear()
        holder = DatasetIterator("it")
        holder.initialize(make())
        errors = []

        def ask(holder=holder, errors=errors):
            try:
                holder.next_batch(FakeStep())
            except CancelledError as error:
                errors.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        assert waiting.wait(10)
        holder.close()
        asking.join(10)
        assert len(errors) == 1
        assert sparkflow_threads() == []


def test_a_cancelled_step_stops_waiting_and_the_iterator_lives_on():
    release = threading.Event()

    def wait(step, element):
        assert release.wait(10)
        return element

    iterator = dataset_threads.prefetched(dataset_functions.mapped(numbers(2), wait), 1).iterate()
    step, errors = FakeStep(), []

    def ask():
        try:
            iterator.next(step)
        except CancelledError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert step.waiting.wait(10)
    step.cancel()
    asking.join(10)
    assert len(errors) == 1
    release.set()
    assert iterator.next(FakeStep()) == (0,)
    iterator.close()
    assert sparkflow_threads() == []


def test_threads_end_with_the_data():
    dataset = dataset_threads.prefetched(
        dataset_threads.mapped_in_parallel(numbers(20), add_one, 4), 2
    )
    assert values(dataset) == list(range(1, 21))
    assert sparkflow_threads() == []


def test_an_iterator_that_nobody_holds_is_closed():
    holder = DatasetIterator("it")
    holder.initialize(dataset_threads.prefetched(dataset_transforms.repeated(numbers(3), -1), 1))
    assert holder.next_batch(FakeStep()) == (0,)
    assert len(sparkflow_threads()) == 1
    del holder
    assert sparkflow_threads() == []


def test_calls_run_at_the_same_time():
    both = threading.Barrier(2)

    def meet(step, element):
        both.wait(10)
        return element

    assert values(dataset_threads.mapped_in_parallel(numbers(4), meet, 2)) == [0, 1, 2, 3]


class Mapped:
    """An iterator over the numbers from 0, with the threads in which the function was called."""

    def __init__(self, function, count=1000, parallel=2):
        self.threads = []

        def call(step, element):
            self.threads.append(threading.get_ident())
            return function(step, element)

        mapped = dataset_threads.mapped_in_parallel(numbers(count), call, parallel)
        self.iterator = mapped.iterate()
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


@pytest.fixture
def short(monkeypatch):
    """A call is short if it does not wait, on busy machines as well."""
    monkeypatch.setattr(dataset_threads, "_SHORT_S", 0.02)


def negated(step, element):
    return (-element[0],)


def test_short_calls_are_made_by_the_consumer(short):
    mapped = Mapped(negated)
    taken = mapped.make_calls_here()
    assert taken >= 16
    assert mapped.next(100) == [-number for number in range(taken, taken + 100)]
    assert set(mapped.threads[-100:]) == {threading.get_ident()}
    mapped.iterator.close()


def test_long_calls_are_made_at_the_same_time(short):
    both = threading.Barrier(2)

    def slow(step, element):
        both.wait(DEADLINE_S)
        time.sleep(0.03)
        return element

    mapped = Mapped(slow, 40)
    assert mapped.next(40) == list(range(40))
    assert threading.get_ident() not in mapped.threads
    mapped.iterator.close()


def test_calls_that_become_long_go_back_to_threads(short):
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


def test_the_consumer_gets_errors_in_their_place_and_the_end(short):
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
def test_a_call_of_the_consumer_ends_with_the_iterator_and_with_its_step(short, end):
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


def test_a_closed_iterator_makes_no_calls(short):
    mapped = Mapped(negated)
    mapped.make_calls_here()
    mapped.iterator.close()
    before = len(mapped.threads)
    with pytest.raises(CancelledError):
        mapped.next()
    assert len(mapped.threads) == before
