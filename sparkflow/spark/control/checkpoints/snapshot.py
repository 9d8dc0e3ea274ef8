"""All that a run has to remember in order to go on elsewhere, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Values = Mapping[str, npt.NDArray[Any]]

FINGERPRINT, IS_FINITE, FIT = "fingerprint", "is_finite", "fit"
"""What a run notes, see `Snapshot`."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What one worker has for itself.

    Attributes:
        random: Where its random streams have got to, see
            `sparkflow_runtime.ops.random.random_states`.
        own: The values of its local variables, such as gradients that are being accumulated.
    """

    random: bytes
    own: Values = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Position:
    """How far the data have been used, and by what rule they were dealt.

    Attributes:
        done: Per worker the steps over all epochs.
        epoch_steps: Per worker the steps of an epoch.
        feed: What decides which rows a step has: batch size, seed, shares and the like. Positions
            mean the same rows only where it is equal.
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
    """A run between two segments.

    Attributes:
        step: The steps made, see `Schedule.total`.
        position: How far the data have been used.
        shared: The global variables: parameters, slots, global step.
        best: The best values so far of what early stopping restores; empty without it.
        workers: What each worker has for itself.
        history: `TrainingHistory.to_dict()`.
        early_stopping: `EarlyStopping.to_json()`, None without it.
        notes: What else is to be known of the run when it is gone on with: values that JSON can
            hold. A checkpoint keeps them as they are, under its checksum.
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
        """`Fingerprint.to_json()` of the training; None where nobody noted it."""
        return self.notes.get(FINGERPRINT)

    @property
    def fit(self) -> Mapping[str, Any]:
        """Which fit made it, see `FitState`; empty where nobody noted it."""
        found: Mapping[str, Any] = self.notes.get(FIT) or {}
        return found

    @property
    def is_finite(self) -> bool:
        """Whether its variables are, as `finite.non_finite` sees it."""
        return bool(self.notes.get(IS_FINITE, True))

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """All arrays, under the names they have in a checkpoint."""
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
        """Shared, best and workers' own values from what `tensors` gave."""

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
