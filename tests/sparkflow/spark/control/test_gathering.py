"""Messages while waiting for tasks, and the error if they do not come."""

from __future__ import annotations

from typing import Any

import pytest

from sparkflow.spark.cluster.events import TaskEntered, TaskLeft, TaskRegistered
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.control.gathering import Gathering
from sparkflow.spark.errors import SparkTrainingError

ZERO, ONE = TaskName("worker", 0), TaskName("worker", 1)


class Plan:
    """The parts of a plan that are used."""

    layout = ClusterLayout(0, 2)
    worker_rows = (1, 1)

    def __init__(self, start_timeout: float = 60.0) -> None:
        self.config = self
        self.start_timeout = start_timeout


class Job:
    """A job that waits for slots."""

    slots = 1

    def start(self) -> None:
        """Does nothing."""

    def has_active_tasks(self, beside: int = 0) -> bool:
        return False

    def describe_slots(self) -> tuple[str, str]:
        return (f"Spark has {self.slots} task slot", "2 are needed") if self.slots < 2 else ("", "")


def _gathering(plan: Any) -> tuple[Gathering, list[str]]:
    said: list[str] = []
    return Gathering(plan, said.append), said


def test_progress_counts_spark_tasks_and_then_their_processes() -> None:
    gathering, said = _gathering(Plan())
    job = Job()
    events = iter(
        [
            TaskEntered(ZERO, "a"),
            TaskLeft(ZERO),
            TaskEntered(ZERO, "b"),
            TaskEntered(ONE, "b"),
            TaskRegistered(ZERO, "", ""),
            TaskRegistered(ONE, "", ""),
        ]
    )

    def hear(timeout_s: float) -> Any:
        event = next(events)
        job.slots += event == TaskEntered(ZERO, "b")
        return event

    gathering.wait_for_tasks(job, hear)
    assert said == [
        "waiting for 2 of 2 tasks; Spark has 1 task slot",
        "waiting for 1 of 2 tasks; Spark has 1 task slot",
        "waiting for 2 of 2 tasks; Spark has 1 task slot",
        "waiting for 1 of 2 tasks",
        "waiting for 2 of 2 processes",
        "waiting for 1 of 2 processes",
    ]


def test_too_few_slots_until_the_deadline() -> None:
    gathering, _ = _gathering(Plan(start_timeout=0.0))
    events = iter([TaskEntered(ZERO, "a"), None])
    with pytest.raises(SparkTrainingError) as caught:
        gathering.wait_for_tasks(Job(), lambda timeout_s: next(events))
    assert str(caught.value).startswith(
        "After 0 s these tasks have not started: worker task 1. 2 are needed. startTimeout sets"
    )
