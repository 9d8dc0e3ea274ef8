"""`SparkCluster`: parameter servers and workers on the executors, for any user program."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import logging
import os
import queue
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession

from sparkflow.spark.cluster.barrier_job import GangJob
from sparkflow.spark.cluster.cluster import Cluster, show_lines
from sparkflow.spark.cluster.events import Event, RowsReady
from sparkflow.spark.cluster.failures import is_failure, not_started, to_exception
from sparkflow.spark.cluster.scheduling.profiles import count_tasks, session_profiles, why_not
from sparkflow.spark.cluster.scheduling.slots import gpu_memory_bytes, require_slots, reserved_slots
from sparkflow.spark.cluster.task import JobConfig
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.data.feed_plan import FeedPlan
from sparkflow.spark.data.hosted.travelling import rows_for_tasks
from sparkflow.spark.data.plan.spooled import is_local
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow.spark.encryption import AUTO, new_credentials, session_speaks_tls
from sparkflow.spark.endpoints import Endpoints, Ports, require_interface
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.params.converters import auto_or_boolean
from sparkflow.spark.programs.cluster_dataset import (
    ClusterDataset,
    Columns,
    feed_plan,
    make_dataset,
    whole_number,
)
from sparkflow.spark.programs.functions import FunctionJob
from sparkflow.spark.programs.given_rows import given_rows
from sparkflow.spark.task_resources import RoleResources, ps_resources, worker_resources
from sparkflow.train.clusters.cluster_spec import ClusterSpec
from sparkflow_runtime.security import Credentials

if TYPE_CHECKING:
    from sparkflow.spark.programs.tensorboard_server import TensorBoardServer

_log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
_POLL_S: Final = 0.5
# The time within which tasks report the consequences of another task's failure.
_CAUSES_S: Final = 1.0
_LOG_LINES: Final = 10_000
_NO_ROWS: Final = RowFormat((Input("unused", DENSE, "float32", ()),), None, None, named=True)


class SparkCluster:
    """Parameter servers and workers on the executors of a Spark session, as one cluster.

    A program of TensorFlow 1 opens a session on it from the driver and places its ops:

        with SparkCluster(spark, numWorkers=3, numPs=1) as cluster:
            with tf.device("/job:ps/task:0"):
                w = tf.get_variable("w", [784, 10])
            with tf.device("/job:worker/task:1"):
                y = tf.matmul(x, w)
            with tf.Session(cluster.target, credentials=cluster.credentials) as session:
                ...

    or runs a function in every task, which finds its role in `TF_CONFIG`, see `run`.

    The tasks belong to one Spark job, which starts with the first use of `target`, `spec` or
    `start` and ends with `stop`, the `with` block or the driver. Use the object from one thread;
    sessions on the cluster may be used from any.

    Args:
        spark: A classic session; the active one if None.
        numWorkers: The number of workers, at least one. Each occupies a Spark task slot.
        numPs: The number of parameter servers. Each occupies a slot, too.
        startTimeout: The seconds that tasks may take to start.
        workerLogs: Whether the output of the tasks' processes is shown on the driver's stderr.
            `logs` contains it in any case.
        tls: Whether tasks and sessions use TLS: True, False, or 'auto' (if any address is not
            loopback).
        ports: The ports that the processes of the tasks and the driver listen on: a range
            (`"40000-40100"`), one port, or `""` for any free ones.
        interface: The address that tasks listen on: the name of an interface (`"eth0"`), a network
            (`"10.1.0.0/16"`), or `""` for the address that the driver sees.
        workerResources: The resources of each worker's task: amounts (`{"cpus": 2, "gpu": 1}`) or a
            `pyspark.resource.ResourceProfile`; None for those in Spark's settings.
        psResources: The same for parameter servers.

    Raises:
        ValueError: `numWorkers` is below 1, `numPs` is negative, or `ports` or `interface` is
            invalid.
        TypeError: A number of tasks is not an integer.
        SparkTrainingError: There is no session, or it is a Spark Connect session, whose driver is
            elsewhere; or tls=False although Spark's settings require encryption.
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        numWorkers: int = 1,
        numPs: int = 0,
        *,
        startTimeout: float = 600.0,
        workerLogs: bool = False,
        tls: bool | str = AUTO,
        ports: str | int = "",
        interface: str = "",
        workerResources: Any = None,
        psResources: Any = None,
    ) -> None:
        numWorkers = whole_number("numWorkers", numWorkers)
        numPs = whole_number("numPs", numPs, 0)
        session = spark or SparkSession.getActiveSession()
        if session is None:
            raise SparkTrainingError("No Spark session is active: give SparkCluster one")
        if not hasattr(session, "_jsparkSession"):
            raise SparkTrainingError(
                "SparkCluster needs a classic Spark session: with Spark Connect the driver, which "
                "is the cluster's client, is not in this process. SparkTrainer takes both"
            )
        self._session = session
        self._resources = RoleResources.of(
            worker_resources(workerResources or {}), ps_resources(psResources or {})
        )
        reason = why_not(session.sparkContext.master)
        if self._resources and reason:
            _log.warning("%s", reason)
        self._profiles = session_profiles(session, self._resources)
        self._layout = self._profiles.arranged(ClusterLayout(numPs, numWorkers))
        self._timeout_s = startTimeout
        self._shows_lines = workerLogs
        self._endpoints = Endpoints(Ports.of(ports), require_interface(interface))
        self._lines: deque[str] = deque(maxlen=_LOG_LINES)
        self._credentials = new_credentials(session_speaks_tls(auto_or_boolean(tls), session))
        self._events: queue.Queue[Event] = queue.Queue()
        self._failure: Exception | None = None
        self._cluster: Cluster | None = None
        self._addresses: Mapping[TaskName, str] = {}
        self._held = contextlib.ExitStack()
        self._datasets: list[ClusterDataset] = []
        self._boards: dict[str, TensorBoardServer] = {}
        _living.add(self)

    @property
    def target(self) -> str:
        """The target for `tf.Session`: the first worker's master. Starts the cluster if needed.

        Raises:
            SparkTrainingError: See `start` and `check`.
        """
        self.start()
        return f"grpc://{self._addresses[TaskName('worker', 0)]}"

    @property
    def credentials(self) -> Credentials:
        """The credentials for sessions on the cluster: a token, and with TLS a certificate.

        The cluster refuses connections without them.
        """
        return self._credentials

    @property
    def spec(self) -> ClusterSpec:
        """The tasks and their addresses; reading an address starts the cluster if needed.

        The numbers of tasks are known before: `tf.train.replica_device_setter` does not start it.
        """
        return _Spec(self._layout, self._jobs)

    @property
    def is_running(self) -> bool:
        """Whether the tasks are running and none has failed."""
        return self._cluster is not None and self._first_failure() is None

    @property
    def logs(self) -> list[str]:
        """The last lines that the tasks' processes wrote, each after its task's name."""
        return list(self._lines)

    def start(self) -> SparkCluster:
        """Starts all tasks and waits for them; does nothing if they are running.

        Raises:
            SparkTrainingError: Spark has too few slots, tasks do not start within `startTimeout`,
                or they fail; see `check`.
        """
        if self._cluster is not None:
            self.check()
            return self
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def check(self) -> None:
        """Raises an error if a task was lost or has failed.

        Raises:
            LostTaskError: A task was lost; contains its name and host. `stop` and `start` recreate
                the cluster, with new servers.
            SparkTrainingError: A task failed; contains its error.
        """
        failure = self._first_failure()
        if failure is not None:
            raise failure

    def run(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Runs a function in every task of a cluster of this shape, each in a process of its own.

        The function finds its role where TensorFlow's estimators and TensorFlowOnSpark put it:
        `os.environ["TF_CONFIG"]` is JSON with the addresses of all tasks (`cluster`) and its own
        job and number (`task`). It starts a `tf.train.Server` there, builds its graph, and returns
        a picklable value. Its servers and sessions use the cluster's `credentials` unless it passes
        others. Parameter servers may serve forever: they are ended when all workers have returned.

        It has tasks of its own: if the cluster is running, it waits until Spark has slots for both.

        Args:
            function: The function to run in the tasks; pickled by value, as in Spark.
            *args: Its arguments.

        Returns:
            The results of the workers, in worker order.

        Raises:
            SparkTrainingError: A task failed; contains the traceback and last lines of the first
                one that did. All others are ended.
        """
        layout = self._layout
        require_slots(self._session, layout, profiles=self._profiles)
        with reserved_slots(self._session, layout, _log.info, self._profiles):
            job = FunctionJob(
                self._session,
                layout,
                function,
                args,
                self._take_lines,
                self._credentials,
                self._timeout_s,
                self._endpoints,
                self._profiles,
            )
            return job.run()

    def tensorboard(
        self, folder: str | os.PathLike[str], host: str = LOOPBACK, port: int = 0
    ) -> str:
        """Starts TensorBoard on the driver and returns its address; it ends with the cluster.

        That is, with `close`, the `with` block, or the driver's process, however that ends; `stop`
        keeps it running. It shows the event files below a folder, such as those of a
        `tf.summary.FileWriter` or of `checkpoint_dir`. A second call for the same folder returns
        the same instance.

        TensorBoard has no authentication. On loopback, its default, every user of the driver's
        machine can read it; reach it from elsewhere through ssh (`ssh -L 6006:127.0.0.1:PORT
        driver`).

        Args:
            folder: A local path, or a URI that TensorBoard reads.
            host: The address to listen on.
            port: The port; 0 for any free one.

        Raises:
            ImportError: TensorBoard is not installed (`pip install 'sparkflow-ml[tensorboard]'`).
            SparkTrainingError: It does not start, for instance because the port is taken.
        """
        from sparkflow.spark.programs.tensorboard_server import TensorBoardServer

        shown = os.fspath(folder)
        if shown not in self._boards:
            self._boards[shown] = TensorBoardServer(shown, host, port)
        return self._boards[shown].url

    def dataset(
        self,
        df: Any,
        columns: Columns,
        *,
        batch_size: int,
        shuffle: bool = False,
        epochs: int | None = 1,
        seed: int = 0,
        inputShapes: Mapping[str, Sequence[int | None]] | None = None,
        vectorFormat: str = "auto",
        handleInvalid: str = "error",
        fillValue: float = 0.0,
        cache: bool = True,
        version: int | str | datetime | None = None,
        catalog: str | Mapping[str, str] | None = None,
    ) -> ClusterDataset:
        """Distributes the rows of a DataFrame or table: `dataset[1]` is the share of worker 1.

            rows = cluster.dataset(df, ["features", "label"], batch_size=64, shuffle=True)
            for task in range(len(rows)):
                with tf.device(f"/job:worker/task:{task}"):
                    features, labels = rows[task].make_one_shot_iterator().get_next()

        Rows are distributed evenly, to within one row, and reach the workers as in a trainer: as
        Arrow columns, never through the driver. Blocks for the Spark jobs that read and check them.

        Outside local sessions, rows are sent when the cluster starts, so create datasets before the
        first use of `target`. If the cluster is running in a local session, the jobs need a free
        slot.

        Args:
            df: The rows: a DataFrame; the path or URI of Parquet files; or a table of Delta Lake or
                Iceberg as for `SparkTrainer.fitOnTable`. Spark's Python workers read files, without
                the JVM and without a connector.
            columns: The content of a batch: a column; a list of columns, for a tuple of tensors; or
                a dictionary of columns (or of lists of scalar columns, which become one tensor),
                for a dictionary of tensors. Types are converted as for named inputs of a trainer,
                see `docs/spark_inputs.md`.
            batch_size: Rows per batch; the last one of an epoch may be shorter.
            shuffle: Whether each epoch, and each pass over the dataset, has a different order;
                otherwise it is the order of the DataFrame.
            epochs: The number of epochs in a pass; None for endless repetition.
            seed: Determines the orders.
            inputShapes: As for a trainer, by column or name.
            vectorFormat: As for a trainer.
            handleInvalid: As for a trainer.
            fillValue: As for a trainer.
            cache: Whether rows are cached while they are checked, outside local sessions.
            version: The version of a table, as for `fitOnTable`; pinned by this call.
            catalog: The catalog of an Iceberg table, as for `fitOnTable`.

        Raises:
            ImportError: The library of the table's format is not installed.
            FileNotFoundError: No files were found.
            ValueError, TypeError: A column is missing, has a type that tensors lack, or has nulls
                or NaNs; there are no rows; or as for `SparkTrainer.fit`.
            SparkTrainingError: The cluster is running, and no slot is free or the session is not
                local.
        """
        df = given_rows(self._session, df, version, catalog)
        plan = feed_plan(batch_size, shuffle, epochs, seed)
        if self._cluster is None:
            require_slots(self._session, self._layout, profiles=self._profiles)
        else:
            self._require_room_for_rows(df)
        made = make_dataset(
            f"sparkflow-dataset-{uuid.uuid4().hex[:8]}",
            df,
            columns,
            self._layout,
            plan,
            inputShapes=dict(inputShapes or {}),
            vectorFormat=vectorFormat,
            handleInvalid=handleInvalid,
            fillValue=fillValue,
            cache=cache,
        )
        self._datasets.append(made)
        return made

    def stop(self) -> None:
        """Ends all tasks and waits for them; may be called again. Keeps datasets."""
        cluster, self._cluster = self._cluster, None
        self._addresses = {}
        try:
            if cluster is not None:
                cluster.close()
        finally:
            self._held.close()

    def close(self) -> None:
        """Ends all tasks and TensorBoard, and releases all datasets; may be called again."""
        try:
            self.stop()
        finally:
            boards, self._boards = self._boards, {}
            for board in boards.values():
                board.close()
            datasets, self._datasets = self._datasets, []
            for each in datasets:
                each.close()

    def __enter__(self) -> SparkCluster:
        """Returns the cluster itself, which starts on first use."""
        return self

    def __exit__(self, *error: object) -> None:
        """Ends all tasks, and releases the rows of all datasets."""
        self.close()

    def __repr__(self) -> str:
        layout, state = self._layout, "running" if self._cluster is not None else "not running"
        return f"SparkCluster(numWorkers={layout.num_workers}, numPs={layout.num_ps}; {state})"

    def _jobs(self) -> dict[str, dict[int, str]]:
        self.start()
        jobs: dict[str, dict[int, str]] = {}
        for task in sorted(self._addresses):
            jobs.setdefault(task.job, {})[task.index] = self._addresses[task]
        return jobs

    def _start(self) -> None:
        session, layout = self._session, self._layout
        require_slots(session, layout, profiles=self._profiles)
        slots = reserved_slots(session, layout, _log.info, self._profiles)
        self._held.enter_context(slots)
        self._events = queue.Queue()
        self._failure = None
        self._datasets = [each for each in self._datasets if not each.is_closed]
        travelling = [each for each in (made.travelling() for made in self._datasets) if each]
        config = JobConfig(
            "",
            self._credentials,
            layout,
            _NO_ROWS,
            sends_logs=True,
            gpu_memory_bytes=gpu_memory_bytes(session),
            datasets=tuple(what for what, _ in travelling),
            endpoints=self._endpoints,
        )
        name = f"sparkflow-cluster-{uuid.uuid4().hex[:8]}"
        description = (
            f"SparkCluster: {layout.num_ps} parameter servers, {layout.num_workers} workers"
        )
        rows = rows_for_tasks(session, layout, travelling)
        cluster = self._cluster = Cluster(
            rows, config, name, description, self._take_lines, self._profiles
        )
        plan = FeedPlan(_NO_ROWS, batch_size=1)
        server, job = cluster.begin_attempt(self._events.put, json.dumps(plan.to_json()))
        job.start()
        self._await_tasks(job)
        self._addresses = {task: info.address for task, info in server.infos().items()}

    def _require_room_for_rows(self, df: DataFrame) -> None:
        """Checks that rows can be sent to tasks that are already running."""
        if not is_local(df):
            raise SparkTrainingError(
                "The cluster runs, and rows come to its tasks when it starts: make datasets before "
                "the first use of cluster.target, or call cluster.stop() first, which ends its "
                "servers with their variables"
            )
        taken, slots = self._layout.num_tasks, count_tasks(self._session)
        if slots <= taken:
            raise SparkTrainingError(
                f"The cluster's {taken} tasks take all {slots} slots of Spark, and reading rows "
                "takes another: make datasets before the first use of cluster.target, or give "
                f"Spark more slots, such as local[{taken + 1}]"
            )

    def _await_tasks(self, job: GangJob) -> None:
        missing = set(self._layout.tasks)
        deadline = time.monotonic() + self._timeout_s
        while missing:
            with contextlib.suppress(queue.Empty):
                event = self._events.get(timeout=_POLL_S)
                if isinstance(event, RowsReady):
                    missing.discard(event.task)
                elif is_failure(event):
                    self._events.put(event)
                    self.check()
            if missing and time.monotonic() > deadline:
                raise not_started(missing, self._timeout_s, job.describe_slots()[1])

    def _first_failure(self) -> Exception | None:
        """The error that ended the cluster, cached; None if there is none."""
        if self._failure is None:
            failures: list[Event] = []
            deadline: float | None = None
            while deadline is None or time.monotonic() < deadline:
                try:
                    event = self._events.get(timeout=0.0 if deadline is None else 0.1)
                except queue.Empty:
                    if deadline is None:
                        break
                    continue
                if is_failure(event):
                    failures.append(event)
                    deadline = deadline or time.monotonic() + _CAUSES_S
            if failures:
                self._failure = to_exception(failures)
        return self._failure

    def _take_lines(self, task: TaskName, lines: Sequence[str], dropped: int) -> None:
        for line in lines:
            self._lines.append(f"[{task}] {line}")
        if self._shows_lines:
            show_lines(task, lines, dropped)


class _Spec(ClusterSpec):
    """A cluster whose addresses are determined on first use.

    Args:
        layout: The tasks.
        jobs: Their addresses; called at most once.
    """

    def __init__(
        self, layout: ClusterLayout, jobs: Callable[[], dict[str, dict[int, str]]]
    ) -> None:
        self._counts = {"ps": layout.num_ps, "worker": layout.num_workers}
        self._find = jobs

    @functools.cached_property
    def _tasks(self) -> dict[str, dict[int, str]]:  # type: ignore[override]
        return self._find()

    @property
    def jobs(self) -> list[str]:
        return [job for job, count in self._counts.items() if count]

    def num_tasks(self, job_name: str) -> int:
        return self._counts.get(job_name) or super().num_tasks(job_name)

    def task_indices(self, job_name: str) -> list[int]:
        return list(range(self.num_tasks(job_name)))

    def __bool__(self) -> bool:
        return True


_living: weakref.WeakSet[SparkCluster] = weakref.WeakSet()


def _stop_all() -> None:
    # Before the session ends, because its end would make every task fail.
    for cluster in list(_living):
        with contextlib.suppress(Exception):
            cluster.close()


atexit.register(_stop_all)
