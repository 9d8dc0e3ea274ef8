"""The reporters that a trainer's parameters request."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from sparkflow.export import InferenceModel
from sparkflow.spark.control.callbacks import Callback
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.report.displays import choose_display
from sparkflow.spark.report.guarded import Guarded
from sparkflow.spark.report.live import LiveReporter
from sparkflow.spark.report.mlflow_dataset import TrainingRows
from sparkflow.spark.report.mlflow_reporter import MlflowReporter, require_mlflow
from sparkflow.spark.report.spark_ui import JobDescriptionDisplay
from sparkflow.spark.report.tensorboard import TensorBoardReporter
from sparkflow_runtime.protos.graph_pb2 import GraphDef

_log = logging.getLogger(__name__)


class Reporters:
    """The reporters of one fit.

    None of them ends a running training; foreseeable failures are raised here, before it starts.

    Args:
        config: The configuration; `progress`, `log_dir` and `mlflow` select the reporters.
        uid: The uid of the estimator.
        session: The session whose UI shows the training.
        job_tag: The tag of the training's Spark jobs.
        graph_def: The graph for TensorBoard.
        rows: The training rows, for MLflow.

    Attributes:
        callbacks: The reporters, in the order in which they are called.

    Raises:
        ImportError: `mlflow` is requested and not installed.
        OSError: `logDir` cannot be written.
        ValueError: `logDir` is on a file system that pyarrow does not know.
    """

    def __init__(
        self,
        config: FitConfig,
        uid: str,
        session: SparkSession,
        job_tag: str,
        graph_def: GraphDef | None = None,
        rows: TrainingRows | None = None,
    ) -> None:
        self.callbacks: list[Callback] = []
        self._mlflow: MlflowReporter | None = None
        if config.mlflow:
            require_mlflow()
            self._mlflow = MlflowReporter(uid, config.registered_model_name, rows)
            self.callbacks.append(Guarded(self._mlflow, "MLflow"))
        if config.log_dir:
            board = _tensorboard(config.log_dir, uid, graph_def)
            _log.info("TensorBoard: %s", board.run_directory)
            self.callbacks.append(Guarded(board, f"TensorBoard in {board.run_directory}"))
        # Spark's UI truncates descriptions; the uid is in the job's tag and usually in its group.
        description = _job_description(session, job_tag, uid.rsplit("_", 1)[0])
        if description is not None:
            self.callbacks.append(LiveReporter(description))
        if config.progress:
            self.callbacks.append(LiveReporter(choose_display(uid)))

    def log_model(self, model: InferenceModel) -> None:
        """Passes the trained model to the reporters that store it; after `on_close`."""
        if self._mlflow is not None:
            try:
                self._mlflow.log_model(model)
            except Exception as error:  # the model is returned even if it cannot be logged
                _log.warning("MLflow has no model of this run: %r", error)


def _tensorboard(directory: str, uid: str, graph_def: GraphDef | None) -> TensorBoardReporter:
    try:
        return TensorBoardReporter(directory, uid, graph_def)
    except (OSError, ValueError) as error:
        raise type(error)(f"logDir={directory!r} cannot be written: {error}") from error


def _job_description(
    session: SparkSession, job_tag: str, title: str
) -> JobDescriptionDisplay | None:
    try:
        return JobDescriptionDisplay(session, job_tag, title)
    except Exception as error:  # Spark Connect has no JVM here; others deny access
        _log.info("Spark's UI is not told how training goes: %r", error)
        return None
