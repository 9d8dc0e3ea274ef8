"""Failures among messages: which ones end training, and which only lose a worker."""

import time

import pytest

from sparkflow.spark.cluster.events import (
    Event,
    LoopEnded,
    StepsDone,
    TaskFailed,
    TaskGone,
    TaskRegistered,
)
from sparkflow.spark.cluster.failures import lost_worker
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.control import event_queue, failure_triage
from sparkflow.spark.control.event_queue import EventQueue, WorkerLost
from sparkflow.spark.errors import LostTaskError, SparkTrainingError
from sparkflow_runtime.errors import InvalidArgumentError, UnavailableError

WORKER = TaskName("worker", 1)
GONE = TaskGone(WORKER, "node7")
KILLED = TaskFailed(WORKER, "node7", "was killed", lost=True)
CUT = LoopEnded(1, UnavailableError(message="cannot be reached"))
FAILED = TaskFailed(WORKER, "node7", "disk full")
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
    # Messages that arrived in between are not lost, and echoes of the loss are no failures.
    assert [events.next(1), events.next(1), events.next(1)] == [STEPS, None, STEPS]


def test_who_asks_is_told_of_lost_tasks_at_once() -> None:
    """The thread of `fit` may be waiting for an answer from them without reading messages."""
    events = EventQueue()
    told: list[TaskName] = []
    events.tell_lost(told.append)
    for message in (STEPS, CUT, FAILED, KILLED, GONE):
        events.put(message)
    assert told == [WORKER, WORKER]


def test_who_asks_later_is_told_of_those_that_are_not_back() -> None:
    """A worker may die again before the thread of `fit` has connected to it."""
    events = EventQueue()
    other = TaskName("worker", 0)
    for message in (KILLED, TaskRegistered(WORKER, "", "h"), TaskGone(other, "h")):
        events.put(message)
    told: list[TaskName] = []
    events.tell_lost(told.append)
    assert told == [other]
    events.put(KILLED)
    assert told == [other, WORKER]


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


@pytest.mark.parametrize("there", [True, False])
def test_where_all_tasks_answer_no_cause_is_waited_for(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a connection broke. The driver used to take ten seconds more before it gave up."""
    monkeypatch.setattr(failure_triage, "CAUSE_WAIT_S", 4.0)
    monkeypatch.setattr(event_queue, "_ASKS_S", (0.1, 0.1))
    events, asked = EventQueue(), []

    def answer(wait_s: float) -> bool:
        asked.append(wait_s)
        return there and len(asked) == 2

    events.all_answer = answer
    events.put(CUT)
    began = time.monotonic()
    with pytest.raises(UnavailableError, match="cannot be reached"):
        events.next(1)
    took_s = time.monotonic() - began
    assert len(asked) == 2
    assert 1.0 < took_s < 3.0 if there else took_s >= 4.0


def test_a_cause_that_comes_after_all_have_answered_is_told() -> None:
    events = EventQueue()
    events.all_answer = lambda wait_s: not events.put(FAILED)
    events.put(CUT)
    with pytest.raises(SparkTrainingError, match="disk full"):
        events.next(1)
