"""Registration with the driver, over real gRPC on the loopback interface."""

import concurrent.futures
import contextlib
import json
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from sparkflow.spark.cluster.events import (
    ClusterRefused,
    Event,
    JobEnded,
    RowsReady,
    TaskEntered,
    TaskFailed,
    TaskGone,
    TaskLeft,
    TaskRegistered,
)
from sparkflow.spark.cluster.registration import _GRACE_S, RegistrationServer
from sparkflow.spark.cluster.registration_client import RegistrationClient
from sparkflow.spark.cluster.task_board import Progress
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow_runtime.errors import (
    AlreadyExistsError,
    CancelledError,
    InvalidArgumentError,
    OpError,
    UnauthenticatedError,
    UnavailableError,
)
from sparkflow_runtime.protos.rendezvous_pb2 import ReportStateRequest, TaskInfo
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.security.certificates import Authority

SHOWN = Credentials("a token")
TIMEOUT_S = 20


class Driver:
    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.server = RegistrationServer(ClusterLayout(1, 1), self.events.put, "127.0.0.1", SHOWN)
        self.server.begin_attempt('{"epochs": 3}')
        self._clients: list[RegistrationClient] = []
        self.streams: list[Iterator[Any]] = []  # streams are cancelled unless somebody holds them

    def client(self, shown: Credentials = SHOWN) -> RegistrationClient:
        client = RegistrationClient(f"127.0.0.1:{self.server.port}", shown)
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
    answer: Any = worker.wait()
    assert ps.wait() == answer
    assert (answer.attempt, answer.feed_plan) == (1, '{"epochs": 3}')
    for task in (ps, worker):
        task.client.task_ready(TaskName(task.info.job, 0))
    assert answer.cluster == driver.server.cluster()
    assert {job.name: dict(job.tasks) for job in answer.cluster.job} == {
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
        driver.client(Credentials("another token")).register(TaskInfo(job="ps", task=0))
    with pytest.raises(InvalidArgumentError, match="no ps task 7"):
        driver.client().register(TaskInfo(job="ps", task=7))
    Registering(driver.client(), "ps", "127.0.0.1:1")
    driver.event()
    with pytest.raises(AlreadyExistsError, match=r"ps task 0 has registered from 127\.0\.0\.1:1"):
        driver.client().register(TaskInfo(job="ps", task=0, address="127.0.0.1:9"))


def test_the_end_of_the_job_reaches_all_tasks(driver: Driver) -> None:
    told = driver.client().await_end(TaskName("ps", 0), 1)
    driver.server.end("enough")
    (last,) = told
    assert (last.ended, last.reason) == (True, "enough")


def test_a_broken_connection_is_noticed(driver: Driver) -> None:
    ps = Registering(driver.client(), "ps", "127.0.0.1:1")
    driver.event()
    Registering(driver.client(), "worker", "127.0.0.1:2")
    driver.event()
    ps.wait()
    # gRPC may deliver later calls of a connection earlier, and never those of one that broke
    # before.
    assert _following(driver, ps.client, TaskName("ps", 0)) is not None
    driver.streams.pop().cancel()  # type: ignore[attr-defined]  # grpc's own
    assert driver.event() == TaskGone(TaskName("ps", 0), "node7")


@pytest.mark.parametrize("comes_first", ["the end", "the break"])
def test_a_task_of_a_job_that_failed_is_not_waited_for(driver: Driver, comes_first: str) -> None:
    client = _both_registered(driver)[0]
    board = driver.server._board
    name = min(board.tasks)
    driver.server._board = board.follows(name, client)
    breaking = threading.Thread(target=driver.server._lose, args=(name, client))
    ended = JobEnded(RuntimeError("ExecutorLostFailure"))
    begun = time.monotonic()
    if comes_first == "the end":
        driver.server.job_ended(ended)
        breaking.start()
    else:
        breaking.start()
        driver.server.job_ended(ended)
    heard = [driver.event(), driver.event()]
    breaking.join(TIMEOUT_S)
    assert ended in heard
    assert TaskGone(name, "node7") in heard
    # Otherwise it would have waited as long as for Spark's own report.
    assert time.monotonic() - begun < _GRACE_S


@pytest.mark.parametrize(("ago_s", "is_silent"), [(2.99, True), (1.0, False)])
def test_a_network_that_broke_is_told_from_a_process_that_was_killed(
    driver: Driver, ago_s: float, is_silent: bool
) -> None:
    """The kernel gives up the connection 3 s after the last heartbeat, within some milliseconds."""
    client = _both_registered(driver)[0]
    board = driver.server._board
    name = min(board.tasks)
    heard = Progress(0, 0, time.monotonic() - ago_s)
    driver.server._board = board.heard(name, heard).follows(name, client)
    driver.server._lose(name, client)
    event = driver.event()
    assert isinstance(event, TaskGone)
    assert (event.silent_s > 0) == is_silent


def test_a_connection_that_broke_alone_is_no_loss(driver: Driver) -> None:
    """Something in between may close or damage it; the process used to be replaced for that."""
    client, _ = _both_registered(driver)
    name = TaskName("ps", 0)
    client.heartbeat(name, rows=0, steps=0)
    server = driver.server
    driver.streams.append(client.await_end(name, 1))
    while name not in server._board.following:
        time.sleep(0.01)
    broken = server._board.following[name]
    driver.streams.pop().cancel()  # type: ignore[attr-defined]  # grpc's own
    while name in server._board.following:
        time.sleep(0.01)
    told = client.await_end(name, 1)
    reading = threading.Thread(target=lambda: list(told))
    reading.start()
    with pytest.raises(queue.Empty):
        driver.events.get(timeout=2.5)
    assert server._board.following[name] is not broken
    server.end()
    reading.join(TIMEOUT_S)


def test_reports_become_events(driver: Driver) -> None:
    client = driver.client()
    client.data_ready(TaskName("worker", 0), rows=5, validation_rows=2, size_bytes=100)
    assert driver.event() == RowsReady(TaskName("worker", 0), 5, 2)
    client.report_failure(TaskName("worker", 0), "node7", ValueError("no disk"))
    failed = driver.event()
    assert isinstance(failed, TaskFailed)
    assert (failed.host, failed.message) == ("node7", "no disk")
    assert "ValueError: no disk" in failed.traceback


def test_a_report_to_a_driver_that_is_gone_is_not_an_error(driver: Driver) -> None:
    client = driver.client()
    driver.server.close()
    client.report_failure(TaskName("worker", 0), "node7", "too late")


def _both_registered(driver: Driver) -> list[RegistrationClient]:
    tasks = [Registering(driver.client(), job, f"{job}:1") for job in ("ps", "worker")]
    for task in tasks:
        task.wait()
    assert {type(driver.event()), type(driver.event())} == {TaskRegistered}
    return [task.client for task in tasks]


def test_another_attempt_reaches_those_that_live_and_those_that_were_lost(driver: Driver) -> None:
    ps, worker = _both_registered(driver)
    told = ps.await_end(TaskName("ps", 0), 1)
    lost = TaskName("worker", 0)
    worker.report_failure(lost, "node7", "was killed by signal 9", lost=True)
    failed = driver.event()
    assert isinstance(failed, TaskFailed)
    assert failed.lost
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(worker.await_restart(lost)))
    asking.start()
    assert driver.server.wait_for_answers(TIMEOUT_S)
    assert driver.server.begin_attempt("{}") == 2
    assert next(told).attempt == 2
    asking.join(TIMEOUT_S)
    assert answers == [True]
    # Both register again, as if they had never been registered.
    assert driver.server.missing() == ClusterLayout(1, 1).tasks
    _both_registered(driver)


