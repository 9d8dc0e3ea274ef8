"""A training as values: its rows, its configuration, and the backends that can start it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
"""The values of the wanted variables by name, and the history."""


@dataclass(frozen=True, slots=True)
class Training:
    """A training that is ready to run.

    Attributes:
        plan: What is to be trained.
        row_format: What a row consists of.
        rows: The placed rows, one partition per task.
        name: Of the fit, unique.
        description: What Spark's UI shows.
        callbacks: Are told of everything.
        worker_callbacks: The user's functions for the workers.
        start: What training begins with where there is no checkpoint; None for initial values.
        resized: The same training for another number of workers; None where it does not change.
        most_workers: The largest number of workers there may be.
        count_workers: For how many workers there are slots; None to ask Spark.
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
        """What workers are told about their rows."""
        return self.plan.feed(self.row_format)

    def job(self, credentials: Credentials, gpu_memory_bytes: int | None) -> JobConfig:
        """What the tasks are told, apart from the address to report to.

        Args:
            credentials: What the job's tasks and driver show to each other.
            gpu_memory_bytes: How much of a GPU's memory a worker takes; None for all there is.
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

    What differs between them: how slots are counted, how the barrier job is run and where the
    loop over attempts is.
    """

    def require_slots(
        self, layout: ClusterLayout, resources: RoleResources, is_elastic: bool = False
    ) -> ClusterLayout:
        """Passes when all tasks can run at once.

        Args:
            layout: The tasks.
            resources: What each takes.
            is_elastic: Whether there may be more workers later.

        Returns:
            The layout with what the backend adds: messengers where there is room for them, and
            parameter servers apart where their resources are.

        Raises:
            SparkTrainingError: They cannot; the text has both numbers.
        """

    def speaks_tls(self, wanted: bool | str) -> bool:
        """Whether the tasks speak TLS, by `encryption.speaks_tls`.

        Raises:
            SparkTrainingError: The cluster does not allow what is wanted.
        """

    def count_workers(self, config: FitConfig) -> int:
        """For how many workers of a fit there are slots now.

        Raises:
            SparkTrainingError: Nobody knows.
        """

    def train(self, training: Training) -> Trained:
        """Trains, and blocks until it has. Raises what `SparkTrainer.fit` does."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Prepared and placed rows, which several trainings can share.

    Attributes:
        prepared: The rows that are trained on.
        layout: The tasks.
        placed: The rows in one partition per task.
        worker_rows: By worker the rows that train.
        validation_rows: By worker the rows that validate.
        facts: What `look_at` of the estimator said of them.
        shards: How rows are cut where the number of workers may change.
        resized: The same rows for another number of workers; None where it does not change.
        given: What they were made of: the DataFrame, or the path of files.
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

    @classmethod
    def of(
        cls, prepared: PreparedRows, layout: ClusterLayout, placed: PlacedRows, facts: Any
    ) -> TrainingData:
        """From what `prepare_rows` and `place_rows` gave."""
        shares = tuple(placed.worker_rows), tuple(placed.validation_rows)
        return cls(prepared, layout, placed.df, *shares, facts, placed.shards)
