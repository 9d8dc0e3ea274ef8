"""How long a lost worker is waited for, with a clock of the test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.control import worker_recovery
from sparkflow.spark.control.event_queue import EventQueue, WorkerLost
from sparkflow.spark.control.worker_recovery import WorkerRecovery
from sparkflow.spark.errors import LostTaskError
from sparkflow_runtime.security import Credentials

START_TIMEOUT_S = 300.0
LOST = WorkerLost(1, LostTaskError("it has not answered for 6 s"))


class Service:
    """Lets workers return, and may have heard of them."""

    def __init__(self) -> None:
        self.is_coming = False
        self.let: list[Any] = []

    def let_return(self, task: TaskName, start: tuple[int, int]) -> None:
        self.let.append((task, start))

    def is_coming_back(self, task: TaskName) -> bool:
        assert task == TaskName("worker", 1)
        return self.is_coming


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Has so many seconds pass."""
    now = [1000.0]
    monkeypatch.setattr(worker_recovery.time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


def recovery(service: Service) -> WorkerRecovery:
    plan: Any = SimpleNamespace(config=SimpleNamespace(start_timeout=START_TIMEOUT_S))
    recorder: Any = SimpleNamespace(add_restart=lambda reason: None)
    unused: Any = None
    found = WorkerRecovery(
        plan,
        Credentials("t"),
        service,  # type: ignore[arg-type]  # asked for no cluster here
        EventQueue(),
        unused,
        recorder,
        contextlib.ExitStack(),
        (0, 0),
    )
    found.let_return(LOST, (2, 5))
    assert service.let == [(TaskName("worker", 1), (2, 5))]
    return found


def test_others_that_work_are_not_disturbed_until_time_is_up(wait: Callable[[float], None]) -> None:
    lost = recovery(Service())
    for seconds in (0.0, 19.0, 280.0):
        wait(seconds)
        lost.check({0, 1})
    wait(2.0)
    with pytest.raises(LostTaskError, match="has not answered"):
        lost.check({0, 1})


def test_others_that_wait_do_so_as_long_as_there_is_a_sign(wait: Callable[[float], None]) -> None:
    service = Service()
    lost = recovery(service)
    wait(19.0)
    lost.check({1})  # a machine that was cut off may be there again at once
    wait(2.0)
    service.is_coming = True
    lost.check({1})
    service.is_coming = False
    with pytest.raises(LostTaskError, match="has not answered"):
        lost.check({1})
