"""What happens while the cluster trains, as values that meet in one queue on the driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sparkflow.spark.cluster_layout import TaskName


@dataclass(frozen=True, slots=True)
class TaskEntered:
    """A Spark task runs and waits for the others, before it starts a process."""

    task: TaskName
    place: str


@dataclass(frozen=True, slots=True)
class TaskLeft:
    """A Spark task that waited for the others has gone; Spark runs it again."""

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
        task: Which task.
        rows: Those that train.
        validation_rows: Those that validate.
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
        lost: Whether the process was killed from outside, so that starting it again may do.
        time_s: When, in seconds of the driver's clock (`time.time()`).
        follows: Whether it says no more than that others cannot be reached, or have given up: then
            another failure is why.
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
    """The tasks that registered do not fit together, or not the driver; the text says why."""

    message: str


@dataclass(frozen=True, slots=True)
class TaskGone:
    """The connection of a task's process broke before the job's end.

    Attributes:
        task: Which.
        host: Where it is.
        silent_s: Seconds since it was last heard of, if it is there but does not answer; 0 when the
            connection was closed.
    """

    task: TaskName
    host: str
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The Spark job is over; `error` is what Spark raised."""

    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class StepsDone:
    """A worker's loop did some steps.

    Attributes:
        worker: The worker's index.
        losses: [n] float32, one per step.
        weights: [n] float32: rows of the step's batch; 0 where the batch only keeps step.
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
    """A step between the loops failed: initial values, a checkpoint's, one of validation."""

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
