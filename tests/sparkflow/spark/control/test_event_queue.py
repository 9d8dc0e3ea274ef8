"""Failures among messages: which end training, and which only a worker."""

import pytest

from sparkflow.spark.cluster.events import Event, LoopEnded, StepsDone, TaskFailed, TaskGone
from sparkflow.spark.cluster.failures import lost_worker
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.control.event_queue import EventQueue, WorkerLost
from sparkflow.spark.errors import LostTaskError
from sparkflow_runtime.errors import InvalidArgumentError, UnavailableError

WORKER = TaskName("worker", 1)
GONE = TaskGone(WORKER, "node7")
KILLED = TaskFailed(WORKER, "node7", "was killed", lost=True)
CUT = LoopEnded(1, UnavailableError(message="cannot be reached"))
STEPS = StepsDone(0, None, None)  # type: ignore[arg-type]  # not looked at


@pytest.mark.parametrize(
    ("failures", "worker"),
    [
        ([CUT, GONE, KILLED], 1),
        ([KILLED], 1),
        ([CUT, GONE], None),
        ([KILLED, TaskGone(TaskName("ps", 0), "node7")], None),
        ([KILLED, TaskGone(TaskName("worker", 0), "node7")], None),
        ([KILLED, LoopEnded(0, UnavailableError(message="x"))], None),
        ([KILLED, LoopEnded(1, InvalidArgumentError(message="x"))], None),
        ([TaskFailed(WORKER, "node7", "disk full")], None),
    ],
)
def test_a_loss_of_one_worker_alone(failures: list[Event], worker: int | None) -> None:
    assert lost_worker(failures) == worker


def test_the_others_go_on_without_a_lost_worker() -> None:
    events = EventQueue()
    events.may_lose = lambda worker: worker == 1
    for message in (CUT, STEPS, GONE, KILLED, GONE, STEPS):
        events.put(message)
    lost = events.next(1)
    assert isinstance(lost, WorkerLost)
    assert (lost.worker, str(lost.error)) == (1, "was killed")
    # What came meanwhile is not lost, and echoes of the loss are no failures.
    assert [events.next(1), events.next(1), events.next(1)] == [STEPS, None, STEPS]


def test_who_asks_is_told_of_lost_tasks_at_once() -> None:
    """The thread of `fit` may be waiting for an answer of theirs, and read no messages."""
    events, told = EventQueue(), []
    events.when_lost.append(told.append)
    failed = TaskFailed(TaskName("ps", 0), "node7", "disk full")
    for message in (STEPS, CUT, failed, KILLED, GONE):
        events.put(message)
    assert told == [WORKER, WORKER]


def test_a_worker_that_is_back_can_be_lost_again() -> None:
    events = EventQueue()
    events.may_lose = lambda worker: True
    events.put(KILLED)
    assert isinstance(events.next(1), WorkerLost)
    events.welcome(1)
    events.may_lose = lambda worker: False
    events.put(KILLED)
    with pytest.raises(LostTaskError, match="was killed"):
        events.next(1)
