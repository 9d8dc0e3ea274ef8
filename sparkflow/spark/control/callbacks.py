"""What users, and sparkflow's own reporters, hang on a training run: code on the driver.

All methods are called in the thread that called `fit`, one after another and in the order in which
the callbacks were given, so they need no locks; but the driver hears of nothing else while one
runs. What they raise ends training and comes out of `fit`.
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
        num_workers: Workers that train.
        num_ps: Tasks that only hold variables.
        sync: Whether all workers make their steps together.
        total_rows: Training rows of all epochs.
        rows_per_epoch: Training rows of an epoch.
        total_steps: Steps of the run: of all workers together where `sync`, else their sum.
        params: The trainer's parameters by name, as JSON can hold them.
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
        """Ends training well at the next step that all workers reach; `fit` returns a model."""

    def values(self) -> Mapping[str, npt.NDArray[Any]]:
        """The variables that predictions are made from, as they are now, by name.

        Slots of optimizers, the global step and what else only training has are in checkpoints.
        Costs their transfer. Between segments (in `on_epoch_end`, `on_validation`) no step is under
        way, so the values belong together; elsewhere they may come from different steps.
        """


@dataclass(frozen=True, slots=True)
class Update:
    """Some steps that the driver has just learnt of.

    Attributes:
        first_step: Number of the first, counted as `TrainingHistory` counts its steps.
        losses: [n] float32, per step the mean loss over its rows.
        rows: [n] int64, per step its rows.
        worker: Whose steps they are; -1 where they are of all workers together.
        waited_s: Seconds that the workers waited for data in these steps, summed over them.
    """

    first_step: int
    losses: npt.NDArray[np.float32] = field(repr=False)
    rows: npt.NDArray[np.int64] = field(repr=False)
    worker: int
    waited_s: float

    @property
    def num_steps(self) -> int:
        """How many steps."""
        return len(self.losses)


class Callback:
    """Base class of callbacks: override any of its methods.

    A run calls `on_train_begin` first (except for `on_resume` and `on_waiting`), `on_train_end`
    last if training succeeds, and `on_close` after everything else, in any case.

    Examples:
        >>> class PrintLoss(Callback):
        ...     def on_epoch_end(self, epoch, metrics):
        ...         print(epoch, metrics["loss"])
    """

    needs_epochs: bool = False
    """Whether no step may be running during `on_epoch_end`, e.g. to read `run.values()`. Without
    it, the end of an epoch is reported as soon as its rows are counted, while steps continue."""

    def on_waiting(self, text: str) -> None:
        """Called repeatedly before the first step with what is waited for."""

    def on_resume(self, path: str, step: int, finished: bool) -> None:
        """`checkpointDir` holds a checkpoint of this training; called before everything else.

        Args:
            path: The checkpoint.
            step: How many steps it has done.
            finished: Whether nothing is left to train. In that case `fit` returns
                the model as it is, and nothing but `on_close` is called any more.
        """

    def on_train_begin(self, run: RunControl) -> None:
        """Variables have their first values and all rows are known; steps begin next."""

    def on_steps(self, update: Update) -> None:
        """Steps were reported to the driver; called several times a second."""

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """An epoch has ended.

        Args:
            epoch: Its number, from 0.
            metrics: `loss`: the mean over the epoch's rows; where there are validation rows and
                they were evaluated at the end of it, also `val_loss` and `val_<metric>`.
        """

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """The validation rows were evaluated.

        Args:
            metrics: `step`, `loss` and the keys of `eval_metric_ops`.
        """

    def on_checkpoint(self, path: str) -> None:
        """A checkpoint is complete at this path."""

    def on_restart(self, reason: str) -> None:
        """Training was interrupted and starts again, from the last checkpoint if there is one."""

    def on_train_end(self, history: TrainingHistory) -> None:
        """Training has succeeded; the values of the variables are on the driver."""

    def on_close(self) -> None:
        """The run has ended, successfully or not: close files. Called once for each `fit`."""


class Callbacks(Callback):
    """Several callbacks as one.

    Args:
        callbacks: In the order in which they are called.

    Raises:
        TypeError: One is not a Callback.
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
        """Tells all."""
        for each in self._all:
            each.on_waiting(text)

    def on_resume(self, path: str, step: int, finished: bool) -> None:
        """Tells all."""
        for each in self._all:
            each.on_resume(path, step, finished)

    def on_train_begin(self, run: RunControl) -> None:
        """Tells all."""
        for each in self._all:
            each.on_train_begin(run)

    def on_steps(self, update: Update) -> None:
        """Tells all."""
        for each in self._all:
            each.on_steps(update)

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Tells all."""
        for each in self._all:
            each.on_epoch_end(epoch, metrics)

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """Tells all."""
        for each in self._all:
            each.on_validation(metrics)

    def on_checkpoint(self, path: str) -> None:
        """Tells all."""
        for each in self._all:
            each.on_checkpoint(path)

    def on_restart(self, reason: str) -> None:
        """Tells all."""
        for each in self._all:
            each.on_restart(reason)

    def on_train_end(self, history: TrainingHistory) -> None:
        """Tells all."""
        for each in self._all:
            each.on_train_end(history)

    def on_close(self) -> None:
        """Tells all, also when one of them fails.

        Raises:
            Exception: The first failure, once all have been told.
        """
        first: Exception | None = None
        for each in self._all:
            try:
                each.on_close()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
