"""A run in TensorBoard's directory, written during training."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow.spark.control.callbacks import Callback, RunControl, Update
from sparkflow.spark.report.event_sinks import EventSink, open_sink
from sparkflow.spark.report.metrics_snapshot import SnapshotTracker
from sparkflow_runtime.protos.event_pb2 import Event, SessionLog
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.summary_pb2 import Summary, SummaryMetadata
from sparkflow_runtime.protos.types_pb2 import DT_STRING

if TYPE_CHECKING:
    from sparkflow.spark.control.history.training_history import TrainingHistory

# The maximum number of points per flush; TensorBoard shows a thousand in total.
_FLUSH_S = 1.0
_POINTS_PER_FLUSH = 50


class TensorBoardReporter(Callback):
    """Writes a run below a log directory: one folder for training, one for validation.

    `<directory>/<time>-<name>/train` gets the graph, the parameters, `loss`, `rows_per_second` and
    `wait_share` by step and `epoch_loss` by epoch; `.../validation` gets `loss` and the metrics by
    step, so that TensorBoard draws both losses in one chart.

    Args:
        directory: A local path, or a URI of a file system that pyarrow knows.
        name: The name of the run, which follows its time.
        graph_def: The graph that is trained; None for none.
        clock: Returns seconds.
        wall_clock: Returns seconds since the epoch, which TensorBoard shows.

    Raises:
        OSError: The directory cannot be written.
        ValueError: pyarrow does not know the file system.
    """

    def __init__(
        self,
        directory: str,
        name: str,
        graph_def: GraphDef | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._graph_def = graph_def
        self._run_directory = _run_directory(directory, name, wall_clock())
        self._train = open_sink(f"{self._run_directory}/train", wall_clock)
        self._validation: EventSink | None = None
        self._tracker = SnapshotTracker(clock)
        self._losses: list[tuple[int, float, int]] = []  # step, loss, rows; not written yet
        self._next = clock()
        self._step = 0

    @property
    def run_directory(self) -> str:
        """The directory of this run."""
        return self._run_directory

    def on_train_begin(self, run: RunControl) -> None:
        """Writes graph and parameters; at a restart makes TensorBoard drop the repeated steps."""
        self._tracker.on_train_begin(run)
        step = run.history.steps
        if self._step:
            for sink in self._sinks():
                log = SessionLog(status=SessionLog.START)
                sink.add(self._event(step, session_log=log))
        else:
            if self._graph_def is not None:
                self._train.add(self._event(0, graph_def=self._graph_def.SerializeToString()))
            self._train.add(self._event(0, summary=_text("parameters", _table(run.params))))
        self._step = step
        self._losses.clear()
        self._flush()

    def on_steps(self, update: Update) -> None:
        """Writes the losses, averaged over steps if there are many."""
        self._tracker.on_steps(update)
        steps = range(update.first_step, update.first_step + update.num_steps)
        self._losses += zip(steps, update.losses.tolist(), update.rows.tolist(), strict=True)
        self._step = update.first_step + update.num_steps
        if self._clock() >= self._next:
            self._write_losses()

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Writes the epoch's loss."""
        self._train.add(self._scalars(epoch, {"epoch_loss": metrics["loss"]}))

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """Writes the metrics."""
        if self._validation is None:
            self._validation = open_sink(f"{self._run_directory}/validation", self._wall_clock)
        step = int(metrics.get("step", self._step))
        values = {name: value for name, value in metrics.items() if name != "step"}
        self._validation.add(self._scalars(step, values))
        self._flush()

    def on_checkpoint(self, path: str) -> None:
        """Records the path."""
        log = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=path)
        self._train.add(self._event(self._step, session_log=log))

    def on_restart(self, reason: str) -> None:
        """Records the reason as text."""
        self._write_losses()
        self._train.add(self._event(self._step, summary=_text("restarts", reason)))

    def on_train_end(self, history: TrainingHistory) -> None:
        """Writes the remaining losses."""
        self._tracker.on_train_end(history)
        self._write_losses()

    def on_close(self) -> None:
        """Closes the files."""
        self._write_losses()
        for sink in self._sinks():
            sink.close()

    def _write_losses(self) -> None:
        if self._losses:
            size = -(-len(self._losses) // _POINTS_PER_FLUSH)
            for start in range(0, len(self._losses), size):
                steps, losses, rows = zip(*self._losses[start : start + size], strict=True)
                mean = float(np.average(losses, weights=rows)) if sum(rows) else losses[-1]
                self._train.add(self._scalars(steps[-1], {"loss": mean}))
            self._losses.clear()
            snapshot = self._tracker.snapshot()
            rates = {
                "rows_per_second": snapshot.rows_per_s,
                "wait_share": snapshot.wait_share,
            }
            self._train.add(self._scalars(self._step, rates))
        self._flush()

    def _flush(self) -> None:
        for sink in self._sinks():
            sink.flush()
        self._next = self._clock() + _FLUSH_S

    def _sinks(self) -> list[EventSink]:
        return [self._train] + ([self._validation] if self._validation is not None else [])

    def _event(self, step: int, **content: Any) -> Event:
        return Event(wall_time=self._wall_clock(), step=step, **content)

    def _scalars(self, step: int, values: Mapping[str, float]) -> Event:
        summary = Summary()
        for tag, value in values.items():
            summary.value.add(tag=tag, simple_value=float(value))
        return self._event(step, summary=summary)


def _run_directory(directory: str, name: str, now: float) -> str:
    """Returns a folder that no concurrent fit, in another thread or program, uses."""
    stem = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{name}"
    if directory.startswith("file:"):
        directory = directory.removeprefix("file://").removeprefix("file:")
    if "://" in directory:
        # Object stores have no folders to create; the nanoseconds distinguish runs.
        return f"{directory.rstrip('/')}/{stem}-{time.time_ns() % 10**9:09d}"
    for number in itertools.count(1):
        path = Path(directory) / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return str(path)
    raise AssertionError("itertools.count ended")


def _text(tag: str, text: str) -> Summary:
    """Returns a summary for TensorBoard's text page, with Markdown unchanged."""
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    summary = Summary()
    value = summary.value.add(tag=tag, metadata=metadata)
    value.tensor.dtype = DT_STRING
    value.tensor.string_val.append(text.encode())
    return summary


def _table(params: Mapping[str, Any]) -> str:
    lines = [f"| {name} | {json.dumps(params[name], default=str)} |" for name in sorted(params)]
    return "\n".join(["| parameter | value |", "|---|---|", *lines])