def _following(driver: Driver, client: RegistrationClient, task: TaskName) -> object:
    """Returns the mark of a task's connection, once it has one."""
    driver.streams.append(client.await_end(task, driver.server._board.attempt))
    with driver.server._changed:
        driver.server._changed.wait_for(lambda: task in driver.server._board.following, TIMEOUT_S)
        return driver.server._board.following[task]


@pytest.mark.parametrize("others_go_on", [True, False])
def test_a_killed_process_counts_once_however_late_its_connection_breaks(
    driver: Driver, others_go_on: bool
) -> None:
    """The kernel closes a killed process's files only after it has reclaimed its memory."""
    ps, worker = _both_registered(driver)
    name = TaskName("worker", 0)
    _following(driver, ps, TaskName("ps", 0))
    mark = _following(driver, worker, name)
    worker.report_failure(name, "node7", "was killed by signal 9", lost=True)
    assert isinstance(driver.event(), TaskFailed)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asking = pool.submit(worker.await_restart, name)
        assert driver.server.wait_for_answers(TIMEOUT_S)
        if others_go_on:
            driver.server.let_return(name, (0, 0))
        else:
            driver.server.begin_attempt("{}")
            Registering(ps, "ps", "ps:1")
            assert isinstance(driver.event(), TaskRegistered)
        assert asking.result(TIMEOUT_S)
    Registering(worker, "worker", "worker:2").wait()
    assert isinstance(driver.event(), TaskRegistered)
    driver.server._lose(name, mark)
    assert driver.events.empty()
    assert _following(driver, worker, name) is not mark


