"""What a task's process does when its driver no longer answers."""

import queue
import threading
from typing import Any

import grpc
import pytest

from sparkflow.spark.cluster import task_lifecycle
from sparkflow.spark.cluster.task_lifecycle import TaskLifecycle
from sparkflow.spark.cluster_layout import TaskName
from sparkflow_runtime.errors import (
    CancelledError,
    DeadlineExceededError,
    OpError,
    UnavailableError,
)
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.rendezvous_pb2 import RegisterTaskResponse
from sparkflow_runtime.security import Credentials

WAIT_S = 20
PS = TaskName("ps", 0)


class Driver:
    """A client whose calls never end by themselves, as can happen in gRPC after bytes were changed.

    Args:
        waits_at: The call at which the driver disappears without answering.
        failures: The errors of heartbeats; the last one is repeated.
        ends_streams: Whether streams end at once, without an instruction.
    """

    def __init__(
        self, waits_at: str, failures: list[OpError | None], ends_streams: bool = False
    ) -> None:
        self.waits_at = waits_at
        self.failures = failures
        self.ends_streams = ends_streams
        self.beats = 0
        self.streams = 0
        self.closed = threading.Event()

    def heartbeat(self, task: TaskName, rows: int, steps: int) -> OpError | None:
        if self.closed.is_set():
            return UnavailableError(message="The channel was closed")
        self.beats += 1
        return self.failures[min(self.beats, len(self.failures)) - 1]

    def register(self, info: Any) -> RegisterTaskResponse:
        self._wait("register")
        cluster = ClusterDef()
        cluster.job.add(name="ps").tasks[0] = info.address
        return RegisterTaskResponse(cluster=cluster, feed_plan="{}", attempt=1)

    def task_ready(self, task: TaskName) -> None:
        self._wait("task_ready")

    def data_ready(self, task: TaskName, **counts: int) -> None:
        self._wait("data_ready")

    def await_end(self, task: TaskName, attempt: int) -> Any:
        self.streams += 1
        if self.ends_streams and not self.closed.is_set():
            return iter(())
        assert self.closed.wait(WAIT_S)
        raise grpc.RpcError

    def error_of(self, error: grpc.RpcError) -> OpError:
        return CancelledError(message="The channel was closed")

    def close(self) -> None:
        self.closed.set()

    def _wait(self, call: str) -> None:
        if call == self.waits_at:
            assert self.closed.wait(WAIT_S)
            raise CancelledError(message="The channel was closed")


def life_with(driver: Driver) -> TaskLifecycle:
    incoming: queue.Queue[Any] = queue.Queue()
    incoming.put({"rows": 0, "validation_rows": 0})
    config = {"driver": "127.0.0.1:1", "partition": 0, "attempt": 0}
    config |= {"gpu_addresses": None, "gpu_memory_bytes": None}
    client: Any = driver
    return TaskLifecycle(config, PS, Credentials("t" * 64), client, incoming, lambda event: None)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_lifecycle, "_REACH_AGAIN_S", 0.2)
    monkeypatch.setattr(task_lifecycle, "_HEARTBEAT_S", 0.02)
    monkeypatch.setattr(task_lifecycle, "_AGAIN_S", 0.05)


def test_a_task_ends_whose_driver_cannot_be_reached_although_its_stream_goes_on() -> None:
    gone: list[OpError | None] = [None, None, UnavailableError(message="nobody is there")]
    with pytest.raises(UnavailableError, match=r"The driver is gone.*nobody is there"):
        life_with(Driver("", gone)).run()


def test_so_does_one_that_waits_for_the_others() -> None:
    driver = Driver("register", [UnavailableError(message="nobody is there")])
    life_with(driver).run()  # as when training ends before all are ready
    assert driver.closed.is_set()


def test_a_driver_that_stands_still_or_is_back_soon_is_waited_for() -> None:
    slow, broken = DeadlineExceededError(message="late"), UnavailableError(message="nobody")
    driver = Driver("register", [*[broken, slow, broken, None] * 10, slow])
    life = threading.Thread(target=life_with(driver).run)
    life.start()
    try:
        life.join(0.8)
        assert life.is_alive()
        assert driver.beats > 10
    finally:
        driver.close()
        life.join(WAIT_S)
    assert not life.is_alive()


def test_a_stream_that_ends_without_an_instruction_is_requested_again_after_a_pause() -> None:
    driver = Driver("", [None], ends_streams=True)

    def run() -> None:
        with pytest.raises(UnavailableError):
            life_with(driver).run()

    life = threading.Thread(target=run)
    life.start()
    try:
        life.join(0.5)
        assert life.is_alive()
    finally:
        driver.close()
        life.join(WAIT_S)
    assert not life.is_alive()
    assert 2 <= driver.streams <= 12
