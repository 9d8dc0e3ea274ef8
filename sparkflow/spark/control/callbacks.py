"""Callbacks of a training run, for users and for sparkflow's own reporters; run on the driver.

All methods are called in the thread that called `fit`, one after another and in the order in which
the callbacks were given, so they need no locks; but the driver handles no other events while one
runs. An exception in a callback ends training and is raised by `fit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sparkflow.spark.control.history.training_history import TrainingHistory


class RunControl(Protocol):
    """A training run as callbacks see it.

    Attributes:
        history: Losses, metrics and counters so far; grows while training runs.
        num_workers: The number of workers.
        num_ps: The number of tasks that only hold variables.
        sync: Whether all workers step together.
        total_rows: The training rows of all epochs.
        rows_per_epoch: The training rows of an epoch.
        total_steps: The steps of the run: common steps if `sync`, else the sum over workers.
        params: The trainer's parameters by name, as values for JSON.
    """

    @property
    def history(self) -> TrainingHistory: ...  # noqa: D102  described above, as the others
    @property
    def num_workers(self) -> int: ...  # noqa: D102
    @property
    def num_ps(self) -> int: ...  # noqa: D102
    @property
    def sync(self) -> bool: ...  # noqa: D102
    @property
    def total_rows(self) -> int: ...  # noqa: D102
    @property
    def rows_per_epoch(self) -> int: ...  # noqa: D102
    @property
    def total_steps(self) -> int: ...  # noqa: D102
    @property
    def params(self) -> Mapping[str, Any]: ...  # noqa: D102

    def stop(self, reason: str = "") -> None:
        """Ends training early at the next step that all workers reach; `fit` returns a model."""

    def values(self) -> Mapping[str, npt.NDArray[Any]]:
        """Returns the current values of the variables that predictions need, by name.

        Optimizer slots, the global step and other variables of training are in checkpoints only.
        The values are transferred to the driver. Between segments (in `on_epoch_end`,
        `on_validation`) no step is running, so the values are consistent; elsewhere they may come
        from different steps.
        """


@dataclass(frozen=True, slots=True)
class Update:
    """Steps that were just reported to the driver.

    Attributes:
        first_step: The number of the first one, as counted by `TrainingHistory`.
        losses: [n] float32, the mean loss over the rows of each step.
        rows: [n] int64, the number of rows of each step.
        worker: The worker that made them; -1 for steps of all workers together.
        waited_s: The seconds that workers waited for data in these steps, summed over the workers.
    """

    first_step: int
    losses: npt.NDArray[np.float32] = field(repr=False)
    rows: npt.NDArray[np.int64] = field(repr=False)
    worker: int
    waited_s: float

    @property
    def num_steps(self) -> int:
        """The number of steps."""
        return len(self.losses)


class Callback:
    """Base class of callbacks: override any of its methods.

    A run calls `on_train_begin` first (except for `on_resume` and `on_waiting`), `on_train_end`
    last if training succeeds, and finally `on_close` in any case.

    Examples:
        >>> class PrintLoss(Callback):
        ...     def on_epoch_end(self, epoch, metrics):
        ...         print(epoch, metrics["loss"])
    """

    needs_epochs: bool = False
    """Whether steps pause during `on_epoch_end`, e.g. to read `run.values()`. If not, the end of an
    epoch is reported as soon as its rows are counted, while steps continue."""

    def on_waiting(self, text: str) -> None:
        """Called repeatedly before the first step with a text on what training is waiting for."""

    def on_resume(self, path: str, step: int, finished: bool) -> None:
        """Called before everything else if `checkpointDir` holds a checkpoint of this training.

        Args:
            path: The checkpoint.
            step: The number of steps up to it.
            finished: Whether nothing is left to train. In that case `fit` returns the model as it
                is, and only `on_close` is called after this.
        """

    def on_train_begin(self, run: RunControl) -> None:
        """Called when variables are initialized and all rows are known, before the first step."""

    def on_steps(self, update: Update) -> None:
        """Called several times a second, when steps were reported to the driver."""

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Called when an epoch has ended.

        Args:
            epoch: Its number, from 0.
            metrics: `loss`, the mean over the epoch's rows; if validation rows were evaluated at
                the end of the epoch, also `val_loss` and `val_<metric>`.
        """

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """Called when the validation rows were evaluated.

        Args:
            metrics: `step`, `loss` and the keys of `eval_metric_ops`.
        """

    def on_checkpoint(self, path: str) -> None:
        """Called when a checkpoint at this path is complete."""

    def on_restart(self, reason: str) -> None:
        """Called when training restarts after a loss, from the last checkpoint if there is one."""

    def on_train_end(self, history: TrainingHistory) -> None:
        """Called when training has succeeded and the values of the variables are on the driver."""

    def on_close(self) -> None:
        """Called once per `fit` at its end, successful or not: the place to close files."""


class Callbacks(Callback):
    """Several callbacks as one.

    Args:
        callbacks: The callbacks, in the order in which they are called.

    Raises:
        TypeError: One of them is not a Callback.
    """

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        if not isinstance(callbacks, Iterable):
            raise TypeError(f"callbacks must be a list of Callbacks, got {callbacks!r}")
        for each in callbacks:
            if not isinstance(each, Callback):
                raise TypeError(
                    f"callbacks must be instances of sparkflow.spark.Callback, got {each!r}"
                )
        self._all = tuple(callbacks)
        self.needs_epochs = any(each.needs_epochs for each in self._all)

    def __iter__(self) -> Iterator[Callback]:
        return iter(self._all)

    def on_waiting(self, text: str) -> None:
        """Calls all callbacks."""
        for each in self._all:
            each.on_waiting(text)

    def on_resume(self, path: str, step: int, finished: bool) -> None:
        """Calls all callbacks."""
        for each in self._all:
            each.on_resume(path, step, finished)

    def on_train_begin(self, run: RunControl) -> None:
        """Calls all callbacks."""
        for each in self._all:
            each.on_train_begin(run)

    def on_steps(self, update: Update) -> None:
        """Calls all callbacks."""
        for each in self._all:
            each.on_steps(update)

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Calls all callbacks."""
        for each in self._all:
            each.on_epoch_end(epoch, metrics)

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """Calls all callbacks."""
        for each in self._all:
            each.on_validation(metrics)

    def on_checkpoint(self, path: str) -> None:
        """Calls all callbacks."""
        for each in self._all:
            each.on_checkpoint(path)

    def on_restart(self, reason: str) -> None:
        """Calls all callbacks."""
        for each in self._all:
            each.on_restart(reason)

    def on_train_end(self, history: TrainingHistory) -> None:
        """Calls all callbacks."""
        for each in self._all:
            each.on_train_end(history)

    def on_close(self) -> None:
        """Calls all callbacks, even if one of them fails.

        Raises:
            Exception: The first failure, once all were called.
        """
        first: Exception | None = None
        for each in self._all:
            try:
                each.on_close()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
