"""Runs a user's function in every task of a job, each in a process of its own.

As in training, the tasks learn each other's addresses from the driver's registration service, and
wait there until all workers have ended. The function is sent in the closure of the job, like every
function of a Spark program.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pickle
import queue
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import grpc
import pyarrow as pa
from pyspark import BarrierTaskContext, TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

from sparkflow.spark.cluster.addresses import own_address
from sparkflow.spark.cluster.barrier_job import (
    ServersTurn,
    SparkJob,
    collect,
    empty_rows,
    run_together,
)
from sparkflow.spark.cluster.events import Event, RowsReady, TaskRegistered
from sparkflow.spark.cluster.failures import not_started
from sparkflow.spark.cluster.process.process_title import ROLE
from sparkflow.spark.cluster.registration import RegistrationServer, ShowLines
from sparkflow.spark.cluster.registration_client import RegistrationClient
from sparkflow.spark.cluster.scheduling.profiles import NONE, Profiles
from sparkflow.spark.cluster.scheduling.slots import describe_session_slots, session_gang
from sparkflow.spark.cluster.task import child_environment, wait_for_others
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.control.failure_triage import Action, FailureTriage, Settle
from sparkflow.spark.data.hosted.dataset_spool import DatasetSpool, TravellingDataset
from sparkflow.spark.data.hosted.travelling import rows_for_tasks
from sparkflow.spark.data.schema.frame import without_dots
from sparkflow.spark.data.spool.spool import local_directories
from sparkflow.spark.endpoints import Endpoints, Ports, joined
from sparkflow.spark.programs.cluster_dataset import ClusterDataset, those_that_travel
from sparkflow.spark.programs.function_process import FunctionError, FunctionProcess
from sparkflow_runtime.errors import UnavailableError
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.rendezvous_pb2 import TaskInfo
from sparkflow_runtime.security import Credentials

_POLL_S: Final = 0.2
_RESULT_SCHEMA: Final = "outcome binary"
_END_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class FunctionConfig:
    """The settings of all tasks, in the closure that Spark ships.

    Attributes:
        driver: `host:port` of the registration service.
        credentials: The credentials that the tasks and the driver present to each other.
        layout: Which partition plays which role.
        work: The pickled function and its arguments.
        datasets: The datasets whose rows are sent to the tasks.
        barrier: Whether the tasks are those of a barrier stage.
        endpoints: Where the functions' servers listen.
        of_servers: Whether the tasks are parameter servers in a separate job.
    """

    driver: str
    credentials: Credentials = field(repr=False)
    layout: ClusterLayout
    work: bytes = field(repr=False)
    datasets: tuple[TravellingDataset, ...]
    barrier: bool
    endpoints: Endpoints
    of_servers: bool = False


class FunctionJob:
    """One run of a function in all tasks of a layout.

    Args:
        session: A classic session.
        layout: The tasks.
        function: See `SparkCluster.run`.
        args: Its arguments.
        on_lines: Receives the lines that the functions wrote, once they have ended.
        credentials: The credentials that its tasks and the driver present to each other.
        timeout_s: The seconds that tasks may take to register.
        endpoints: Where the functions' servers listen.
        profiles: The resource profiles of the tasks.
    """

    def __init__(
        self,
        session: SparkSession,
        layout: ClusterLayout,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        on_lines: ShowLines,
        credentials: Credentials,
        timeout_s: float,
        endpoints: Endpoints,
        profiles: Profiles = NONE,
    ) -> None:
        self._session = session
        self._profiles = profiles
        self._layout = layout
        self._on_lines = on_lines
        self._credentials = credentials
        self._timeout_s = timeout_s
        self._endpoints = endpoints
        with those_that_travel() as datasets:
            self._work = cloudpickle.dumps((function, args, credentials))  # type: ignore[no-untyped-call]
        self._travelling = _travelling(datasets, layout)
        self._outcome: list[Any] = []
        self._events: queue.Queue[Event] = queue.Queue()

    def run(self) -> list[Any]:
        """Blocks until all workers have returned, and returns their results.

        Raises:
            SparkTrainingError: A task failed, or tasks did not register in time.
        """
        context: Any = self._session.sparkContext
        host = context.getConf().get("spark.driver.host")
        bind = context.getConf().get("spark.driver.bindAddress", host)
        gang = session_gang(self._session)
        turn = ServersTurn(self._layout, at_once=not self._profiles.shares_executors)

        def post(event: Event) -> None:
            turn.hear(event)
            self._events.put(event)

        server = RegistrationServer(
            self._layout, post, bind, self._credentials, ports=self._endpoints.ports
        )
        server.begin_attempt("")
        datasets = tuple(what for what, _ in self._travelling)
        config = FunctionConfig(
            joined(host, server.port),
            self._credentials,
            self._layout,
            self._work,
            datasets,
            gang.barrier,
            self._endpoints,
        )
        name = f"sparkflow-run-{uuid.uuid4().hex[:8]}"
        action = functools.partial(self._run_all, config, context, name, turn)
        job = SparkJob(context, action, name, "SparkCluster.run", server.job_ended)
        job.start()
        try:
            self._await_returns(server)
            server.end()
            job.finish(patience_s=_END_S)
        finally:
            server.end("a task failed")
            job.finish(patience_s=0.0)
            server.close()
        found: dict[TaskName, Any] = {}
        for task, value, lines in self._outcome:
            found[task] = value
            self._on_lines(task, lines, 0)
        return [found[task] for task in self._layout.tasks if task.job == "worker"]

    def _await_returns(self, server: RegistrationServer) -> None:
        tasks = self._layout.tasks
        missing, working = set(tasks), {task for task in tasks if task.job == "worker"}
        triage: FailureTriage[Event] = FailureTriage()
        deadline = time.monotonic() + self._timeout_s
        while working:
            action: Action[Event] = None
            with contextlib.suppress(queue.Empty):  # Ctrl-C does not interrupt long waits
                event = self._events.get(timeout=_POLL_S)
                if isinstance(event, TaskRegistered):
                    missing.discard(event.task)
                elif isinstance(event, RowsReady):
                    working.discard(event.task)
                triage, action = triage.heard(event, event, time.monotonic())
            if not isinstance(action, Settle):
                triage, action = triage.ticked(time.monotonic())
            if isinstance(action, Settle):
                raise action.error
            if missing and triage.until is None and time.monotonic() > deadline:
                too_few = describe_session_slots(self._session, self._layout, self._profiles)[1]
                raise not_started(missing, self._timeout_s, too_few)

    def _run_all(self, config: FunctionConfig, context: Any, tag: str, turn: ServersTurn) -> None:
        rows = rows_for_tasks(self._session, config.layout, self._travelling)
        actions = [functools.partial(self._collect, rows, config, self._profiles.worker)]
        if config.layout.servers_apart:
            servers = empty_rows(self._session, config.layout.num_ps)
            of_servers = replace(config, of_servers=True)
            actions.append(functools.partial(self._collect, servers, of_servers, self._profiles.ps))
        run_together(context, tag, actions, turn)

    def _collect(self, rows: DataFrame, config: FunctionConfig, profile: Any) -> None:
        run: Callable[..., Any] = functools.partial(_run_task, config)
        rows, run = without_dots(rows, run)
        found = collect(rows.mapInArrow(run, _RESULT_SCHEMA, barrier=config.barrier), profile)
        # Spark collects what our own tasks pickled, as for any Spark function.
        self._outcome += [pickle.loads(row["outcome"]) for row in found]  # noqa: S301


def _travelling(
    datasets: Sequence[ClusterDataset], layout: ClusterLayout
) -> list[tuple[TravellingDataset, DataFrame]]:
    """Returns the datasets whose rows have to be sent to the tasks.

    Raises:
        ValueError: A dataset was closed, or created for another number of workers.
    """
    for each in datasets:
        if len(each) != layout.num_workers:
            raise ValueError(
                f"{each!r} is distributed over {len(each)} workers, but the function runs on "
                f"{layout.num_workers}: create it with the cluster that runs the function"
            )
    found = (each.travelling() for each in dict.fromkeys(datasets))
    return [each for each in found if each is not None]


def _run_task(
    config: FunctionConfig, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs a Spark task; blocks until all workers have returned or a task has failed."""
    context: Any = BarrierTaskContext.get() if config.barrier else TaskContext.get()
    name = config.layout.task(context.partitionId(), config.of_servers)
    attempt = context.taskAttemptId()
    interface = config.endpoints.interface
    if not config.barrier and not wait_for_others(
        config.driver, config.credentials, name, attempt, interface
    ):
        return
    host = own_address(config.driver, interface)
    messages: list[Mapping[str, Any]] = []
    worker = name.index if name.job == "worker" else None
    spool = DatasetSpool(config.datasets, worker, local_directories(os.environ), messages.append)
    client = RegistrationClient(config.driver, config.credentials)
    with contextlib.closing(client), contextlib.closing(spool):
        spool.take(batches)
        cluster = _registered(client, name, host, attempt, config.endpoints.ports)
        environment = child_environment(os.environ, context.cpus(), _count_at(cluster, host))
        environment["TF_CONFIG"] = tf_config(cluster, name)
        environment[ROLE] = f"{name.job} {name.index}"
        rows = [each for each in messages if "dataset" in each]
        process = FunctionProcess(name, config.work, environment, rows)
        try:
            value = _kept(process, client, name, host)
        finally:
            process.end()
    outcome = cloudpickle.dumps((name, value, process.lines))  # type: ignore[no-untyped-call]
    yield pa.RecordBatch.from_pydict({"outcome": pa.array([outcome], pa.binary())})


