"""What happens to a task whose child process ends, tested without processes."""

import queue
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from sparkflow.spark.cluster.process.process_supervisor import ProcessSupervisor
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.errors import SparkTrainingError

WORKER = TaskName("worker", 1)


class FakeChild:
    def __init__(self) -> None:
        self.codes: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.got: list[Mapping[str, Any]] = []

    def send(self, message: Mapping[str, Any]) -> None:
        self.got.append(message)

    def wait(self) -> int:
        return self.codes.get(timeout=20)

    def describe_end(self, code: int) -> str:
        return f"ended with {code}"

    def kill(self) -> None:
        self.codes.put(-9)

    def end(self) -> None:
        self.codes.put(3)


class FakeDriver:
    def __init__(self, restart: bool) -> None:
        self.restart = restart
        self.reports: list[tuple[str, bool]] = []

    def report_failure(
        self, task: TaskName, host: str, error: BaseException | str, lost: bool = False
    ) -> None:
        self.reports.append((str(error), lost))

    def await_restart(self, task: TaskName) -> bool:
        return self.restart

    def close(self) -> None:
        pass


class Task:
    def __init__(self, restart: bool) -> None:
        self.children: list[FakeChild] = []
        self.started = threading.Semaphore(0)
        self.driver = FakeDriver(restart)
        self.supervisor = ProcessSupervisor(WORKER, self._start, lambda: self.driver)

    def _start(self) -> FakeChild:
        self.children.append(FakeChild())
        self.started.release()
        return self.children[-1]

    def child(self) -> FakeChild:
        assert self.started.acquire(timeout=20)
        return self.children[-1]


def test_a_killed_child_is_started_again_with_all_messages() -> None:
    task = Task(restart=True)
    first = task.child()
    task.supervisor.send({"chunk": 1})
    first.codes.put(-9)
    second = task.child()
    task.supervisor.send({"rows": 2})
    second.codes.put(0)
    task.supervisor.wait()
    assert task.driver.reports == [("ended with -9", True)]
    assert second.got == [{"chunk": 1}, {"rows": 2}]
    task.supervisor.end()


def test_the_driver_may_have_had_enough() -> None:
    task = Task(restart=False)
    task.child().codes.put(-9)
    with pytest.raises(SparkTrainingError, match="ended with -9"):
        task.supervisor.wait()
    with pytest.raises(SparkTrainingError, match="ended with -9"):
        task.supervisor.send({"chunk": 1})
    task.supervisor.end()


def test_a_child_that_failed_by_itself_is_not_started_again() -> None:
    task = Task(restart=True)
    task.child().codes.put(1)
    with pytest.raises(SparkTrainingError, match="ended with 1"):
        task.supervisor.wait()
    assert task.driver.reports == [("ended with 1", False)]
    task.supervisor.end()
    assert len(task.children) == 1


def test_an_error_beside_the_child_ends_it() -> None:
    task = Task(restart=True)
    task.child()
    task.supervisor.fail(ValueError("the user's"))
    with pytest.raises(ValueError, match="the user's"):
        task.supervisor.wait()
    assert task.driver.reports == [("the user's", False)]
    task.supervisor.end()
