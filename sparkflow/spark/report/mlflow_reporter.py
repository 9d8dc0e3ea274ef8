"""A fit as an MLflow run: parameters, rows, metrics by step, the model."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow.export import InferenceModel
from sparkflow.export.mlflow import log_model
from sparkflow.spark.control.callbacks import Callback, RunControl, Update
from sparkflow.spark.report.metrics_snapshot import SnapshotTracker
from sparkflow.spark.report.mlflow_dataset import TrainingRows, log_rows
from sparkflow.version import SPARKFLOW_VERSION
from sparkflow_runtime.errors import require_package

if TYPE_CHECKING:
    from sparkflow.spark.control.history.training_history import TrainingHistory

_FLUSH_S = 5.0
_POINTS_PER_FLUSH = 50
# MLflow's own limits.
_MAX_PARAM_LENGTH = 6000
_MAX_PARAMS = 100
_PARENT = "mlflow.parentRunId"


def require_mlflow() -> None:
    """Makes sure that MLflow is installed.

    Raises:
        ModuleNotFoundError: It is not.
    """
    require_package("mlflow=True", "mlflow", "mlflow", "leave mlflow=False")


class MlflowReporter(Callback):
    """Creates an MLflow run for a fit, as a child of the active run, if there is one.

    During the fit its run is the thread's active run, so callbacks log to it as well. MLflow's own
    threads send the metrics.

    Args:
        name: The name of the run.
        registered_model_name: The name of the model in the registry; "" not to register it.
        rows: The training rows.
        clock: Returns seconds.
    """

    def __init__(
        self,
        name: str,
        registered_model_name: str = "",
        rows: TrainingRows | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._registered_model_name = registered_model_name
        self._rows = rows
        self._clock = clock
        self._tracker = SnapshotTracker(clock)
        self._run_id = ""
        self._losses: list[tuple[int, float, int]] = []  # step, loss, rows; not sent yet
        self._sent: list[Any] = []
        self._next = clock()
        self._is_well = False

    @property
    def run_id(self) -> str:
        """The id of the run; "" before training starts."""
        return self._run_id

    def on_train_begin(self, run: RunControl) -> None:
        """Starts the run and logs the parameters; continues the run after a restart."""
        import mlflow

        self._tracker.on_train_begin(run)
        self._losses.clear()
        if self._run_id:
            return
        parent = _active_run_id()
        tags = {"sparkflow.version": SPARKFLOW_VERSION}
        experiment = None
        if parent is not None:
            tags[_PARENT] = parent
            experiment = mlflow.MlflowClient().get_run(parent).info.experiment_id
        started = mlflow.start_run(
            run_name=self._name, experiment_id=experiment, tags=tags, nested=True
        )
        self._run_id = started.info.run_id
        params = {name: _param(value) for name, value in run.params.items()}
        items = list(params.items())
        for start in range(0, len(items), _MAX_PARAMS):
            mlflow.log_params(dict(items[start : start + _MAX_PARAMS]))
        if self._rows is not None:
            log_rows(self._run_id, self._rows)

    def on_steps(self, update: Update) -> None:
        """Sends the losses periodically, averaged over steps if there are many."""
        self._tracker.on_steps(update)
        steps = range(update.first_step, update.first_step + update.num_steps)
        self._losses += zip(steps, update.losses.tolist(), update.rows.tolist(), strict=True)
        if self._clock() >= self._next:
            self._send_losses()

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Sends the epoch's loss."""
        self._send([("epoch_loss", metrics["loss"], epoch)])

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """Sends the metrics."""
        step = int(metrics.get("step", 0))
        self._send([(f"val_{name}", v, step) for name, v in metrics.items() if name != "step"])

    def on_restart(self, reason: str) -> None:
        """Counts the restart in a tag."""
        import mlflow

        self._tracker.on_restart(reason)
        if self._run_id:
            restarts = str(self._tracker.snapshot().restarts)
            mlflow.MlflowClient().set_tag(self._run_id, "sparkflow.restarts", restarts)

    def on_train_end(self, history: TrainingHistory) -> None:
        """Sends the remaining losses, and totals of the training."""
        self._tracker.on_train_end(history)
        self._send_losses()
        whole = {
            "training_seconds": history.seconds,
            "training_rows_per_second": history.rows_per_second,
            "training_wait_share": history.wait_share,
        }
        self._send([(name, value, history.steps) for name, value in whole.items()])
        self._is_well = True

    def on_close(self) -> None:
        """Ends the run when all metrics have been sent."""
        import mlflow

        if not self._run_id:
            return
        status = "FINISHED" if self._is_well else "FAILED"
        try:
            for sent in self._sent:
                sent.wait()
        finally:
            active = mlflow.active_run()
            if active is not None and active.info.run_id == self._run_id:
                mlflow.end_run(status)
            else:
                mlflow.MlflowClient().set_terminated(self._run_id, status)

    def log_model(self, model: InferenceModel) -> None:
        """Adds the model to the run, as `model`; after `on_close`."""
        import mlflow

        if not self._run_id:
            return
        with mlflow.start_run(run_id=self._run_id, nested=True):
            log_model(model, registered_model_name=self._registered_model_name or None)

    def _send_losses(self) -> None:
        if not self._losses:
            return
        found = []
        size = -(-len(self._losses) // _POINTS_PER_FLUSH)
        for start in range(0, len(self._losses), size):
            steps, losses, rows = zip(*self._losses[start : start + size], strict=True)
            mean = float(np.average(losses, weights=rows)) if sum(rows) else losses[-1]
            found.append(("loss", mean, steps[-1]))
        step = self._losses[-1][0]
        self._losses.clear()
        snapshot = self._tracker.snapshot()
        found.append(("rows_per_second", snapshot.rows_per_s, step))
        found.append(("wait_share", snapshot.wait_share, step))
        self._send(found)
        self._next = self._clock() + _FLUSH_S

    def _send(self, values: list[tuple[str, float, int]]) -> None:
        import mlflow
        from mlflow.entities import Metric

        if not self._run_id:
            return
        now_ms = int(time.time() * 1000)
        metrics = [Metric(name, float(value), now_ms, step) for name, value, step in values]
        client = mlflow.MlflowClient()
        self._sent.append(client.log_batch(self._run_id, metrics=metrics, synchronous=False))


def _active_run_id() -> str | None:
    """Returns the parent of a new run.

    Active runs are per thread, but CrossValidator fits in threads of a pool: if this thread has no
    run, the main thread's is used, or that of other threads if they all agree.
    """
    import mlflow
    from mlflow.tracking import fluent

    run = mlflow.active_run()
    if run is not None:
        return str(run.info.run_id)
    stacks: Any = getattr(fluent, "_active_run_stack", None)
    if hasattr(stacks, "get_all_thread_values"):
        active = {
            thread: stack for thread, stack in stacks.get_all_thread_values().items() if stack
        }
        main = active.get(threading.main_thread().ident)
        if main:
            return str(main[-1].info.run_id)
        # Runs of concurrent fits are children of the run that we look for.
        runs = [stack[0] for stack in active.values()]
        parents = {run.data.tags.get(_PARENT, run.info.run_id) for run in runs}
        if len(parents) == 1:
            return str(parents.pop())
    return os.environ.get("MLFLOW_RUN_ID")


def _param(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text[:_MAX_PARAM_LENGTH]
