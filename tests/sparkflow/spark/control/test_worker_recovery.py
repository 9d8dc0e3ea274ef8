"""How long training waits for a lost worker, with the test's own clock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sparkflow.spark.cluster.events import TaskFailed
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.control import worker_recovery
from sparkflow.spark.control.event_queue import EventQueue, WorkerLost
from sparkflow.spark.control.worker_recovery import WorkerRecovery
from sparkflow.spark.errors import LostTaskError
from sparkflow.spark.params.config import FitConfig
from sparkflow_runtime.errors import InvalidArgumentError, UnavailableError
from sparkflow_runtime.security import Credentials
from support.clocks import give_time

START_TIMEOUT_S = 300.0
LOST = WorkerLost(1, LostTaskError("it has not answered for 6 s"))


class Service:
    """Lets workers return, and may have received their messages."""

    def __init__(self) -> None:
        self.is_coming = False
        self.let: list[Any] = []

    def let_return(self, task: TaskName, start: tuple[int, int]) -> None:
        self.let.append((task, start))

    def cluster(self) -> None:
        """Does nothing: nobody connects here."""

    def is_coming_back(self, task: TaskName) -> bool:
        assert task == TaskName("worker", 1)
        return self.is_coming


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Returns a function that lets so many seconds pass."""
    now = [1000.0]
    give_time(monkeypatch, worker_recovery, monotonic=lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


def recovery(service: Service) -> WorkerRecovery:
    config = FitConfig(sync_mode="async", start_timeout=START_TIMEOUT_S, max_restarts=2)
    plan: Any = SimpleNamespace(config=config, evaluation=None, layout=ClusterLayout(1, 2))
    restarts: list[str] = []
    recorder: Any = SimpleNamespace(add_restart=restarts.append, restarts=restarts)
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
    lost.check({1})  # a disconnected machine may be back immediately
    wait(2.0)
    service.is_coming = True
    lost.check({1})
    service.is_coming = False
    with pytest.raises(LostTaskError, match="has not answered"):
        lost.check({1})


def fails_to_return(monkeypatch: pytest.MonkeyPatch, lost: WorkerRecovery, *failed: Any) -> Any:
    """Brings back worker 1, whose session cannot be opened, while other things fail."""
    error, *reports = failed

    def replace(*_: Any) -> None:
        for each in reports:
            lost._events.put(each)
        raise error

    master = SimpleNamespace(close=lambda: None, lose=lambda task: None)
    monkeypatch.setattr(worker_recovery, "open_tasks", lambda *_: master)
    monkeypatch.setattr(lost, "_replicas", SimpleNamespace(replace=replace))
    return lost.bring_back(1, 10, 3)


def died(task: str = "worker") -> TaskFailed:
    return TaskFailed(TaskName(task, 1 if task == "worker" else 0), "h", "killed", "", lost=True)


def test_who_dies_while_it_is_brought_back_is_lost_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Service()
    lost = recovery(service)
    again = fails_to_return(monkeypatch, lost, UnavailableError(message="gone"), died())
    assert isinstance(again, WorkerLost)
    assert (again.worker, str(again.error)) == (1, "killed")
    assert 1 not in lost
    lost._events.put(died())  # heard twice
    assert lost._events.next(0) is None
    lost.let_return(again, (2, 6))
    assert 1 in lost
    assert service.let == [(TaskName("worker", 1), start) for start in ((2, 5), (2, 6))]
    # As often as restarts are allowed; then training restarts, or ends.
    with pytest.raises(LostTaskError, match="killed"):
        fails_to_return(monkeypatch, lost, UnavailableError(message="gone"), died())


@pytest.mark.parametrize(
    ("failed", "raised", "text"),
    [
        ((InvalidArgumentError(message="a bug"),), InvalidArgumentError, "a bug"),
        ((UnavailableError(message="gone"), died("ps"), died()), LostTaskError, "killed"),
    ],
)
def test_what_else_fails_while_a_worker_is_brought_back_is_raised(
    monkeypatch: pytest.MonkeyPatch, failed: Any, raised: type[Exception], text: str
) -> None:
    with pytest.raises(raised, match=text):
        fails_to_return(monkeypatch, recovery(Service()), *failed)
