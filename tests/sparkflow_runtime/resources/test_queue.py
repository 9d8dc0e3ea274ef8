"""Queues: the rules, exhaustively and without threads; then the waiting."""

import itertools
import random
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from sparkflow_runtime.resources.queue import AnyOrder, LeastFirst, Queue, QueueState
from support.step import FakeStep

DEADLINE_S = 60


def elements(*names):
    return [(name,) for name in names]


def names(operation):
    return [name for (name,) in operation.elements]


class TestQueueState:
    def test_first_in_first_out(self):
        queue = QueueState("q")
        queue.enqueue(elements(1, 2))
        queue.enqueue(elements(3))
        assert names(queue.dequeue(1)) == [1]
        assert names(queue.dequeue(2)) == [2, 3]
        assert len(queue) == 0

    def test_the_least_leave_in_order_only_once_all_asked_for_are_there(self):
        queue = QueueState("q", store=LeastFirst())
        several, one = queue.dequeue(4), queue.dequeue(1)
        for name in (4, 3, 2):
            queue.enqueue(elements(name))
            assert (several.done, names(several), one.done) == (False, [], False)
        queue.enqueue(elements(1, 0))
        assert (names(several), names(one)) == ([0, 1, 2, 3], [4])

    def test_the_least_that_are_left_leave_when_fewer_are_allowed(self):
        queue = QueueState("q", store=LeastFirst())
        several, at_most = queue.dequeue(3), queue.dequeue(3, allow_fewer=True)
        queue.enqueue(elements(2, 1))
        queue.close(False)
        assert isinstance(several.error, OutOfRangeError)
        assert names(at_most) == [1, 2]

    def test_a_full_queue_makes_enqueuers_wait_in_line(self):
        queue = QueueState("q", capacity=2)
        first, second = queue.enqueue(elements(1, 2, 3)), queue.enqueue(elements(4))
        assert (first.done, second.done, len(queue)) == (False, False, 2)
        assert names(queue.dequeue(1)) == [1]
        assert (first.done, second.done, len(queue)) == (True, False, 2)
        assert names(queue.dequeue(1)) == [2]
        assert second.done
        assert names(queue.dequeue(2)) == [3, 4]

    def test_an_empty_queue_makes_dequeuers_wait_in_line(self):
        queue = QueueState("q")
        first, second = queue.dequeue(2), queue.dequeue(1)
        queue.enqueue(elements(1))
        assert (first.done, second.done, len(queue)) == (False, False, 0)
        queue.enqueue(elements(2, 3))
        assert (names(first), names(second)) == ([1, 2], [3])

    def test_more_elements_than_the_capacity_pass_through(self):
        queue = QueueState("q", capacity=2)
        taken = queue.dequeue(5)
        put = queue.enqueue(elements(*range(6)))
        assert put.done
        assert names(taken) == [0, 1, 2, 3, 4]
        assert len(queue) == 1

    def test_a_withdrawn_dequeue_puts_back_what_it_took_in_front(self):
        queue = QueueState("q")
        first, second = queue.dequeue(3), queue.dequeue(2)
        queue.enqueue(elements(1, 2))
        queue.withdraw(first)
        assert names(second) == [1, 2]
        third = queue.dequeue(2)
        queue.enqueue(elements(3))
        queue.withdraw(third)
        assert names(queue.dequeue(1)) == [3]

    def test_a_withdrawn_enqueue_leaves_what_is_in(self):
        queue = QueueState("q", capacity=1)
        first, second = queue.enqueue(elements(1, 2)), queue.enqueue(elements(3))
        queue.withdraw(first)
        assert names(queue.dequeue(1)) == [1]
        assert second.done
        assert names(queue.dequeue(1)) == [3]

    def test_a_closed_queue_gives_what_is_left_and_takes_nothing(self):
        queue = QueueState("q")
        queue.enqueue(elements(1, 2))
        assert queue.close(False).error is None
        refused = queue.enqueue(elements(3)).error
        assert isinstance(refused, CancelledError)
        assert str(refused) == "FIFOQueue 'q' is closed."
        too_many = queue.dequeue(3).error
        assert isinstance(too_many, OutOfRangeError)
        assert str(too_many) == (
            "FIFOQueue 'q' is closed and has insufficient elements (requested 3, current size 2)"
        )
        assert names(queue.dequeue(3, allow_fewer=True)) == [1, 2]
        for operation in (queue.dequeue(1), queue.dequeue(3, allow_fewer=True)):
            assert isinstance(operation.error, OutOfRangeError)

    def test_closing_ends_who_waits_and_puts_back_what_they_took(self):
        queue = QueueState("q")
        greedy, fewer = queue.dequeue(3), queue.dequeue(2, allow_fewer=True)
        queue.enqueue(elements(1))
        queue.close(False)
        # Counted as in TensorFlow: two were missing, and the one taken is not back yet.
        assert str(greedy.error).endswith("(requested 2, current size 0)")
        assert fewer.error is None
        assert names(fewer) == [1]

    def test_closing_waits_for_the_enqueuers_before_it(self):
        queue = QueueState("q", capacity=1)
        waiting, close = queue.enqueue(elements(1, 2)), queue.close(False)
        late = queue.enqueue(elements(3))
        assert not any((waiting.done, close.done, late.done, queue.closed))
        queue.dequeue(1)
        assert waiting.error is None
        assert waiting.done
        assert close.done
        assert queue.closed
        assert isinstance(late.error, CancelledError)
        assert names(queue.dequeue(1)) == [2]

    def test_closing_can_cancel_the_enqueuers_before_it(self):
        queue = QueueState("q", capacity=1)
        waiting = queue.enqueue(elements(1, 2))
        assert queue.close(True).done
        assert str(waiting.error) == "Enqueue operation was cancelled"
        assert names(queue.dequeue(1)) == [1]
        assert isinstance(queue.dequeue(1).error, OutOfRangeError)

    def test_closing_twice(self):
        queue = QueueState("q")
        queue.close(False)
        assert str(queue.close(False).error) == "Queue 'q' is already closed."
        assert queue.close(True).error is None

    def test_shuffling_keeps_some_behind_until_it_is_closed(self):
        queue = QueueState("q", "RandomShuffleQueue", None, 3, AnyOrder(random.Random(1)))
        taken = queue.dequeue(2)
        queue.enqueue(elements(*range(4)))
        assert len(taken.elements) == 1
        queue.enqueue(elements(4))
        assert taken.done
        waiting = queue.dequeue(1)
        assert not waiting.done
        queue.close(False)
        rest = queue.dequeue(5)
        assert "RandomShuffleQueue 'q' is closed" in str(rest.error)
        last = queue.dequeue(2)
        assert sorted(names(taken) + names(waiting) + names(last)) == [0, 1, 2, 3, 4]

    def test_shuffling_gives_every_element_once_in_random_order(self):
        def shuffled(seed):
            queue = QueueState("q", store=AnyOrder(random.Random(seed)))
            queue.enqueue(elements(*range(50)))
            return names(queue.dequeue(50))

        assert sorted(shuffled(1)) == list(range(50))
        assert shuffled(1) == shuffled(1) != shuffled(2)

    @pytest.mark.parametrize("capacity", [1, 2, None])
    def test_no_element_is_lost_or_overtaken_in_any_sequence_of_requests(self, capacity):
        """All sequences of six requests: what comes out is what went in, in order."""
        requests = ("put one", "put two", "take one", "take two", "withdraw", "close")
        for sequence in itertools.product(requests, repeat=6):
            queue = QueueState("q", capacity=capacity)
            counter = itertools.count()
            puts, takes = [], []
            for request in sequence:
                kind, _, many = request.partition(" ")
                count = 2 if many == "two" else 1
                if kind == "put":
                    wanted = [next(counter) for _ in range(count)]
                    puts.append((queue.enqueue(elements(*wanted)), wanted))
                elif kind == "take":
                    takes.append(queue.dequeue(count))
                elif kind == "close":
                    queue.close(False)
                elif takes and not takes[-1].done:
                    queue.withdraw(takes.pop())
                assert capacity is None or len(queue) <= capacity
            inside = []
            for put, wanted in puts:
                left = len(put.elements)
                inside += wanted[: len(wanted) - left]
            given = [name for take in takes if not take.error for name in names(take)]
            held = [queue._items.take()[0] for _ in range(len(queue))]
            assert given + held == inside, sequence
            assert all(take.done for take in takes) or not (held or queue.closed), sequence


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as executor:
        yield executor


