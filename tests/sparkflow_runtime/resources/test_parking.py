"""Runs that are parked where they would wait: at queues and at accumulators, next to threads."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    OutOfRangeError,
)
from sparkflow_runtime.ops.native.equal_rows import sum_equal
from sparkflow_runtime.resources import parking
from sparkflow_runtime.resources.conditional_accumulator import (
    ConditionalAccumulator,
    SparseConditionalAccumulator,
)
from sparkflow_runtime.resources.parking import Parked, Visit
from sparkflow_runtime.resources.queue import LeastFirst, Queue, QueueState
from support.step import FakeStep

WAIT_S = 20


def queue_of_numbers(capacity: int | None = None, **attrs: Any) -> Queue:
    return Queue(QueueState("q", capacity=capacity, **attrs), [dtypes.int64], [()])


def accumulator() -> ConditionalAccumulator:
    return ConditionalAccumulator("a", dtypes.float32, (2,), mean=True)


class Run:
    """A run of one part: it calls something that parks, and again once that is reported done."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.visit = Visit()
        self.ended = threading.Event()
        self.threads: list[int] = []
        self.parked_at: tuple[Any, Any] | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_short = True
        self.go_on()

    def go_on(self) -> None:
        assert not self.ended.is_set()
        self.threads.append(threading.get_ident())
        while True:
            try:
                self.result = self.visit.attempt(self.call)
            except Parked as parked:
                self.parked_at = parked.owner, parked.request
                if parked.owner.park(parked.request, self.soon):
                    return
                continue
            except BaseException as error:
                self.error = error
            self.ended.set()
            return

    def soon(self) -> None:
        parking.soon(self.go_on, self.is_short)

    def give_up(self, error: Any) -> None:
        assert self.parked_at is not None
        owner, request = self.parked_at
        owner.give_up(request, error)

    def wait(self) -> Any:
        assert self.ended.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        return self.result


def dequeuing(queue: Queue, count: int | None = None) -> Run:
    if count is None:
        return Run(lambda: int(queue.dequeue(FakeStep())[0]))
    return Run(lambda: queue.dequeue_many(count, FakeStep())[0].tolist())


def enqueue(queue: Queue, *numbers: int) -> None:
    queue.enqueue_many([np.array(numbers, np.int64)], FakeStep())


def taking(gradients: ConditionalAccumulator, count: int) -> Run:
    return Run(lambda: gradients.take(count, FakeStep()).tolist())


def apply(gradients: ConditionalAccumulator, *values: float, step: int = 0) -> bool:
    return gradients.apply(step, np.array(values, np.float32))


# ------------------------------------------------------------------------------------- queues


def test_what_is_there_is_taken_at_once() -> None:
    queue = queue_of_numbers()
    enqueue(queue, 1)
    assert dequeuing(queue).wait() == 1


def test_a_parked_run_holds_no_thread_and_is_continued_by_another() -> None:
    queue = queue_of_numbers()
    run = dequeuing(queue)
    assert not run.ended.is_set()  # and this thread continues
    enqueue(queue, 5)
    assert run.wait() == 5
    assert run.threads[1] != threading.get_ident()  # which is busy with something else


def test_the_thread_that_ends_waits_continues_the_runs_itself_when_it_has_finished() -> None:
    queue, seen = queue_of_numbers(), []
    runs = [dequeuing(queue) for _ in range(3)]

    def step() -> None:
        enqueue(queue, 1, 2, 3)
        seen.extend(run.ended.is_set() for run in runs)

    parking.run_to_completion(step)
    assert seen == [False] * 3
    assert [run.wait() for run in runs] == [1, 2, 3]
    assert {thread for run in runs for thread in run.threads} == {threading.get_ident()}


def test_a_queue_is_served_in_order_whoever_waits() -> None:
    """A run, a thread and a run: neither overtakes the other."""
    queue = queue_of_numbers()
    first, found, step = dequeuing(queue), [], FakeStep()
    thread = threading.Thread(target=lambda: found.append(int(queue.dequeue(step)[0])))
    thread.start()
    assert step.waiting.wait(WAIT_S)
    last = dequeuing(queue)
    for number in (1, 2, 3):
        enqueue(queue, number)
    thread.join(WAIT_S)
    assert (first.wait(), found, last.wait()) == (1, [2], 3)


