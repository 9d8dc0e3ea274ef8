"""The history of a training: losses, rows, waiting, validation, restarts, in bounded space."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from sparkflow.spark.control.history.views import describe_history, draw_history
from sparkflow_runtime.errors import missing_package

if TYPE_CHECKING:
    import pandas

MAX_ENTRIES = 10_000
"""The maximum number of entries; beyond it neighbours are merged. Keeps a history below 1 MB."""


@dataclass(slots=True, repr=False)
class TrainingHistory:
    """The history of a training, in the order in which the driver learnt of it.

    In the modes in which workers proceed independently (`async`, `ssp`), a step is one of a single
    worker; in the others it is one of all workers, and its loss the mean over the rows of all.
    `loss`, `rows`, `worker` and `time` have an entry per step, or, in long trainings, one per
    `steps_per_entry` steps. The numbers per epoch are exact in either case.

    Attributes:
        loss: The mean loss over the rows of each entry.
        rows: The number of rows of each entry.
        worker: The worker of each entry; -1 for several.
        time: The seconds from the start of training until the driver learnt of each entry.
        steps: The number of steps that were made.
        untold_steps: The steps among these with an unknown loss: in `async` mode, those of a lost
            worker since its last report. The loss before them is used instead.
        repeated_steps: Steps applied to the variables in addition to `steps`, because a lost worker
            had already made them: 0 unless the parameter servers could not be asked for its steps.
        steps_per_entry: The number of steps per entry; the last entry may have fewer.
        rows_per_epoch: The number of rows of the training data.
        epoch_loss_sum: The sum of the losses of the rows of each epoch.
        epoch_rows: The number of rows of each epoch. Epochs are counted by rows: a step belongs to
            the epoch of its first row.
        epoch_time: The seconds at which each epoch ended.
        epoch_waited: The seconds that workers waited for data in each epoch, summed over workers.
        validation: For each evaluation a dictionary with `step`, `time`, `loss` and the metrics.
        restarts: For each restart a dictionary with `step`, `time`, `reason` and `undone_steps`:
            the number of steps since the last checkpoint that were discarded and repeated.
        checkpoints: A dictionary with `step`, `time` and `path` for each of the last checkpoints.
        stopped: Why training ended early; "" if it did not.
        best_step: The step whose values early stopping chose for the model; -1 if it chose none.
        resumed: The checkpoint in `checkpointDir` that `fit` resumed from: a dictionary with
            `path`, `step`, `finished` (whether nothing was left to do) and a description, `text`;
            None if training started anew.
        seconds: The seconds from the first step to the last.
        waited_seconds: The part of these that workers waited for data, summed over the workers.
        num_workers: The number of workers.
        resized: With elastic training, a dictionary for each change of the number of workers with
            `step`, `workers`, `before` and `pause_s`: the seconds without steps.
        tasks_started: How Spark started the tasks (in a barrier stage or not), and why.
        chosen: The parameters that the estimator has chosen from the rows, by name, and under
            `columns` how each column of a wide and deep estimator is treated.
    """

    loss: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    worker: list[int] = field(default_factory=list)
    time: list[float] = field(default_factory=list)
    steps: int = 0
    repeated_steps: int = 0
    untold_steps: int = 0
    steps_per_entry: int = 1
    rows_per_epoch: int = 0
    epoch_loss_sum: list[float] = field(default_factory=list)
    epoch_rows: list[int] = field(default_factory=list)
    epoch_time: list[float] = field(default_factory=list)
    epoch_waited: list[float] = field(default_factory=list)
    validation: list[dict[str, float]] = field(default_factory=list)
    restarts: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    stopped: str = ""
    best_step: int = -1
    resumed: dict[str, Any] | None = None
    seconds: float = 0.0
    waited_seconds: float = 0.0
    num_workers: int = 1
    resized: list[dict[str, Any]] = field(default_factory=list)
    tasks_started: str = ""
    chosen: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """A summary in one line, in the form of pyspark.ml's reprs."""
        return describe_history(self)

    def _repr_html_(self) -> str:
        """The summary and a table of the epochs, for notebooks."""
        return draw_history(self)

    @property
    def epoch_loss(self) -> list[float]:
        """The mean loss over each epoch's rows; the last epoch may be incomplete."""
        return [
            total / max(rows, 1)
            for total, rows in zip(self.epoch_loss_sum, self.epoch_rows, strict=True)
        ]

    @property
    def best(self) -> dict[str, Any] | None:
        """The evaluation whose values early stopping chose for the model; None if it chose none.

        Returns:
            `step`; `epoch`, the number of epochs completed by then; and `metrics`, those of the
            validation rows after that step, including `loss`.
        """
        if self.best_step < 0:
            return None
        entries = -(-self.best_step // self.steps_per_entry)
        epoch = sum(self.rows[:entries]) / max(self.rows_per_epoch, 1)
        found = [each for each in self.validation if each["step"] == self.best_step] or [{}]
        metrics = {name: v for name, v in found[-1].items() if name not in ("step", "time")}
        return {"step": self.best_step, "epoch": round(epoch, 3), "metrics": metrics}

    @property
    def epochs(self) -> float:
        """The number of epochs completed: the rows trained on, divided by the rows of the data."""
        return sum(self.epoch_rows) / max(self.rows_per_epoch, 1)

    @property
    def rows_per_second(self) -> float:
        """Rows trained on per second, summed over all workers; 0 if no time has passed."""
        return sum(self.epoch_rows) / self.seconds if self.seconds > 0 else 0.0

    @property
    def wait_share(self) -> float:
        """The fraction of the workers' time spent waiting for data, from 0 to 1."""
        return _share(self.waited_seconds, self.seconds * self.num_workers)

    @property
    def epoch_wait_share(self) -> list[float]:
        """The `wait_share` of each epoch."""
        starts = [0.0, *self.epoch_time]
        return [
            _share(waited, (end - start) * self.num_workers)
            for waited, start, end in zip(self.epoch_waited, starts, self.epoch_time, strict=False)
        ]

    @property
    def step(self) -> list[int]:
        """The number of the first step of each entry, from 0."""
        return [entry * self.steps_per_entry for entry in range(len(self.loss))]

    def to_dict(self) -> dict[str, Any]:
        """Returns all attributes, and `best`, as JSON values."""
        return {**asdict(self), "best": self.best}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingHistory:
        """Restores the result of `to_dict`, even of other versions; ignores unknown attributes."""
        known = {each.name for each in fields(cls)}
        # A copy: an attempt changes it, and the next one may start from the same values.
        kept = {name: value for name, value in values.items() if name in known}
        history = cls(**copy.deepcopy(kept))
        if "steps" not in values:  # written before 2026-11-22, with nothing thinned
            history.steps = len(history.loss)
            history.time = [0.0] * history.steps
            history.num_workers = max(history.worker, default=0) + 1
            done = 0
            for loss, rows in zip(history.loss, history.rows, strict=True):
                history.count_epoch(done, loss, rows, history.seconds, 0.0)
                done += rows
        return history

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the entries as a data frame.

        Returns:
            A frame with the columns step, epoch (rows before it over rows of an epoch), loss, rows,
            worker and time; `epochs_to_pandas` and `validation` have the rest.

        Raises:
            ImportError: pandas is not installed.
        """
        pandas = _pandas()
        frame = pandas.DataFrame(
            {
                "step": self.step,
                "epoch": [0.0] * len(self.loss),
                "loss": self.loss,
                "rows": self.rows,
                "worker": self.worker,
                "time": self.time,
            }
        )
        before = frame["rows"].cumsum() - frame["rows"]
        frame["epoch"] = before / max(self.rows_per_epoch, 1)
        return frame

    def epochs_to_pandas(self) -> pandas.DataFrame:
        """Returns the epochs as a data frame.

        Returns:
            A frame with the columns epoch (from 0), loss, rows, time, rows_per_second and
            wait_share, and `val_loss`, `val_<metric>` of the last evaluation within each epoch.

        Raises:
            ImportError: pandas is not installed.
        """
        pandas = _pandas()
        frame = pandas.DataFrame(
            {
                "epoch": range(len(self.epoch_rows)),
                "loss": self.epoch_loss,
                "rows": self.epoch_rows,
                "time": self.epoch_time,
            }
        )
        seconds = frame["time"].diff().fillna(frame["time"])
        frame["rows_per_second"] = frame["rows"] / seconds.where(seconds > 0)
        frame["wait_share"] = self.epoch_wait_share
        for metrics in self.validation:
            epoch = self._epoch_at(metrics["time"])
            for name, value in metrics.items():
                if name not in ("step", "time") and epoch < len(frame):
                    frame.loc[epoch, f"val_{name}"] = value
        return frame

    def plot(self, axes: Any = None) -> Any:
        """Plots the loss per step, per epoch and on the validation rows.

        Args:
            axes: matplotlib's Axes to draw on; a new figure if None.

        Returns:
            The Axes.

        Raises:
            ImportError: matplotlib is not installed.
        """
        from sparkflow.spark.control.history.plots import plot_loss

        return plot_loss(self, axes)

    def count_epoch(
        self, rows_before: int, loss: float, rows: int, time_s: float, waited_s: float
    ) -> None:
        """Adds a step to its epoch; for the code that records a history."""
        epoch = rows_before // max(self.rows_per_epoch, 1)
        # A step without rows opens no epoch.
        if epoch >= len(self.epoch_rows) and (rows or not self.epoch_rows):
            self.epoch_loss_sum.append(0.0)
            self.epoch_rows.append(0)
            self.epoch_time.append(time_s)
            self.epoch_waited.append(0.0)
        if rows:
            self.epoch_loss_sum[-1] += loss * rows
        self.epoch_rows[-1] += rows
        self.epoch_time[-1] = time_s
        self.epoch_waited[-1] += waited_s

    def _epoch_at(self, time_s: float) -> int:
        """Returns the last epoch that ended before this time, or the first."""
        ended = [epoch for epoch, end in enumerate(self.epoch_time) if end <= time_s]
        return ended[-1] if ended else 0


def _share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise missing_package("history.to_pandas()", "pandas", "spark") from error
    return pandas
