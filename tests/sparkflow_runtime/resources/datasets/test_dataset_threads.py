"""Threads of datasets: what they compute in advance, when they end, and who computes."""

import contextlib
import threading

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


class Way:
    """A `FasterWay` that the test decides."""

    def __init__(self, by_threads):
        self.by_threads = by_threads

    def count(self, ahead):
        """Counts nothing."""


class Mapped:
    """An iterator over the numbers from 0, with the threads in which the function was called."""

    def __init__(self, function, by_threads=False, kind="map"):
        self.threads = []

        def call(step, element):
            self.threads.append(threading.get_ident())
            return function(step, element)

        self.way = Way(by_threads)
        if kind == "map":
            dataset = dataset_threads.mapped_in_parallel(numbers(100), call, 2, self.way)
            self.iterator = dataset.iterate()
        else:
            dataset = dataset_functions.mapped(numbers(100), call)
            self.iterator = dataset_threads.begin_in_thread(2, self.way, dataset)
        self.step = FakeStep()

    def next(self, count=1):
        """Returns this many results."""
        return [int(self.iterator.next(self.step)[0]) for _ in range(count)]


KINDS = pytest.mark.parametrize("kind", ["map", "prefetch"])


def negated(step, element):
    return (-element[0],)


@KINDS
def test_the_consumer_computes_where_that_is_faster(kind):
    mapped = Mapped(negated, kind=kind)
    assert mapped.next(100) == [-number for number in range(100)]
    assert set(mapped.threads) == {threading.get_ident()}
    assert mapped.iterator.next(mapped.step) is None
    assert mapped.iterator.next(mapped.step) is None
    assert sparkflow_threads() == []
    mapped.iterator.close()


@KINDS
def test_all_elements_arrive_in_order_while_the_way_changes(kind):
    mapped = Mapped(negated, kind=kind)
    for number in range(100):
        mapped.way.by_threads = number % 7 < 3
        assert mapped.next() == [-number]
    assert mapped.iterator.next(mapped.step) is None
    assert len(set(mapped.threads)) > 1
    assert threading.get_ident() in mapped.threads
    mapped.iterator.close()
    assert sparkflow_threads() == []


@KINDS
def test_threads_end_with_data_that_the_consumer_has_ended(kind):
    mapped = Mapped(negated, by_threads=True, kind=kind)
    mapped.next(3)
    mapped.way.by_threads = False
    mapped.next(97)
    assert mapped.iterator.next(mapped.step) is None
    mapped.iterator.close()
    assert sparkflow_threads() == []


def test_calls_in_threads_are_made_at_the_same_time():
    both = threading.Barrier(2)

    def meet(step, element):
        both.wait(DEADLINE_S)
        return element

    mapped = Mapped(meet, by_threads=True)
    assert mapped.next(100) == list(range(100))
    assert threading.get_ident() not in mapped.threads
    mapped.iterator.close()


@KINDS
def test_the_consumer_gets_errors_in_their_place_and_the_end(kind):
    def function(step, element):
        if element[0] == 80:
            raise InvalidArgumentError(message="eighty")
        if element[0] == 90:
            raise OutOfRangeError(message="no more")
        return element

    for by_threads in (False, True):
        mapped = Mapped(function, by_threads, kind)
        mapped.next(80)
        with pytest.raises(InvalidArgumentError, match="eighty"):
            mapped.next()
        assert mapped.next(9) == list(range(81, 90))
        assert mapped.iterator.next(mapped.step) is None
        assert mapped.iterator.next(mapped.step) is None
        mapped.iterator.close()


@KINDS
@pytest.mark.parametrize("end", ["close", "cancel"])
def test_a_call_of_the_consumer_ends_with_the_iterator_and_with_its_step(end, kind):
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

    mapped = Mapped(function, kind=kind)
    mapped.next(3)
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


@KINDS
def test_a_closed_iterator_makes_no_calls(kind):
    mapped = Mapped(negated, kind=kind)
    mapped.next(3)
    mapped.iterator.close()
    before = len(mapped.threads)
    with pytest.raises(CancelledError):
        mapped.next()
    assert len(mapped.threads) == before


def test_a_wait_that_is_cancelled_loses_no_element():
    release = threading.Event()

    def wait(step, element):
        assert release.wait(DEADLINE_S)
        return element

    mapped = Mapped(wait, by_threads=True)
    errors = []

    def ask():
        try:
            mapped.next()
        except CancelledError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert mapped.step.waiting.wait(DEADLINE_S)
    mapped.step.cancel()
    asking.join(DEADLINE_S)
    assert len(errors) == 1
    release.set()
    mapped.step = FakeStep()
    assert mapped.next(3) == [0, 1, 2]
    mapped.iterator.close()
