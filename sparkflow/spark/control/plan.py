"""The plan of a training run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.checkpoints.fingerprint import Fingerprint
from sparkflow.spark.control.schedule import Schedule, Stops
from sparkflow.spark.data.feed_plan import ARRIVAL, PERMUTED, FeedPlan, Shards
from sparkflow.spark.data.schema.row_format import RowFormat
from sparkflow.spark.graphs.evaluation import EvaluationGraph
from sparkflow.spark.graphs.training_graph import TrainingGraph
from sparkflow.spark.params.config import FitConfig
from sparkflow_runtime import shapes


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What to train, on which tasks and rows; `config` says how.

    Attributes:
        layout: The tasks.
        graph: The replicas' graph, and what it was built for.
        fetch: The names of the variables to return.
        worker_rows: The number of training rows of each worker; may be 0.
        evaluation: The evaluation graph; None without validation rows.
        validation_rows: The number of validation rows of each worker.
        fingerprint: The fingerprint of this training; None if it is not stored.
        shards: How rows are divided if the number of workers may change; else None.
        name: The unique name of the fit; "" if all its attempts share one `FitState`.
    """

    layout: ClusterLayout
    graph: TrainingGraph
    fetch: tuple[str, ...]
    worker_rows: tuple[int, ...]
    evaluation: EvaluationGraph | None = None
    validation_rows: tuple[int, ...] = ()
    fingerprint: Fingerprint | None = None
    shards: Shards | None = None
    name: str = ""

    @property
    def config(self) -> FitConfig:
        """The configuration of the fit."""
        return self.graph.config

    @property
    def variable_bytes(self) -> int:
        """The size of all variables, including optimizer slots, except those of unknown size."""
        return sum(
            (shapes.num_elements(nodes.shape) or 0) * nodes.dtype.size
            for nodes in self.graph.state.shared.values()
        )

    @property
    def rows(self) -> int:
        """All training rows of an epoch."""
        return sum(self.worker_rows)

    @property
    def total_rows(self) -> int:
        """Training rows of all epochs."""
        return self.rows * self.config.epochs

    @property
    def epoch_steps(self) -> tuple[int, ...]:
        """The steps of an epoch of each worker; workers in step make as many as the longest."""
        if self.shards is not None:  # a step has a batch of each worker
            shards = epoch_steps(self.shards.rows, self.config.batch_size, in_step=True)
            return shards[:1] * self.layout.num_workers
        return epoch_steps(self.worker_rows, self.config.batch_size, self.config.in_step)

    @property
    def validation_steps(self) -> tuple[int, ...]:
        """The number of validation batches of each worker."""
        return tuple(-(-rows // self.config.batch_size) for rows in self.validation_rows)

    @property
    def order(self) -> str:
        """The order in which workers feed their rows, see `FeedPlan`."""
        # A position within the first epoch can be found again only if the order is repeatable. Any
        # run that saves may end at one: by `maxSteps`, early stopping or `stop`.
        repeats = self.config.in_step or self.config.saves
        return PERMUTED if repeats else ARRIVAL

    @property
    def waits_for_rows(self) -> bool:
        """Whether steps start only when all rows are on the workers."""
        return self.order == PERMUTED or not self.config.shuffle

    @property
    def position_rule(self) -> dict[str, Any]:
        """Everything that defines a position in the data, as values for JSON.

        A checkpoint's position refers to the same rows only if all of this is equal.
        """
        return {
            "seed": self.config.seed,
            "shuffle": self.config.shuffle,
            "order": self.order,
            "batch_size": self.config.batch_size,
            "worker_rows": list(self.shards.rows if self.shards is not None else self.worker_rows),
            "in_step": self.config.in_step,
        }

    def feed(self, row_format: RowFormat) -> FeedPlan:
        """Returns the feed plan for the workers.

        Args:
            row_format: The format of a row.
        """
        return FeedPlan(
            row_format=row_format,
            batch_size=self.config.batch_size,
            epochs=self.config.epochs,
            steps_per_epoch=max(self.epoch_steps) if self.config.in_step else 0,
            order=self.order,
            shuffle=self.config.shuffle,
            seed=self.config.seed,
            shards=self.shards,
        )

    def rows_of(self, worker: int, start: int, end: int) -> int:
        """Returns the number of rows in a range of a worker's steps."""
        rows, steps = self.worker_rows[worker], self.epoch_steps[worker]

        def until(number: int) -> int:
            epochs, step = divmod(number, steps)
            return epochs * rows + min(step * self.config.batch_size, rows)

        return until(end) - until(start) if steps else 0

    def schedule(self, needs_epochs: bool, done: tuple[int, ...] | None = None) -> Schedule:
        """Returns the schedule of the run.

        Args:
            needs_epochs: Whether a callback requires that steps pause at the end of epochs.
            done: The steps of each worker in earlier runs.
        """
        config = self.config
        stops = Stops.of(config, needs_epochs)
        return Schedule(self.epoch_steps, config.epochs, config.in_step, stops, done)


def epoch_steps(worker_rows: Sequence[int], batch_size: int, in_step: bool) -> tuple[int, ...]:
    """The steps of an epoch of each worker; workers in step make as many as the longest."""
    steps = tuple(-(-rows // batch_size) for rows in worker_rows)
    return (max(steps),) * len(steps) if in_step else steps
