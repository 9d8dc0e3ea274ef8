"""Waiting for another step, and being cancelled."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparkflow_runtime.errors import CancelledError, DeadlineExceededError
from sparkflow_runtime.resources.waiting import wait_for
from support.step import FakeStep

DEADLINE_S = 60


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as executor:
        yield executor


class Box:
    """A value that arrives, stored like the resources of this package."""

    def __init__(self):
        self.condition = threading.Condition()
        self.value = None

    def put(self, value):
        with self.condition:
            self.value = value
            self.condition.notify_all()

    def wait(self, step):
        return wait_for(self.condition, lambda: self.value, step)


def test_what_is_there_is_given_without_asking_the_step():
    box, step = Box(), FakeStep()
    box.put(7)
    step.cancel()
    assert box.wait(step) == 7
    assert step.callbacks == 0


def test_what_comes_later_is_given_then(pool):
    box, step = Box(), FakeStep()
    result = pool.submit(box.wait, step)
    assert step.waiting.wait(DEADLINE_S)
    box.put(None)
    box.put(7)
    assert result.result(DEADLINE_S) == 7
    assert step.callbacks == 0


def test_a_result_that_is_false_is_a_result():
    condition = threading.Condition()
    assert wait_for(condition, lambda: 0, FakeStep()) == 0


def test_cancelling_raises_what_ended_the_step(pool):
    box, step = Box(), FakeStep()
    result = pool.submit(box.wait, step)
    assert step.waiting.wait(DEADLINE_S)
    step.cancel(DeadlineExceededError(message="too slow"))
    with pytest.raises(DeadlineExceededError, match="too slow"):
        result.result(DEADLINE_S)
    assert step.callbacks == 0


def test_a_step_cancelled_before_does_not_wait():
    box, step = Box(), FakeStep()
    step.cancel()
    with pytest.raises(CancelledError):
        box.wait(step)
    assert step.callbacks == 0


def test_a_step_that_cancels_under_its_own_lock_does_not_block():
    """The callback may be called while the step's lock is held, and while we query the step."""
    box = Box()
    lock = threading.RLock()
    step = FakeStep()

    class Locked:
        def check_cancelled(self):
            with lock:
                step.check_cancelled()

        def on_cancel(self, callback):
            with lock:
                return step.on_cancel(callback)

    with ThreadPoolExecutor(1) as executor:
        result = executor.submit(box.wait, Locked())
        assert step.waiting.wait(DEADLINE_S)
        with lock:
            step.cancel()
        with pytest.raises(CancelledError):
            result.result(DEADLINE_S)


def test_cancelling_one_leaves_the_others_waiting(pool):
    box, doomed, other = Box(), FakeStep(), FakeStep()
    results = [pool.submit(box.wait, step) for step in (doomed, other)]
    assert doomed.waiting.wait(DEADLINE_S)
    assert other.waiting.wait(DEADLINE_S)
    doomed.cancel()
    with pytest.raises(CancelledError):
        results[0].result(DEADLINE_S)
    assert not results[1].done()
    box.put("late")
    assert results[1].result(DEADLINE_S) == "late"


def test_an_attempt_that_fails_ends_the_waiting(pool):
    condition, step = threading.Condition(), FakeStep()
    broken = threading.Event()

    def attempt():
        if broken.is_set():
            raise ValueError("broken")

    result = pool.submit(wait_for, condition, attempt, step)
    assert step.waiting.wait(DEADLINE_S)
    broken.set()
    with condition:
        condition.notify_all()
    with pytest.raises(ValueError, match="broken"):
        result.result(DEADLINE_S)
    assert step.callbacks == 0