def test_many_elements_are_waited_for_in_one_place() -> None:
    queue = queue_of_numbers()
    many, one = dequeuing(queue, 3), dequeuing(queue)
    enqueue(queue, 1, 2)
    assert not many.ended.is_set()
    enqueue(queue, 3, 4)
    assert (many.wait(), one.wait()) == ([1, 2, 3], 4)


def test_a_full_queue_is_waited_for() -> None:
    queue = queue_of_numbers(capacity=1)
    enqueue(queue, 1)
    run = Run(lambda: queue.enqueue([np.int64(2)], FakeStep()))
    several = Run(lambda: enqueue(queue, 3, 4))
    assert not any(each.ended.is_set() for each in (run, several))
    assert [int(queue.dequeue(FakeStep())[0]) for _ in range(4)] == [1, 2, 3, 4]
    run.wait()
    several.wait()


def test_a_repeated_attempt_enters_nothing_twice() -> None:
    queue, other = queue_of_numbers(), queue_of_numbers()

    def call() -> int:
        enqueue(queue, 7)
        queue.enqueue_many([np.zeros([0], np.int64)], FakeStep())
        return int(other.dequeue(FakeStep())[0])

    run = Run(call)
    enqueue(other, 1)
    assert run.wait() == 1
    assert len(queue) == 1


def test_an_attempt_that_asks_somebody_else_fails() -> None:
    queues = [queue_of_numbers(), queue_of_numbers()]
    run = Run(lambda: queues.pop().dequeue(FakeStep()))
    enqueue(queues.pop(), 1)
    queues.append(queue_of_numbers())
    assert run.parked_at is not None
    run.give_up(CancelledError(message="no more"))
    with pytest.raises(InternalError, match="asks others than before"):
        run.wait()


@pytest.mark.parametrize("cancels", [False, True])
def test_closing_ends_parked_runs(cancels: bool) -> None:
    queue = queue_of_numbers()
    run = dequeuing(queue)
    queue.request_close(cancels, FakeStep())
    with pytest.raises(OutOfRangeError, match=r"is closed and has insufficient elements"):
        run.wait()


def test_whoever_drops_a_queue_ends_them_too() -> None:
    full = queue_of_numbers(capacity=1)
    enqueue(full, 1)
    run = Run(lambda: enqueue(full, 2))
    closing = Run(lambda: full.request_close(False, FakeStep()))
    full.close()
    with pytest.raises(CancelledError, match="Enqueue operation was cancelled"):
        run.wait()
    with pytest.raises(CancelledError, match="Enqueue operation was cancelled"):
        closing.wait()


def test_a_close_that_waits_for_enqueuers_is_parked() -> None:
    full = queue_of_numbers(capacity=1)
    enqueue(full, 1)
    run = Run(lambda: enqueue(full, 2))
    closing = Run(lambda: full.request_close(False, FakeStep()))
    assert not closing.ended.is_set()
    assert int(full.dequeue(FakeStep())[0]) == 1
    run.wait()
    closing.wait()
    assert full.is_closed


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CancelledError(message="no more"), "Dequeue operation was cancelled"),
        (DeadlineExceededError(message="too late"), "too late"),
    ],
)
def test_a_run_that_gives_up_loses_its_place_and_nothing_else(error: Any, expected: str) -> None:
    queue = queue_of_numbers()
    many, behind = dequeuing(queue, 2), dequeuing(queue)
    enqueue(queue, 1)  # which `many` holds
    many.give_up(error)
    with pytest.raises(type(error), match=expected):
        many.wait()
    assert behind.wait() == 1
    many.give_up(error)  # it has ended
    enqueue(queue, 2)
    assert len(queue) == 1


def test_what_is_done_when_a_run_gives_up_stays_done() -> None:
    queue = queue_of_numbers()
    run = dequeuing(queue)

    def step() -> None:
        enqueue(queue, 1)
        run.give_up(CancelledError(message="too late"))

    parking.run_to_completion(step)
    assert run.wait() == 1


def test_what_is_refused_is_not_asked_for_again() -> None:
    queue = queue_of_numbers()
    with pytest.raises(InvalidArgumentError, match="Type mismatch"):
        Run(lambda: queue.enqueue([np.float32(1)], FakeStep())).wait()


