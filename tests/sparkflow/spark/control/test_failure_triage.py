"""Failures among messages as a pure state machine: no queue, no thread, no waiting."""

from __future__ import annotations

from typing import Any

import pytest

from sparkflow.spark.cluster.events import JobEnded, LoopEnded, StepsDone, TaskFailed, TaskGone
from sparkflow.spark.cluster.failures import ORDER_WAIT_S
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.control.failure_triage import CAUSE_WAIT_S, Deliver, FailureTriage, Settle
from sparkflow.spark.errors import LostTaskError, SparkTrainingError
from sparkflow_runtime.errors import InvalidArgumentError, UnavailableError

WORKER = TaskName("worker", 1)
KILLED = TaskFailed(WORKER, "node7", "was killed", lost=True)
CUT = LoopEnded(1, UnavailableError(message="cannot be reached"))
WRONG = LoopEnded(0, InvalidArgumentError(message="shapes"))
STEPS: Any = StepsDone(0, None, None)  # type: ignore[arg-type]  # not looked at
NEW: FailureTriage[Any] = FailureTriage()


def test_what_is_no_failure_is_delivered() -> None:
    assert NEW.heard(STEPS, STEPS, 0.0) == (NEW, Deliver(STEPS))
    assert NEW.heard("ours", None, 0.0) == (NEW, Deliver("ours"))
    assert NEW.ticked(99.0) == (NEW, None)


def test_a_consequence_waits_for_its_cause() -> None:
    waiting, action = NEW.heard(CUT, CUT, 5.0)
    assert action is None
    assert waiting.until == 5.0 + CAUSE_WAIT_S
    waiting, action = waiting.heard(STEPS, STEPS, 6.0)
    assert (action, waiting.aside) == (None, (STEPS,))
    assert waiting.ticked(14.9) == (waiting, None)
    settled, action = waiting.heard(KILLED, KILLED, 7.0)
    assert isinstance(action, Settle)
    assert isinstance(action.error, LostTaskError)
    assert action.worker == 1
    assert settled.until is None
    assert settled.taken() == (FailureTriage(settled.failures), STEPS)


def test_without_a_cause_the_consequence_is_told_when_time_is_up() -> None:
    waiting, _ = NEW.heard(CUT, CUT, 5.0)
    _, action = waiting.ticked(15.0)
    assert isinstance(action, Settle)
    assert isinstance(action.error, UnavailableError)
    assert action.worker is None


def test_nothing_comes_after_the_end_of_the_job() -> None:
    waiting, _ = NEW.heard(CUT, CUT, 5.0)
    ended = JobEnded()
    _, action = waiting.heard(ended, ended, 5.5)
    assert isinstance(action, Settle)
    first, action = NEW.heard(ended, ended, 5.0)  # its cause may still arrive
    assert action is None
    _, action = first.ticked(15.0)
    assert isinstance(action, Settle)
    assert isinstance(action.error, SparkTrainingError)


def test_a_cause_settles_at_once() -> None:
    _, action = NEW.heard(WRONG, WRONG, 0.0)
    assert isinstance(action, Settle)
    assert isinstance(action.error, InvalidArgumentError)


def test_spark_may_tell_of_a_lost_executor_before_the_loss_of_its_task_is_heard() -> None:
    lost = JobEnded(RuntimeError("Could not recover: ExecutorLostFailure (executor 1 exited)"))
    gone = TaskGone(WORKER, "node7")
    for first in (lost, gone):
        waiting, action = NEW.heard(first, first, 5.0)
        assert action is None
        second = gone if first is lost else lost
        _, action = waiting.heard(second, second, 5.1)
        assert isinstance(action, Settle)
        assert "worker task 1 on node7 has gone: it was killed" in str(action.error)
        assert "The Spark job failed: Could not recover" in str(action.error)
    # Consequences do not prevent it from being heard, nor is it waited for long.
    waiting, _ = NEW.heard(CUT, CUT, 4.0)
    waiting, action = waiting.heard(lost, lost, 5.0)
    assert (action, waiting.until) == (None, 5.0 + ORDER_WAIT_S)
    _, action = waiting.ticked(6.0)
    assert isinstance(action, Settle)
    assert isinstance(action.error, LostTaskError)
    # If nothing was lost, the cause is known immediately.
    wrong = JobEnded(RuntimeError("Job 3 cancelled"))
    assert isinstance(NEW.heard(wrong, wrong, 5.0)[1], Settle)


def test_an_earlier_failure_of_a_task_may_be_heard_later() -> None:
    later, first = (TaskFailed(WORKER, "node7", text, time_s=t) for text, t in (("b", 2), ("a", 1)))
    waiting, action = NEW.heard(later, later, 5.0)
    assert (action, waiting.until) == (None, 5.0 + ORDER_WAIT_S)
    waiting, action = waiting.heard(first, first, 5.9)
    assert (action, waiting.until) == (None, 5.0 + ORDER_WAIT_S)
    _, action = waiting.ticked(6.0)
    assert isinstance(action, Settle)
    assert str(action.error) == "a"
    # After a loss training restarts, so there is nothing to wait for.
    assert isinstance(NEW.heard(KILLED, KILLED, 5.0)[1], Settle)


def test_a_report_that_others_are_gone_waits_for_why() -> None:
    cut = TaskFailed(TaskName("worker", 0), "node7", "cannot be reached", follows=True)
    waiting, action = NEW.heard(cut, cut, 5.0)
    assert (action, waiting.until) == (None, 5.0 + CAUSE_WAIT_S)
    wrong = TaskFailed(WORKER, "node7", "no disk", time_s=9.0)
    waiting, action = waiting.heard(wrong, wrong, 7.0)
    assert (action, waiting.until) == (None, 7.0 + ORDER_WAIT_S)
    _, action = waiting.ticked(8.0)
    assert isinstance(action, Settle)
    assert str(action.error) == "no disk"


def test_echoes_of_a_known_loss_are_no_failures_until_the_worker_is_back() -> None:
    away = NEW.lost(1)
    gone = TaskGone(WORKER, "node7")
    for echo in (CUT, gone, KILLED):
        assert away.heard(echo, echo, 0.0) == (away, None)
    other = LoopEnded(0, UnavailableError(message="x"))
    assert away.heard(other, other, 0.0)[0].failures == (other,)
    back = away.welcomed(1)
    assert isinstance(back.heard(KILLED, KILLED, 0.0)[1], Settle)


def test_an_error_of_a_step_competes_with_what_tasks_report() -> None:
    raised, action = NEW.raised(UnavailableError(message="no answer"), 0.0)
    assert action is None
    _, action = raised.heard(KILLED, KILLED, 1.0)
    assert isinstance(action, Settle)
    assert str(action.error) == "was killed"


@pytest.mark.parametrize("error", [InvalidArgumentError(message="shapes"), ValueError("odd")])
def test_an_error_of_a_step_that_explains_itself(error: Exception) -> None:
    _, action = NEW.raised(error, 0.0)
    assert isinstance(action, Settle)