def test_a_loss_told_of_while_a_broken_connection_may_come_back_counts_once(
    driver: Driver,
) -> None:
    worker = _both_registered(driver)[1]
    name = TaskName("worker", 0)
    mark = _following(driver, worker, name)
    heard = Progress(0, 0, time.monotonic() - 60)
    driver.server._board = driver.server._board.heard(name, heard)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        losing = pool.submit(driver.server._lose, name, mark)
        while name in driver.server._board.following:
            pass
        worker.report_failure(name, "node7", "stood still and was killed for it", lost=True)
        losing.result(TIMEOUT_S)
    assert isinstance(driver.event(), TaskFailed)
    assert driver.events.empty()


def test_a_task_that_answers_nobody_makes_a_new_job_necessary(driver: Driver) -> None:
    ps, _ = _both_registered(driver)
    told = ps.await_end(TaskName("ps", 0), 1)
    assert not driver.server.wait_for_answers(0.01)
    driver.server.end()
    assert list(told)[-1].ended


def test_a_lost_task_may_come_back_while_others_go_on(driver: Driver) -> None:
    _, worker = _both_registered(driver)
    name = TaskName("worker", 0)
    driver.server.let_return(name, (2, 5))
    assert worker.await_restart(name)
    back = Registering(worker, "worker", "127.0.0.1:7")
    assert driver.event() == TaskRegistered(name, "127.0.0.1:7", "node7")
    answer: Any = back.wait()
    assert answer.attempt == 1
    assert json.loads(answer.feed_plan) == {"epochs": 3, "start": [[2, 5]]}


def test_within_tls_only_the_jobs_own_certificate_gets_in() -> None:
    authority = Authority.create()
    shown = Credentials("a token", authority.issue("job"))
    server = RegistrationServer(ClusterLayout(0, 1), lambda event: None, "127.0.0.1", shown)
    address = f"127.0.0.1:{server.port}"
    own = RegistrationClient(address, shown)
    others = [
        RegistrationClient(address, each)
        for each in (
            SHOWN,
            Credentials("a token", Authority.create().issue("job")),
            Credentials("another token", authority.issue("job")),
        )
    ]
    refused = []
    for other in others:
        with pytest.raises(OpError) as caught:
            other.register(TaskInfo(job="worker", task=0))
        refused.append(type(caught.value))
        other.close()
    assert refused == [UnavailableError, UnavailableError, UnauthenticatedError]
    assert own.register(TaskInfo(job="worker", task=0, address="a:1")).cluster.job
    own.close()
    server.close()


