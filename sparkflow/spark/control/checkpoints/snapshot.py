"""The full state of a run, from which it can resume in another process, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Values = Mapping[str, npt.NDArray[Any]]

FINGERPRINT, IS_FINITE, FIT = "fingerprint", "is_finite", "fit"
"""The type of a run's notes, see `Snapshot`."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The state of a single worker.

    Attributes:
        random: The state of its random streams, see
            `sparkflow_runtime.ops.random.random_states`.
        own: The values of its local variables, such as accumulated gradients.
    """

    random: bytes
    own: Values = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Position:
    """The position in the data, and the rule by which they were distributed.

    Attributes:
        done: The steps of each worker over all epochs.
        epoch_steps: The steps of each worker per epoch.
        feed: What determines the rows of a step: batch size, seed, shares and so on. Positions
            refer to the same rows only if it is equal.
    """

    done: tuple[int, ...]
    epoch_steps: tuple[int, ...]
    feed: Mapping[str, Any]

    @property
    def epochs_done(self) -> int:
        """Epochs that all workers have completed."""
        pairs = zip(self.done, self.epoch_steps, strict=True)
        return min((done // steps for done, steps in pairs if steps), default=0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a run between two segments.

    Attributes:
        step: The number of steps made, see `Schedule.total`.
        position: The position in the data.
        shared: The global variables: parameters, slots, global step.
        best: The best values so far of the variables that early stopping restores, if any.
        workers: The state of each worker.
        history: `TrainingHistory.to_dict()`.
        early_stopping: `EarlyStopping.to_json()`, None without it.
        notes: Further values for JSON that are needed to resume the run. A checkpoint stores them
            unchanged, under its checksum.
    """

    step: int
    position: Position
    shared: Values = field(repr=False)
    best: Values = field(repr=False)
    workers: tuple[WorkerState, ...] = field(repr=False)
    history: Mapping[str, Any] = field(repr=False)
    early_stopping: Mapping[str, Any] | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fingerprint(self) -> Mapping[str, Any] | None:
        """`Fingerprint.to_json()` of the training; None if it was not noted."""
        return self.notes.get(FINGERPRINT)

    @property
    def fit(self) -> Mapping[str, Any]:
        """The fit that made it, see `FitState`; empty if it was not noted."""
        found: Mapping[str, Any] = self.notes.get(FIT) or {}
        return found

    @property
    def is_finite(self) -> bool:
        """Whether its variables are finite by the rule of `finite.non_finite`."""
        return bool(self.notes.get(IS_FINITE, True))

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Returns all arrays, under their names in a checkpoint."""
        named = {f"variables/{name}": value for name, value in self.shared.items()}
        named |= {f"best/{name}": value for name, value in self.best.items()}
        for index, worker in enumerate(self.workers):
            named[f"workers/{index}/random"] = np.frombuffer(worker.random, np.uint8)
            for name, value in worker.own.items():
                named[f"workers/{index}/own/{name}"] = value
        return named

    @staticmethod
    def sorted_out(
        tensors: Values, num_workers: int
    ) -> tuple[Values, Values, tuple[WorkerState, ...]]:
        """Splits the result of `tensors` into shared, best and workers' own values."""

        def below(prefix: str) -> dict[str, npt.NDArray[Any]]:
            return {
                name.removeprefix(prefix): value
                for name, value in tensors.items()
                if name.startswith(prefix)
            }

        workers = tuple(
            WorkerState(
                tensors[f"workers/{index}/random"].tobytes(), below(f"workers/{index}/own/")
            )
            for index in range(num_workers)
        )
        return below("variables/"), below("best/"), workers