def test_the_least_of_all_is_given_to_a_parked_run() -> None:
    queue = Queue(QueueState("q", store=LeastFirst()), [dtypes.int64], [()])
    run = dequeuing(queue, 2)
    enqueue(queue, 3, 1, 2)
    assert run.wait() == [1, 2]


# ------------------------------------------------------------------------------- accumulators


def test_a_run_waits_for_gradients() -> None:
    gradients = accumulator()
    run = taking(gradients, 2)
    apply(gradients, 1, 2)
    assert not run.ended.is_set()
    apply(gradients, 3, 4)
    assert run.wait() == [2, 3]
    assert gradients.num_accumulated == 0
    assert not apply(gradients, 1, 1, step=0)  # that step is over


def test_several_sums_are_taken_once_each() -> None:
    """The mean is computed in place, and must not be computed twice."""
    first, second = accumulator(), accumulator()

    def call() -> list[Any]:
        return [each.take(2, FakeStep()).tolist() for each in (first, second)]

    run = Run(call)
    for each in (first, second, first, second):
        apply(each, 2, 4)
    assert run.wait() == [[2, 4], [2, 4]]


def test_rows_are_waited_for() -> None:
    rows = SparseConditionalAccumulator("s", dtypes.float32, (4, 1), True, sum_equal)
    run = Run(lambda: [each.tolist() for each in rows.take(1, FakeStep())])
    rows.apply(0, np.array([2]), np.array([[3]], np.float32), ())
    assert run.wait() == [[2], [[3]], [4, 1]]


def test_takers_are_served_in_order_as_far_as_there_is_enough() -> None:
    gradients, step, found = accumulator(), FakeStep(), []
    two = taking(gradients, 2)
    thread = threading.Thread(target=lambda: found.append(gradients.take(1, step).tolist()))
    thread.start()
    assert step.waiting.wait(WAIT_S)
    one = taking(gradients, 1)
    apply(gradients, 1, 1)
    thread.join(WAIT_S)
    assert found == [[1, 1]]
    apply(gradients, 2, 2, step=1)
    assert one.wait() == [2, 2]
    apply(gradients, 3, 3, step=2)
    assert not two.ended.is_set()
    apply(gradients, 5, 5, step=2)
    assert two.wait() == [4, 4]


def test_the_end_of_an_accumulator_ends_parked_runs() -> None:
    gradients = accumulator()
    stopped = taking(gradients, 1)
    gradients.cancel_takes()
    with pytest.raises(CancelledError, match="was stopped"):
        stopped.wait()
    gradients.set_global_step(0)
    dropped = taking(gradients, 1)
    gradients.close()
    with pytest.raises(AbortedError, match="was dropped by its task"):
        dropped.wait()


def test_a_taker_that_gives_up_leaves_the_gradients_to_others() -> None:
    gradients = accumulator()
    given_up, other = taking(gradients, 1), taking(gradients, 1)
    given_up.give_up(DeadlineExceededError(message="too late"))
    apply(gradients, 1, 2)
    with pytest.raises(DeadlineExceededError, match="too late"):
        given_up.wait()
    assert other.wait() == [1, 2]


def test_a_thread_that_is_cancelled_leaves_its_place() -> None:
    gradients, step, errors = accumulator(), FakeStep(), []

    def take() -> None:
        try:
            gradients.take(1, step)
        except CancelledError as error:
            errors.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    assert step.waiting.wait(WAIT_S)
    step.cancel()
    thread.join(WAIT_S)
    assert len(errors) == 1
    apply(gradients, 1, 2)
    assert gradients.num_accumulated == 1


# ---------------------------------------------------------------------- who continues, and when


def test_runs_that_continue_each_other_do_not_nest() -> None:
    """Each takes from a queue and puts into the next one, 5,000 of them."""
    count = 5000
    queues = [queue_of_numbers() for _ in range(count + 1)]

    def passing(source: Queue, target: Queue) -> Callable[[], None]:
        return lambda: enqueue(target, int(source.dequeue(FakeStep())[0]) + 1)

    runs = [Run(passing(queues[i], queues[i + 1])) for i in range(count)]
    parking.run_to_completion(lambda: enqueue(queues[0], 0))
    assert all(run.ended.is_set() for run in runs)
    assert int(queues[-1].dequeue(FakeStep())[0]) == count