def pairs(capacity=None, shapes=((), (2,))):
    return Queue(QueueState("q", capacity=capacity), (dtypes.float32, dtypes.int32), shapes)


def pair(number):
    return np.float32(number), np.array([number, -number], np.int32)


class TestQueue:
    def test_elements_come_back_with_shapes_and_dtypes(self):
        queue, step = pairs(), FakeStep()
        queue.enqueue(pair(1), step)
        queue.enqueue_many((np.float32([2, 3]), np.int32([[2, -2], [3, -3]])), step)
        assert len(queue) == 3
        first, second = queue.dequeue(step)
        assert (first.shape, first.dtype, first) == ((), np.float32, 1)
        np.testing.assert_array_equal(second, [1, -1])
        firsts, seconds = queue.dequeue_many(2, step)
        assert (firsts.dtype, seconds.dtype) == (np.float32, np.int32)
        np.testing.assert_array_equal(firsts, [2, 3])
        np.testing.assert_array_equal(seconds, [[2, -2], [3, -3]])

    def test_elements_are_copied(self):
        queue, step, row = pairs(), FakeStep(), np.int32([1, 2])
        queue.enqueue((np.float32(0), row), step)
        rows = np.int32([[3, 4]])
        queue.enqueue_many((np.float32([0]), rows), step)
        row[:], rows[:] = 9, 9
        np.testing.assert_array_equal(queue.dequeue_many(2, step)[1], [[1, 2], [3, 4]])

    def test_nothing_in_and_nothing_out(self):
        queue, step = pairs(), FakeStep()
        queue.enqueue_many((np.zeros(0, np.float32), np.zeros((0, 2), np.int32)), step)
        assert len(queue) == 0
        assert [a.shape for a in queue.dequeue_many(0, step)] == [(0,), (0, 2)]

    def test_strings_and_elements_of_differing_shape(self):
        queue, step = Queue(QueueState("q"), (dtypes.string,), ()), FakeStep()
        queue.enqueue((b"text",), step)
        queue.enqueue((np.array([b"a", b"bc"], object),), step)
        assert queue.dequeue(step)[0][()] == b"text"
        assert queue.dequeue(step)[0].tolist() == [b"a", b"bc"]
        queue.enqueue_many((np.array([b"a", b"bc"], object),), step)
        (first,) = queue.dequeue(step)
        assert (first.shape, first[()]) == ((), b"a")
        with pytest.raises(InvalidArgumentError, match="FIFOQueue's DequeueMany and DequeueUpTo"):
            queue.dequeue_many(1, step)

    @pytest.mark.parametrize("many", [False, True])
    def test_wrong_components_are_refused(self, many):
        queue, step = pairs(), FakeStep()

        def put(*components):
            if many:
                queue.enqueue_many([np.stack([c, c]) for c in components], step)
            else:
                queue.enqueue(components, step)

        with pytest.raises(InvalidArgumentError, match="2 components, got 1"):
            put(np.float32(1))
        with pytest.raises(
            InvalidArgumentError, match=r"component 0\. Expected float32, got float64"
        ):
            put(np.float64(1), np.int32([1, 2]))
        with pytest.raises(InvalidArgumentError, match="Shape mismatch in tuple component 1"):
            put(np.float32(1), np.int32([1, 2, 3]))
        assert len(queue) == 0

    def test_components_with_differing_numbers_of_rows_are_refused(self):
        with pytest.raises(InvalidArgumentError) as caught:
            pairs().enqueue_many((np.float32([1, 2]), np.int32([[1, 2]])), FakeStep())
        assert str(caught.value) == (
            "Shape mismatch in tuple component 1. Expected [2,2], got [1,2]"
        )
        with pytest.raises(InvalidArgumentError, match="Shape mismatch in tuple component 0"):
            pairs().enqueue_many((np.float32(1), np.int32([[1, 2]])), FakeStep())
        with pytest.raises(InvalidArgumentError, match="Shape mismatch in tuple component 1"):
            pairs(shapes=()).enqueue_many((np.float32([1, 2]), np.int32([1])), FakeStep())

    def test_a_taker_waits_for_an_element(self, pool):
        queue, step = pairs(), FakeStep()
        taken = pool.submit(queue.dequeue, step)
        assert step.waiting.wait(DEADLINE_S)
        queue.enqueue(pair(5), FakeStep())
        assert taken.result(DEADLINE_S)[0] == 5
        assert step.callbacks == 0

    def test_a_giver_waits_for_room(self, pool):
        queue, step = pairs(capacity=1), FakeStep()
        queue.enqueue(pair(1), step)
        given = pool.submit(queue.enqueue, pair(2), step)
        assert step.waiting.wait(DEADLINE_S)
        assert not given.done()
        assert queue.dequeue(FakeStep())[0] == 1
        given.result(DEADLINE_S)
        assert queue.dequeue(FakeStep())[0] == 2

    def test_a_cancelled_taker_puts_back_what_it_has(self, pool):
        queue, step = pairs(), FakeStep()
        queue.enqueue(pair(1), step)
        taken = pool.submit(queue.dequeue_many, 3, step)
        assert step.waiting.wait(DEADLINE_S)
        assert len(queue) == 0
        step.cancel()
        with pytest.raises(CancelledError):
            taken.result(DEADLINE_S)
        assert len(queue) == 1
        assert queue.dequeue(FakeStep())[0] == 1

    def test_a_cancelled_taker_lets_the_next_one_have_its_turn(self, pool):
        queue, greedy, modest = pairs(), FakeStep(), FakeStep()
        first = pool.submit(queue.dequeue_many, 2, greedy)
        assert greedy.waiting.wait(DEADLINE_S)
        second = pool.submit(queue.dequeue, modest)
        assert modest.waiting.wait(DEADLINE_S)
        queue.enqueue(pair(7), FakeStep())
        greedy.cancel()
        with pytest.raises(CancelledError):
            first.result(DEADLINE_S)
        assert second.result(DEADLINE_S)[0] == 7

    def test_closing_ends_all_waiting(self, pool):
        queue, taker = pairs(), FakeStep()
        taken = pool.submit(queue.dequeue, taker)
        assert taker.waiting.wait(DEADLINE_S)
        assert not queue.is_closed
        queue.request_close(False, FakeStep())
        assert queue.is_closed
        with pytest.raises(OutOfRangeError, match="requested 1, current size 0"):
            taken.result(DEADLINE_S)
        with pytest.raises(CancelledError, match="already closed"):
            queue.request_close(False, FakeStep())

    def test_closing_waits_for_givers_and_can_itself_be_cancelled(self, pool):
        queue, giver, closer = pairs(capacity=1), FakeStep(), FakeStep()
        given = pool.submit(queue.enqueue_many, (np.float32([1, 2]), np.zeros((2, 2), "i4")), giver)
        assert giver.waiting.wait(DEADLINE_S)
        closed = pool.submit(queue.request_close, False, closer)
        assert closer.waiting.wait(DEADLINE_S)
        closer.cancel()
        with pytest.raises(CancelledError):
            closed.result(DEADLINE_S)
        assert not queue.is_closed
        queue.dequeue(FakeStep())
        given.result(DEADLINE_S)
        assert not queue.is_closed

    def test_dropping_the_queue_ends_all_waiting(self, pool):
        queue, giver = pairs(capacity=1), FakeStep()
        queue.enqueue(pair(1), giver)
        given = pool.submit(queue.enqueue, pair(2), giver)
        assert giver.waiting.wait(DEADLINE_S)
        queue.close()
        queue.close()
        with pytest.raises(CancelledError, match="Enqueue operation was cancelled"):
            given.result(DEADLINE_S)

    def test_every_element_arrives_once_with_many_givers_and_takers(self, pool):
        queue, per_giver = pairs(capacity=3), 100

        def give(start):
            for number in range(start, start + per_giver):
                queue.enqueue(pair(number), FakeStep())

        def take():
            got = deque()
            while True:
                try:
                    got.extend(queue.dequeue_many(7, FakeStep(), allow_fewer=True)[0].tolist())
                except OutOfRangeError:
                    return got

        takers = [pool.submit(take) for _ in range(3)]
        givers = [pool.submit(give, start * per_giver) for start in range(4)]
        for giver in givers:
            giver.result(DEADLINE_S)
        queue.request_close(False, FakeStep())
        got = [number for taker in takers for number in taker.result(DEADLINE_S)]
        assert sorted(got) == list(range(4 * per_giver))


@pytest.mark.parametrize("closed", [False, True])
def test_no_rows_wait_for_nothing(closed):
    queue = Queue(QueueState("q", capacity=1), [dtypes.int64], [()])
    step = FakeStep()
    queue.enqueue([np.int64(1)], step)
    if closed:
        queue.request_close(False, step)
    queue.enqueue_many([np.zeros(0, np.int64)], step)
    assert len(queue) == 1