def test_tasks_that_do_not_fit_are_refused() -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    server = RegistrationServer(
        ClusterLayout(0, 1),
        events.put,
        "127.0.0.1",
        SHOWN,
        check=lambda infos: f"{len(infos)} is odd",
    )
    client = RegistrationClient(f"127.0.0.1:{server.port}", SHOWN)
    with pytest.raises(CancelledError, match="1 is odd"):
        client.register(TaskInfo(job="worker", task=0))
    assert events.get(timeout=TIMEOUT_S) == ClusterRefused("1 is odd")
    server.close()
    client.close()


def test_states_and_heartbeats_arrive(driver: Driver) -> None:
    ps, _ = _both_registered(driver)
    name = TaskName("ps", 0)
    ps.heartbeat(name, rows=5, steps=7)
    assert (driver.server.progress()[name].rows, driver.server.progress()[name].steps) == (5, 7)
    told = ps.await_end(name, 1)

    def answer() -> None:
        assert next(told).wants_state
        ps.report_state(ReportStateRequest(job="ps", task=0, stacks="here", steps=7))

    answering = threading.Thread(target=answer)
    answering.start()
    while not (states := driver.server.states(TIMEOUT_S)):
        pass  # the call has not arrived yet
    answering.join(TIMEOUT_S)
    assert states[name].stacks == "here"


def test_a_task_that_was_given_up_is_refused(driver: Driver) -> None:
    tasks = [
        Registering(driver.client(), job, f"host:{i}") for i, job in enumerate(("ps", "worker"))
    ]
    for task in tasks:
        task.wait()
    ps = TaskName("ps", 0)
    stream = tasks[0].client.await_end(ps, 1)

    def read() -> None:
        with contextlib.suppress(grpc.RpcError):  # the cancellation, if it arrives while we wait
            next(stream, None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while not driver.server.states(0.01) and ps not in driver.server._board.following:
        pass
    stream.cancel()  # type: ignore[attr-defined]  # grpc's own
    while not isinstance(driver.event(), TaskGone):
        pass
    with pytest.raises(grpc.RpcError) as caught:
        next(tasks[0].client.await_end(ps, 1))
    assert caught.value.code() is grpc.StatusCode.ABORTED


class Entering(threading.Thread):
    """A Spark task that waits for the others."""

    def __init__(self, client: RegistrationClient, job: str, task_attempt_id: int) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.name_ = TaskName(job, 0)
        self.task_attempt_id = task_attempt_id
        self.neighbours = -1
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OpError):
            self.neighbours = self.client.enter(self.name_, "10.0.0.1", self.task_attempt_id)

    def wait(self) -> int:
        self.join(TIMEOUT_S)
        return self.neighbours


def test_spark_tasks_of_an_ordinary_stage_wait_for_each_other(driver: Driver) -> None:
    ps = Entering(driver.client(), "ps", 1)
    assert driver.event() == TaskEntered(TaskName("ps", 0), "10.0.0.1")
    twice = Entering(driver.client(), "ps", 2)
    worker = Entering(driver.client(), "worker", 3)
    assert driver.event() == TaskEntered(TaskName("worker", 0), "10.0.0.1")
    assert (ps.wait(), worker.wait()) == (2, 2)
    assert twice.is_alive()  # until training is over, when it has nothing to do
    driver.server.end()
    assert twice.wait() == 0
    assert Entering(driver.client(), "worker", 4).wait() == 0


def test_a_spark_task_that_is_lost_while_it_waits_is_replaced(driver: Driver) -> None:
    lost = driver.client()
    Entering(lost, "ps", 1)
    assert driver.event() == TaskEntered(TaskName("ps", 0), "10.0.0.1")
    again = Entering(driver.client(), "ps", 2)
    lost.close()
    assert driver.event() == TaskLeft(TaskName("ps", 0))
    assert driver.event() == TaskEntered(TaskName("ps", 0), "10.0.0.1")
    Entering(driver.client(), "worker", 3)
    assert again.wait() == 2
