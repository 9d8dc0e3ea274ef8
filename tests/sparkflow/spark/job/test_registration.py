"""Roll-call on the driver, over real gRPC on the loopback interface."""

import queue
import threading
from collections.abc import Iterator

import pytest

from sparkflow.spark.job.events import Event, RowsReady, TaskFailed, TaskGone, TaskRegistered
from sparkflow.spark.job.layout import Layout, TaskName
from sparkflow.spark.job.registration import RegistrationClient, RegistrationServer
from sparkflow_runtime.errors import (
    AlreadyExistsError,
    CancelledError,
    InvalidArgumentError,
    OpError,
    UnauthenticatedError,
)
from sparkflow_runtime.protos.rendezvous_pb2 import TaskInfo

TOKEN = "a token"
TIMEOUT_S = 20


class Driver:
    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        tasks = Layout(1, 1).tasks
        self.server = RegistrationServer(tasks, self.events.put, "127.0.0.1", TOKEN)
        self._clients: list[RegistrationClient] = []

    def client(self, token: str = TOKEN) -> RegistrationClient:
        client = RegistrationClient(f"127.0.0.1:{self.server.port}", token)
        self._clients.append(client)
        return client

    def event(self) -> Event:
        return self.events.get(timeout=TIMEOUT_S)

    def close(self) -> None:
        self.server.close()
        for client in self._clients:
            client.close()


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.close()


class Registering(threading.Thread):
    """A task that registers in the background."""

    def __init__(self, client: RegistrationClient, job: str, address: str) -> None:
        super().__init__()
        self.client = client
        self.info = TaskInfo(job=job, task=0, address=address, host="node7")
        self.outcome: object = None
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self.client.register(self.info)
        except OpError as error:
            self.outcome = error

    def wait(self) -> object:
        self.join(TIMEOUT_S)
        return self.outcome


def test_all_learn_the_whole_cluster_when_the_last_has_come(driver: Driver) -> None:
    ps = Registering(driver.client(), "ps", "127.0.0.1:1")
    assert driver.event() == TaskRegistered(TaskName("ps", 0), "127.0.0.1:1", "node7")
    assert driver.server.missing() == [TaskName("worker", 0)]
    assert ps.is_alive()
    worker = Registering(driver.client(), "worker", "127.0.0.1:2")
    cluster = worker.wait()
    assert ps.wait() == cluster == driver.server.cluster()
    assert {job.name: dict(job.tasks) for job in cluster.job} == {  # type: ignore[attr-defined]
        "ps": {0: "127.0.0.1:1"},
        "worker": {0: "127.0.0.1:2"},
    }


def test_an_end_before_all_have_come_releases_those_that_wait(driver: Driver) -> None:
    ps = Registering(driver.client(), "ps", "127.0.0.1:1")
    driver.event()
    driver.server.end("the user pressed Ctrl-C")
    outcome = ps.wait()
    assert isinstance(outcome, CancelledError)
    assert "Ctrl-C" in str(outcome)


def test_strangers_and_doubles_are_refused(driver: Driver) -> None:
    with pytest.raises(UnauthenticatedError, match="token is missing or wrong"):
        driver.client("another token").register(TaskInfo(job="ps", task=0))
    with pytest.raises(InvalidArgumentError, match="no ps task 7"):
        driver.client().register(TaskInfo(job="ps", task=7))
    Registering(driver.client(), "ps", "127.0.0.1:1")
    driver.event()
    with pytest.raises(AlreadyExistsError, match=r"ps task 0 has registered from 127\.0\.0\.1:1"):
        driver.client().register(TaskInfo(job="ps", task=0, address="127.0.0.1:9"))


def test_the_end_of_the_job_reaches_all_tasks(driver: Driver) -> None:
    waiting = driver.client().await_end(TaskName("ps", 0))
    driver.server.end()
    assert waiting.result(TIMEOUT_S).reason == ""


def test_a_broken_connection_is_noticed(driver: Driver) -> None:
    ps = Registering(driver.client(), "ps", "127.0.0.1:1")
    driver.event()
    Registering(driver.client(), "worker", "127.0.0.1:2")
    driver.event()
    ps.wait()
    waiting = ps.client.await_end(TaskName("ps", 0))
    # Sent behind it on the same connection: once this has arrived, the call to be broken has too.
    ps.client.data_ready(TaskName("ps", 0), rows=0, size_bytes=0)
    assert driver.event() == RowsReady(TaskName("ps", 0), 0)
    waiting.cancel()
    assert driver.event() == TaskGone(TaskName("ps", 0), "node7")


def test_reports_become_events(driver: Driver) -> None:
    client = driver.client()
    client.data_ready(TaskName("worker", 0), rows=5, size_bytes=100)
    assert driver.event() == RowsReady(TaskName("worker", 0), 5)
    client.report_failure(TaskName("worker", 0), "node7", ValueError("no disk"))
    failed = driver.event()
    assert isinstance(failed, TaskFailed)
    assert (failed.host, failed.message) == ("node7", "no disk")
    assert "ValueError: no disk" in failed.traceback


def test_a_report_to_a_driver_that_is_gone_is_not_an_error(driver: Driver) -> None:
    client = driver.client()
    driver.server.close()
    client.report_failure(TaskName("worker", 0), "node7", "too late")
