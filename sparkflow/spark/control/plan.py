"""What a training run is asked to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkflow.spark.cluster_layout import Layout
from sparkflow.spark.control.checkpoints.fingerprint import Fingerprint
from sparkflow.spark.control.control import Control
from sparkflow.spark.control.schedule import Schedule
from sparkflow.spark.graphs.evaluation import EvaluationGraph
from sparkflow.spark.graphs.training import TrainingGraph
from sparkflow_runtime import shapes


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What is to be trained, and how.

    Attributes:
        layout: The tasks.
        graph: The replicas' graph.
        fetch: Names of the variables whose values are wanted.
        worker_rows: Per worker the rows that it trains on; 0 for one without.
        batch_size: Rows per step of each worker.
        epochs: How often each row is trained on.
        start_timeout_s: How long Spark may take to start the tasks, and how long no row may arrive
            while rows are waited for.
        stall_timeout_s: How long no worker may make a step.
        control: When training is judged, kept and ended.
        evaluation: What workers evaluate with; None without validation rows.
        validation_rows: Per worker the rows that it evaluates.
        feed: What else decides which rows a step has, such as the seed: a checkpoint's position in
            the data means the same rows only where all this is equal.
        waits_for_rows: Whether no step begins before all rows are on the workers.
        params: The trainer's parameters, for callbacks.
        fingerprint: What tells this training from others; None where nothing is kept of it.
    """

    layout: Layout
    graph: TrainingGraph
    fetch: tuple[str, ...]
    worker_rows: tuple[int, ...]
    batch_size: int
    epochs: int = 1
    start_timeout_s: float = 600.0
    stall_timeout_s: float = 600.0
    control: Control = field(default_factory=Control)
    evaluation: EvaluationGraph | None = None
    validation_rows: tuple[int, ...] = ()
    feed: Mapping[str, Any] = field(default_factory=dict)
    waits_for_rows: bool = True
    params: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: Fingerprint | None = None

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
    def in_step(self) -> bool:
        """Whether all workers make their steps together."""
        return self.graph.mode.in_step

    @property
    def epoch_steps(self) -> tuple[int, ...]:
        """Per worker the steps of an epoch, where those in step make as many as the longest."""
        return epoch_steps(self.worker_rows, self.batch_size, self.in_step)

    @property
    def validation_steps(self) -> tuple[int, ...]:
        """Per worker the batches of its validation rows."""
        return tuple(-(-rows // self.batch_size) for rows in self.validation_rows)

    @property
    def position_rule(self) -> dict[str, Any]:
        """`feed` and all else that says what a position in the data means, as JSON has it."""
        return {
            **self.feed,
            "batch_size": self.batch_size,
            "worker_rows": list(self.worker_rows),
            "in_step": self.in_step,
        }

    def schedule(self, needs_epochs: bool, done: tuple[int, ...] | None = None) -> Schedule:
        """The steps of the run.

        Args:
            needs_epochs: Whether a callback wants to find the cluster quiet at the end of epochs.
            done: Per worker the steps that an earlier run has made.
        """
        stops = self.control.stops(needs_epochs)
        return Schedule(self.epoch_steps, self.epochs, self.in_step, stops, done)


def epoch_steps(worker_rows: Sequence[int], batch_size: int, in_step: bool) -> tuple[int, ...]:
    """Per worker the steps of an epoch, where those in step make as many as the longest."""
    steps = tuple(-(-rows // batch_size) for rows in worker_rows)
    return (max(steps),) * len(steps) if in_step else steps