def test_an_error_is_that_of_the_run_that_was_continued() -> None:
    queue, gone = queue_of_numbers(), queue_of_numbers()
    gone.close()
    failing = Run(lambda: (queue.dequeue(FakeStep()), enqueue(gone, 1)))
    behind = dequeuing(queue)
    parking.run_to_completion(lambda: enqueue(queue, 1, 2))  # nothing is raised here
    with pytest.raises(CancelledError, match="is closed"):
        failing.wait()
    assert behind.wait() == 2


def test_what_was_to_be_continued_is_so_after_an_error_of_the_thread() -> None:
    queue = queue_of_numbers()
    run = dequeuing(queue)

    def step() -> None:
        enqueue(queue, 1)
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        parking.run_to_completion(step)
    assert run.wait() == 1


def test_short_calls_come_first_and_long_ones_share_no_thread() -> None:
    order: list[str] = []
    others = threading.Event()

    def long(name: str) -> Callable[[], None]:
        def call() -> None:
            order.append(name)
            if len([each for each in order if each.startswith("long")]) == 2:
                others.set()
            assert others.wait(WAIT_S)  # each waits for the other one

        return call

    def step() -> None:
        parking.soon(long("long1"), is_short=False)
        parking.soon(long("long2"), is_short=False)
        parking.at_the_end(lambda given: order.append(f"end{given}"), 1)
        parking.soon(lambda: order.append("short"), is_short=True)

    parking.run_to_completion(step)
    assert order[:2] == ["short", "end[1]"]
    assert sorted(order[2:]) == ["long1", "long2"]


def test_what_comes_at_the_end_is_gathered() -> None:
    seen: list[list[int]] = []

    def step() -> None:
        parking.at_the_end(seen.append, 1)
        parking.soon(lambda: parking.at_the_end(seen.append, 2), is_short=True)

    parking.at_the_end(seen.append, 0)
    parking.run_to_completion(step)
    assert seen == [[0], [1, 2]]


def test_without_threads_the_caller_continues_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(call: Callable[[], object]) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(parking, "start_thread", refuse)
    queue = queue_of_numbers()
    run = dequeuing(queue)
    enqueue(queue, 1)
    assert run.wait() == 1
    assert run.threads[1] == threading.get_ident()


@pytest.mark.parametrize("capacity", [None, 3])
def test_many_takers_and_givers_lose_and_repeat_nothing(capacity: int | None) -> None:
    """Runs and threads take, and some runs give up; threads that never wait continue them."""
    queue = queue_of_numbers(capacity)
    count, found, lock = 400, [], threading.Lock()
    runs: list[Run] = []

    def give(numbers: range) -> None:
        for number in numbers:
            if capacity is None:
                parking.run_to_completion(partial(enqueue, queue, number))
            else:
                enqueue(queue, number)

    def take() -> None:
        for _ in range(count // 2):
            number = int(queue.dequeue(FakeStep())[0])
            with lock:
                found.append(number)

    def park() -> None:
        for place in range(count // 2):
            run = dequeuing(queue)
            if place % 3 == 0:
                if run.parked_at is not None:
                    run.give_up(CancelledError(message="no more"))
                assert run.ended.wait(WAIT_S)
                if run.error is not None:
                    run = dequeuing(queue)
            runs.append(run)

    threads = [threading.Thread(target=give, args=(range(i, count, 2),)) for i in range(2)]
    threads += [threading.Thread(target=target) for target in (take, park)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert sorted([*found, *(run.wait() for run in runs)]) == list(range(count))


def test_a_run_that_was_parked_leaves_no_garbage() -> None:
    """Its values would stay until the next collection, which took 160 µs per step (2026-11-28)."""
    queue, gradients = queue_of_numbers(), accumulator()

    def cycle() -> None:
        runs = [dequeuing(queue), taking(gradients, 1)]
        parking.run_to_completion(lambda: (enqueue(queue, 1), apply(gradients, 1, 2, step=1 << 40)))
        for run in runs:
            run.wait()

    cycle()
    gc.collect()
    gc.disable()
    try:
        before = gc.get_count()[0]
        for _ in range(50):
            cycle()
        assert gc.collect() < 50, before
    finally:
        gc.enable()
