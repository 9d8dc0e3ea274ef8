"""What is extracted from Spark's own exceptions, and jobs that run concurrently."""

import threading
from typing import Any

import pytest

from sparkflow.spark.cluster.barrier_job import (
    ServersTurn,
    describe_spark_failure,
    run_together,
)
from sparkflow.spark.cluster.events import TaskEntered, TaskRegistered
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName

OF_A_TASK = """An error occurred while calling o98.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 3.0 failed: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 1, in main
    process()
ModuleNotFoundError: No module named 'sparkflow'

	at org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
	at java.base/java.lang.Thread.run(Thread.java:840)
"""


def test_the_traceback_of_a_task_is_cut_out() -> None:
    text = describe_spark_failure(RuntimeError(OF_A_TASK))
    assert text.startswith("Traceback (most recent call last):\n")
    assert "ModuleNotFoundError: No module named 'sparkflow'\nThe executors' Python has no" in text
    assert "org.apache" not in text


def test_other_failures_lose_the_stack() -> None:
    error = RuntimeError("Job 3 cancelled part of cancelled job group g\n\tat org.apache.X")
    assert describe_spark_failure(error) == "Job 3 cancelled part of cancelled job group g"


LAYOUT = ClusterLayout(1, 2, servers_apart=True)


class Context:
    """A SparkContext whose jobs wait until they are cancelled."""

    def __init__(self) -> None:
        self.began, self.cancelled = threading.Event(), threading.Event()

    def cancelJobsWithTag(self, tag: str) -> None:
        assert tag == "tag"
        self.cancelled.set()

    def job(self) -> None:
        self.began.set()
        assert self.cancelled.wait(20)
        raise RuntimeError("cancelled")


@pytest.fixture(autouse=True)
def plain_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses plain threads, since there is no JVM with properties to inherit."""
    monkeypatch.setattr("sparkflow.spark.cluster.barrier_job.InheritableThread", threading.Thread)


def test_servers_ask_for_room_once_all_workers_have_it() -> None:
    turn = ServersTurn(LAYOUT, at_once=False)
    came: list[str] = []

    def workers() -> None:
        turn.hear(TaskEntered(TaskName("ps", 0), "here"))
        turn.hear(TaskEntered(TaskName("worker", 0), "here"))
        came.append("one of two")
        turn.hear(TaskRegistered(TaskName("worker", 1), "here:1", "here"))
        assert served.wait(20)

    served = threading.Event()

    def servers() -> None:
        came.append("servers")
        served.set()

    run_together(Context(), "tag", [workers, servers], turn)
    assert came == ["one of two", "servers"]


def test_servers_never_begin_where_workers_do_not() -> None:
    def fails() -> None:
        raise ValueError("no slots")

    with pytest.raises(ValueError, match="no slots"):
        run_together(Context(), "tag", [fails, pytest.fail], ServersTurn(LAYOUT, at_once=False))


@pytest.mark.parametrize("first", [0, 1])
def test_when_one_job_fails_the_other_is_cancelled(first: int) -> None:
    context = Context()

    def fails() -> None:
        assert context.began.wait(20)
        raise ValueError("an executor was lost")

    actions: list[Any] = [context.job, context.job]
    actions[first] = fails
    with pytest.raises(ValueError, match="an executor was lost"):
        run_together(context, "tag", actions, ServersTurn(LAYOUT, at_once=True))
    assert context.cancelled.is_set()


def test_one_job_alone_is_run_where_it_is() -> None:
    ran: list[threading.Thread] = []
    turn = ServersTurn(ClusterLayout(1, 2), at_once=True)
    run_together(Context(), "tag", [lambda: ran.append(threading.current_thread())], turn)
    assert ran == [threading.current_thread()]
