"""Events of training on the cluster, as values for the event queue on the driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sparkflow.spark.cluster_layout import TaskName


@dataclass(frozen=True, slots=True)
class TaskEntered:
    """A Spark task is running and waits for the others before it starts a process."""

    task: TaskName
    place: str


@dataclass(frozen=True, slots=True)
class TaskLeft:
    """A Spark task that waited for the others is gone; Spark retries it."""

    task: TaskName


@dataclass(frozen=True, slots=True)
class TaskRegistered:
    """A task's server listens."""

    task: TaskName
    address: str
    host: str


@dataclass(frozen=True, slots=True)
class RowsReady:
    """A task has received all its rows; parameter servers say so with 0 rows.

    Attributes:
        task: The task.
        rows: The number of training rows.
        validation_rows: The number of validation rows.
    """

    task: TaskName
    rows: int
    validation_rows: int = 0


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A task's process reported its own failure, or the end of its child process.

    Attributes:
        task: Which task.
        host: Where it ran.
        message: What happened.
        traceback: Of the task, if it has one.
        lost: Whether the process was killed from outside, so that a restart may help.
        time_s: The time, in seconds of the driver's clock (`time.time()`).
        follows: Whether it only reports that others are unreachable or have given up: then another
            failure is the cause.
    """

    task: TaskName
    host: str
    message: str
    traceback: str = ""
    lost: bool = False
    time_s: float = 0.0
    follows: bool = False


@dataclass(frozen=True, slots=True)
class ClusterRefused:
    """The registered tasks are incompatible with each other or the driver; the message says why."""

    message: str


@dataclass(frozen=True, slots=True)
class TaskGone:
    """The connection of a task's process broke before the job's end.

    Attributes:
        task: Which.
        host: Where it is.
        silent_s: The seconds since its last sign of life, if it does not answer; 0 if the
            connection was closed.
    """

    task: TaskName
    host: str
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The Spark job has ended; `error` is Spark's exception."""

    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class StepsDone:
    """A worker's loop made some steps.

    Attributes:
        worker: The worker's index.
        losses: [n] float32, one per step.
        weights: [n] float32: rows of the step's batch; 0 for a dummy batch.
        waited_s: Seconds of these steps spent waiting for data and peers.
    """

    worker: int
    losses: npt.NDArray[np.float32] = field(repr=False)
    weights: npt.NDArray[np.float32] = field(repr=False)
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LoopEnded:
    """A worker's loop ended; `error` is None at the end of its data."""

    worker: int
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class StepFailed:
    """A step outside the loops failed: of initialization, a checkpoint or validation."""

    error: BaseException


Event: TypeAlias = (
    TaskEntered
    | TaskLeft
    | TaskRegistered
    | RowsReady
    | TaskFailed
    | ClusterRefused
    | TaskGone
    | JobEnded
    | StepsDone
    | LoopEnded
    | StepFailed
)
Post: TypeAlias = Callable[[Event], None]
"""Takes an event from any thread."""
