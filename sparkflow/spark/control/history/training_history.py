"""What training was like: losses, rows, waiting, validation and restarts, in bounded space."""

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
"""Beyond these, neighbours become one: a history stays below a megabyte however long it is."""


@dataclass(slots=True, repr=False)
class TrainingHistory:
    """What the driver learnt of a training, in the order in which it learnt it.

    A step is one of each worker in the modes in which workers go on their own (`async`, `ssp`), and
    one of all workers in the others; its loss is then the mean over the rows of all. `loss`,
    `rows`, `worker` and `time` have an entry per step, or, in long trainings, one per
    `steps_per_entry` steps. The figures per epoch are exact all the same.

    Attributes:
        loss: Per entry the mean loss over its rows.
        rows: Per entry the number of rows.
        worker: Per entry the worker; -1 where it is of several.
        time: Per entry the seconds since training began at which the driver knew of it.
        steps: The number of steps that were made.
        untold_steps: Of these, those whose loss nobody knows: in `async` mode, what a lost worker
            had made since it told of its steps last. The loss before stands for theirs.
        repeated_steps: Steps that variables have seen beyond `steps`, because a lost worker had
            made them before: none, unless parameter servers could not be asked what it had made.
        steps_per_entry: Steps that an entry stands for, the last one perhaps for fewer.
        rows_per_epoch: Rows of the training data.
        epoch_loss_sum: Per epoch the sum of the losses of its rows.
        epoch_rows: Per epoch its rows. Epochs are counted by rows: a step belongs to the one that
            its first row is of.
        epoch_time: Per epoch the seconds at which it ended.
        epoch_waited: Per epoch the seconds that workers waited for data, summed over them.
        validation: Per evaluation a dictionary with `step`, `time`, `loss` and the metrics.
        restarts: Per restart a dictionary with `step`, `time`, `reason` and `undone_steps`: how
            many steps since the last checkpoint were given up, with all they had learnt, and made
            again.
        checkpoints: A dictionary with `step`, `time` and `path` for each of the last checkpoints.
        stopped: Why training ended before its epochs did; "" if it did not.
        best_step: The step whose values the model has, where early stopping chose them; -1 if not.
        resumed: What `fit` found in `checkpointDir` and went on from: a dictionary with `path`,
            `step`, `finished` (whether there was nothing left to do) and `text`, which says it in
            words; None where it began anew.
        seconds: From the first step to the last.
        waited_seconds: Of these, what workers spent waiting for data, summed over the workers.
        num_workers: The workers that trained.
        resized: Where the number of workers may change, a dictionary for each change with `step`,
            `workers`, `before` and `pause_s`: the seconds without steps.
        tasks_started: How Spark started the tasks (in a barrier stage or not), and why so.
        chosen: What the estimator has chosen by the rows, where nobody has said it: parameters by
            name, and under `columns` how each column of a wide and deep one is treated.
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
        """What there is to say in one line, as pyspark.ml's reprs have it."""
        return describe_history(self)

    def _repr_html_(self) -> str:
        """The same and a table of the epochs, for notebooks."""
        return draw_history(self)

    @property
    def epoch_loss(self) -> list[float]:
        """The mean loss over each epoch's rows; the last epoch may be under way."""
        return [
            total / max(rows, 1)
            for total, rows in zip(self.epoch_loss_sum, self.epoch_rows, strict=True)
        ]

    @property
    def best(self) -> dict[str, Any] | None:
        """What the model is that early stopping has chosen; None where it has not.

        Returns:
            `step`; `epoch`, how many epochs were done by then; and `metrics`, what the validation
            rows gave after that step, `loss` among them.
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
        """Epochs done, as rows trained on over rows of the data."""
        return sum(self.epoch_rows) / max(self.rows_per_epoch, 1)

    @property
    def rows_per_second(self) -> float:
        """Rows trained on per second, of all workers together; 0 where no time has passed."""
        return sum(self.epoch_rows) / self.seconds if self.seconds > 0 else 0.0

    @property
    def wait_share(self) -> float:
        """The share of the workers' time that they spent waiting for data, from 0 to 1."""
        return _share(self.waited_seconds, self.seconds * self.num_workers)

    @property
    def epoch_wait_share(self) -> list[float]:
        """`wait_share` of each epoch."""
        starts = [0.0, *self.epoch_time]
        return [
            _share(waited, (end - start) * self.num_workers)
            for waited, start, end in zip(self.epoch_waited, starts, self.epoch_time, strict=False)
        ]

    @property
    def step(self) -> list[int]:
        """Per entry the number of its first step, from 0."""
        return [entry * self.steps_per_entry for entry in range(len(self.loss))]

    def to_dict(self) -> dict[str, Any]:
        """All attributes, and `best`, as JSON values."""
        return {**asdict(self), "best": self.best}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingHistory:
        """What `to_dict` returned, also in other versions: what is unknown is left out."""
        known = {each.name for each in fields(cls)}
        # A copy: an attempt goes on with it, and the next one may begin with the same values.
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
        """The entries as a data frame.

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
        """The epochs as a data frame.

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
        """Draws the loss per step, per epoch and of the validation rows.

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
        """Adds a step to its epoch; for those who make a history."""
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
        """The epoch that ended last before this time, or is the first."""
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
