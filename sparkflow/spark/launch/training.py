"""A training as a value: its rows, its configuration, and the backends that can start it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy.typing as npt
from pyspark.sql import DataFrame

from sparkflow.spark.cluster.task import JobConfig
from sparkflow.spark.cluster.worker_callbacks import WorkerCallback
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.callbacks import Callbacks
from sparkflow.spark.control.checkpoints.snapshot import Snapshot
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.data.feed_plan import FeedPlan, Shards
from sparkflow.spark.data.plan.partitioning import PlacedRows
from sparkflow.spark.data.plan.prepare import PreparedRows
from sparkflow.spark.data.schema.row_format import RowFormat
from sparkflow.spark.endpoints import Endpoints, Ports
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.task_resources import RoleResources
from sparkflow_runtime.security import Credentials

Trained = tuple[Mapping[str, npt.NDArray[Any]], TrainingHistory]
"""The values of the requested variables by name, and the history."""


@dataclass(frozen=True, slots=True)
class Training:
    """A training that is ready to run.

    Attributes:
        plan: The plan of the training.
        row_format: The format of the rows.
        rows: The placed rows, one partition per task.
        name: The unique name of the fit.
        description: The description in Spark's UI.
        callbacks: Called for every event.
        worker_callbacks: The user's worker callbacks.
        start: The values that training starts from without a checkpoint; None for initial values.
        resized: Returns the same training for another number of workers; None if that is fixed.
        most_workers: The maximum number of workers.
        count_workers: Returns the number of workers for which there are slots; None to ask Spark.
    """

    plan: TrainingPlan
    row_format: RowFormat
    rows: DataFrame
    name: str
    description: str
    callbacks: Callbacks
    worker_callbacks: tuple[WorkerCallback, ...] = ()
    start: Snapshot | None = None
    resized: Callable[[int], Training] | None = None
    most_workers: int = 0
    count_workers: Callable[[], int] | None = None

    @property
    def feed(self) -> FeedPlan:
        """The workers' information about their rows."""
        return self.plan.feed(self.row_format)

    def job(self, credentials: Credentials, gpu_memory_bytes: int | None) -> JobConfig:
        """Returns the configuration of the tasks, without the address to report to.

        Args:
            credentials: The credentials of the job's tasks and driver.
            gpu_memory_bytes: The GPU memory that a worker may use; None for all of it.
        """
        return JobConfig(
            "",
            credentials,
            self.plan.layout,
            self.row_format,
            self.plan.config.worker_logs,
            self.worker_callbacks,
            gpu_memory_bytes,
            endpoints=Endpoints(Ports.of(self.plan.config.ports), self.plan.config.interface),
        )


class Backend(Protocol):
    """Trains on one kind of session.

    Backends differ in how slots are counted, how the barrier job is run, and where the retry loop
    runs.
    """

    def require_slots(
        self, layout: ClusterLayout, resources: RoleResources, is_elastic: bool = False
    ) -> ClusterLayout:
        """Checks that all tasks can run at once.

        Args:
            layout: The tasks.
            resources: The resources of each task.
            is_elastic: Whether there may be more workers later.

        Returns:
            The layout with the backend's additions: messengers if there are slots for them, and
            separate parameter servers if they have their own resources.

        Raises:
            SparkTrainingError: They cannot; the text states both numbers.
        """

    def speaks_tls(self, wanted: bool | str) -> bool:
        """Whether the tasks speak TLS, by `encryption.speaks_tls`.

        Raises:
            SparkTrainingError: The cluster does not permit the requested setting.
        """

    def count_workers(self, config: FitConfig) -> int:
        """Returns the number of workers of a fit for which there are slots now.

        Raises:
            SparkTrainingError: The number cannot be determined.
        """

    def train(self, training: Training) -> Trained:
        """Trains and blocks until training has ended. Raises the errors of `SparkTrainer.fit`."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Prepared and placed rows, which several trainings can share.

    Attributes:
        prepared: The prepared training rows.
        layout: The tasks.
        placed: The rows in one partition per task.
        worker_rows: Number of training rows per worker.
        validation_rows: Number of validation rows per worker.
        facts: The result of the estimator's `look_at` for them.
        shards: How rows are divided if the number of workers may change.
        resized: Returns the same rows for another number of workers; None if that is fixed.
        given: Their source: the DataFrame, or the path of files.
        rule: The `row_rule` of the estimator that prepared them.
    """

    prepared: PreparedRows
    layout: ClusterLayout
    placed: DataFrame
    worker_rows: tuple[int, ...]
    validation_rows: tuple[int, ...]
    facts: Any
    shards: Shards | None = None
    resized: Callable[[int], TrainingData] | None = None
    given: DataFrame | str = ""
    rule: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, prepared: PreparedRows, layout: ClusterLayout, placed: PlacedRows, facts: Any
    ) -> TrainingData:
        """Creates it from the results of `prepare_rows` and `place_rows`."""
        shares = tuple(placed.worker_rows), tuple(placed.validation_rows)
        return cls(prepared, layout, placed.df, *shares, facts, placed.shards)
