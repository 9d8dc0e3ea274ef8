"""Which of several failures is shown, from the tasks' reports over gRPC to the exception of `fit`.

The report of one task may take longer to arrive than that of another: the first failure is the one
that happened first, or that caused the others.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from sparkflow.spark.cluster.registration import RegistrationServer
from sparkflow.spark.cluster.registration_client import RegistrationClient
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.control.event_queue import EventQueue
from sparkflow_runtime.errors import AbortedError, UnavailableError
from sparkflow_runtime.protos.rendezvous_pb2 import TaskInfo
from sparkflow_runtime.security import Credentials

SHOWN = Credentials(token="t")
APART_S = 0.2


class SlowClient(RegistrationClient):
    """A client whose messages are delayed."""

    delay_s = 0.0

    def _try(self, name: str, request: object, response: object) -> None:
        threading.Event().wait(self.delay_s)
        super()._try(name, request, response)


@dataclass(frozen=True)
class Failure:
    """The failure of a worker.

    Attributes:
        worker: The worker's index.
        after_s: The time of the failure, from the beginning.
        on_its_way_s: The delay of its report.
        error: The reported error.
    """

    worker: int
    after_s: float
    on_its_way_s: float
    error: Exception


ROOT = ValueError("the first")
LATER = ValueError("the later")
CUT = UnavailableError(message="worker task 0 cannot be reached")

CASES = [
    pytest.param(Failure(0, 0.0, 0.0, ROOT), Failure(1, APART_S, 0.0, LATER), id="worker 0 first"),
    pytest.param(Failure(1, 0.0, 0.0, ROOT), Failure(0, APART_S, 0.0, LATER), id="worker 1 first"),
    pytest.param(
        Failure(0, 0.0, 0.6, ROOT), Failure(1, APART_S, 0.0, LATER), id="worker 0 first, heard late"
    ),
    pytest.param(
        Failure(1, 0.0, 0.6, ROOT), Failure(0, APART_S, 0.0, LATER), id="worker 1 first, heard late"
    ),
    pytest.param(
        Failure(0, APART_S, 0.8, ROOT), Failure(1, 0.0, 0.0, CUT), id="its consequence is earlier"
    ),
    pytest.param(
        Failure(0, 0.0, 2.5, ROOT),
        Failure(1, 0.0, 0.0, AbortedError(message="gave up")),
        id="its consequence comes long before",
    ),
]


@contextlib.contextmanager
def registered(ahead_s: float) -> Iterator[tuple[EventQueue, list[SlowClient]]]:
    """Two workers that have registered; the clock of the second is ahead."""
    events = EventQueue()
    server = RegistrationServer(ClusterLayout(0, 2), events.put, "127.0.0.1", SHOWN)
    server.begin_attempt("{}")
    clocks = [time.time, lambda: time.time() + ahead_s]
    clients = [SlowClient(f"127.0.0.1:{server.port}", SHOWN, clock) for clock in clocks]
    infos = [TaskInfo(job="worker", task=each, host=f"node{each}") for each in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda pair: pair[0].register(pair[1]), zip(clients, infos, strict=True)))
    for _ in infos:
        events.next(5.0)
    try:
        yield events, clients
    finally:
        server.close()
        for client in clients:
            client.close()


def shown(*failures: Failure, ahead_s: float = 0.0) -> str:
    """Returns what the user reads."""
    with registered(ahead_s) as (events, clients):

        def fail(failure: Failure) -> None:
            threading.Event().wait(failure.after_s)
            client = clients[failure.worker]
            client.delay_s = failure.on_its_way_s
            client.report_failure(TaskName("worker", failure.worker), "node", failure.error)

        with ThreadPoolExecutor(len(failures)) as pool:
            for each in failures:
                pool.submit(fail, each)
            try:
                while True:
                    events.next(1.0)
            except Exception as error:
                return str(error)


@pytest.mark.parametrize(("root", "other"), CASES)
def test_the_first_failure_is_shown(root: Failure, other: Failure) -> None:
    text = shown(root, other)
    assert f"worker task {root.worker} on node failed: {root.error}" in text, text
    assert str(other.error) not in text


@pytest.mark.parametrize("ahead_s", [-30.0, 30.0])
def test_clocks_that_differ_are_compared(ahead_s: float) -> None:
    root, other = Failure(1, 0.0, 0.6, ROOT), Failure(0, APART_S, 0.0, LATER)
    assert str(ROOT) in shown(root, other, ahead_s=ahead_s)


@pytest.mark.nightly
@pytest.mark.parametrize(("root", "other"), CASES)
def test_the_first_failure_is_shown_each_time(root: Failure, other: Failure) -> None:
    with ThreadPoolExecutor(5) as pool:
        texts = list(pool.map(lambda _: shown(root, other), range(50)))
    assert sum(str(root.error) in text for text in texts) == 50


def test_a_consequence_alone_is_shown_when_nothing_explains_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sparkflow.spark.control.failure_triage.CAUSE_WAIT_S", 0.3)
    assert "cannot be reached" in shown(Failure(1, 0.0, 0.0, CUT))