def _registered(
    client: RegistrationClient, name: TaskName, host: str, attempt: int, ports: Ports
) -> ClusterDef:
    """Returns the addresses of all tasks, once all have registered."""
    # Held until all ports are known, so that no two tasks of a machine get the same port.
    with ports.listen_later(host, lambda port: _bound(host, port)) as held:
        info = TaskInfo(
            job=name.job,
            task=name.index,
            address=joined(host, held.getsockname()[1]),
            host=socket.gethostname(),
            pid=os.getpid(),
            task_attempt_id=attempt,
        )
        return client.register(info).cluster


def _bound(host: str, port: int) -> socket.socket:
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        held.bind((host, port))
    except OSError as error:
        held.close()
        raise UnavailableError(message=f"Cannot bind {joined(host, port)}: {error}") from error
    return held


def _kept(process: FunctionProcess, client: RegistrationClient, name: TaskName, host: str) -> Any:
    """Returns the result of a task's function, None for servers; blocks until all may end.

    The driver raises failures: if one were raised here, Spark would retry the task.
    """
    over = threading.Event()
    value = None

    def wait() -> None:
        with contextlib.suppress(grpc.RpcError):  # the driver is gone
            for told in client.await_end(name, 1):
                if told.ended:
                    break
        over.set()

    def watch() -> None:
        nonlocal value
        try:
            found = process.result()
        except FunctionError as error:
            if not over.is_set():
                text = f"{name} on {host}: {error}"
                client.report_failure(name, host, text, error_type=error.error_type)
            return
        if name.job == "worker":
            value = found
            # A worker that has returned needs nothing more.
            client.data_ready(name, 0, 0, 0)

    for target in (wait, watch):
        threading.Thread(target=target, daemon=True).start()
    over.wait()
    return value


def _count_at(cluster: ClusterDef, host: str) -> int:
    """Returns how many tasks are at an address."""
    places = [place for job in cluster.job for place in job.tasks.values()]
    return sum(place.rpartition(":")[0].strip("[]") == host for place in places)


def tf_config(cluster: ClusterDef, name: TaskName) -> str:
    """Returns the `TF_CONFIG` of a task.

    Args:
        cluster: The addresses of all tasks.
        name: The task.
    """
    jobs = {job.name: [job.tasks[index] for index in sorted(job.tasks)] for job in cluster.job}
    config: Mapping[str, Any] = {"cluster": jobs, "task": {"type": name.job, "index": name.index}}
    return json.dumps(config)
