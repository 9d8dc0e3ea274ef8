"""What a training run is asked to do."""

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
    """What is to be trained, where and on what; how, its `config` says.

    Attributes:
        layout: The tasks.
        graph: The replicas' graph, and what it was built for.
        fetch: Names of the variables whose values are wanted.
        worker_rows: Per worker the rows that it trains on; 0 for one without.
        evaluation: What workers evaluate with; None without validation rows.
        validation_rows: Per worker the rows that it evaluates.
        fingerprint: What tells this training from others; None where nothing is kept of it.
        shards: Where the number of workers may change, how their rows are cut; else None.
        name: Of the fit, unique; "" where all its attempts have one `FitState`.
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
        """What was asked for."""
        return self.graph.config

    @property
    def variable_bytes(self) -> int:
        """Of all variables, slots of optimizers included; those of unknown size are left out."""
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
        """Per worker the steps of an epoch, where those in step make as many as the longest."""
        if self.shards is not None:  # a step has a batch of each, whoever makes it
            shards = epoch_steps(self.shards.rows, self.config.batch_size, in_step=True)
            return shards[:1] * self.layout.num_workers
        return epoch_steps(self.worker_rows, self.config.batch_size, self.config.in_step)

    @property
    def validation_steps(self) -> tuple[int, ...]:
        """Per worker the batches of its validation rows."""
        return tuple(-(-rows // self.config.batch_size) for rows in self.validation_rows)

    @property
    def order(self) -> str:
        """The order in which workers feed their rows, see `FeedPlan`."""
        # A place within the first epoch can be found again only in an order that can be repeated.
        repeats = self.config.in_step or self.config.saves_within_epochs
        return PERMUTED if repeats else ARRIVAL

    @property
    def waits_for_rows(self) -> bool:
        """Whether no step begins before all rows are on the workers."""
        return self.order == PERMUTED or not self.config.shuffle

    @property
    def position_rule(self) -> dict[str, Any]:
        """All that says what a position in the data means, as JSON has it.

        A checkpoint's position means the same rows only where all this is equal.
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
        """What workers are told about their rows.

        Args:
            row_format: What a row consists of.
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
        """The rows of a worker's steps from one number to another."""
        rows, steps = self.worker_rows[worker], self.epoch_steps[worker]

        def until(number: int) -> int:
            epochs, step = divmod(number, steps)
            return epochs * rows + min(step * self.config.batch_size, rows)

        return until(end) - until(start) if steps else 0

    def schedule(self, needs_epochs: bool, done: tuple[int, ...] | None = None) -> Schedule:
        """The steps of the run.

        Args:
            needs_epochs: Whether a callback wants to find the cluster quiet at the end of epochs.
            done: Per worker the steps that an earlier run has made.
        """
        config = self.config
        stops = Stops.of(config, needs_epochs)
        return Schedule(self.epoch_steps, config.epochs, config.in_step, stops, done)


def epoch_steps(worker_rows: Sequence[int], batch_size: int, in_step: bool) -> tuple[int, ...]:
    """Per worker the steps of an epoch, where those in step make as many as the longest."""
    steps = tuple(-(-rows // batch_size) for rows in worker_rows)
    return (max(steps),) * len(steps) if in_step else steps
