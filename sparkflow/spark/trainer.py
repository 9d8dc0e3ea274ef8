"""`SparkTrainer`: a pyspark.ml Estimator that trains a `model_fn` inside Spark's executors."""

from __future__ import annotations

import contextlib
import logging
import platform
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyspark
from pyspark import StorageLevel
from pyspark.ml import Estimator
from pyspark.sql import DataFrame

from sparkflow.export import InferenceModel
from sparkflow.spark.feed.feed import FeedPlan
from sparkflow.spark.graphs.replica import (
    InferenceGraph,
    ModelFn,
    ModelInputs,
    TrainingGraph,
    build_inference_graph,
    build_training_graph,
    require_same_variables,
)
from sparkflow.spark.job.barrier_job import BarrierJob
from sparkflow.spark.job.layout import Layout
from sparkflow.spark.job.registration import RegistrationServer
from sparkflow.spark.job.slots import require_classic_session, require_slots
from sparkflow.spark.job.task import JobConfig
from sparkflow.spark.model.inference import output_columns
from sparkflow.spark.model.trainer_model import SparkTrainerModel
from sparkflow.spark.params.trainer import TrainerParams
from sparkflow.spark.report.history import HistoryRecorder
from sparkflow.spark.report.progress import ProgressBar, ScalarLog
from sparkflow.spark.rows.columns import LabelColumn, find_features, find_label, select_rows
from sparkflow.spark.rows.placement import place_rows
from sparkflow.spark.rows.profile import RowProfile, profile_rows
from sparkflow.spark.run.training_run import TrainingPlan, TrainingRun, finish
from sparkflow.version import SPARKFLOW_VERSION
from sparkflow_runtime import dtypes
from sparkflow_runtime.security import new_token

_log = logging.getLogger(__name__)


class SparkTrainer(Estimator[SparkTrainerModel], TrainerParams):
    """Trains a network on the rows of a DataFrame, on parameter servers and workers in Spark tasks.

    Args:
        model_fn: `model_fn(features, labels, mode, params)` builds the network and returns a
            `tf.estimator.EstimatorSpec`: with loss and train_op in mode TRAIN, with predictions in
            mode PREDICT. features is [batch, dim] float32; labels is [batch], int64 where the label
            column holds integers, else float32, and None in mode PREDICT; params is
            `modelParams`. It may leave out all but the first. It is called on the driver only.
        **params: The parameters, see `docs/spark_trainer.md`; in camelCase or snake_case.

    Raises:
        TypeError: No callable, an unknown parameter, or one of a wrong type.
        ValueError: A parameter has a value that is not allowed.

    Example:
        >>> trainer = SparkTrainer(model_fn=model_fn, numWorkers=2, epochs=5)  # doctest: +SKIP
        >>> model = trainer.fit(df)  # doctest: +SKIP
        >>> model.transform(df).select("prediction")  # doctest: +SKIP
    """

    def __init__(self, *, model_fn: ModelFn, **params: Any) -> None:
        super().__init__()
        if not callable(model_fn):
            raise TypeError(f"model_fn must be a function, got {model_fn!r}")
        self.model_fn = model_fn
        self.setParams(**params)

    def _fit(self, dataset: DataFrame) -> SparkTrainerModel:
        """Trains, and blocks until it has; `docs/spark_trainer.md` says what is raised."""
        session = dataset.sparkSession
        require_classic_session(session)
        features = find_features(dataset.schema, self.getFeaturesCol())
        label = find_label(dataset.schema, self.getLabelCol())
        require_slots(session, Layout(self.getNumPs(), self.getNumWorkers()))
        with _cached(dataset, select_rows(dataset, features, label)) as rows:
            started = time.monotonic()
            profile = profile_rows(rows, features, label)
            _log.info("looked at %d rows in %.1f s", profile.rows, time.monotonic() - started)
            # A worker without rows would have nothing to do.
            layout = Layout(self.getNumPs(), min(self.getNumWorkers(), profile.rows))
            training, inference = self._build(profile, label, layout)
            return self._train(rows, profile, layout, training, inference)

    def _build(
        self, profile: RowProfile, label: LabelColumn, layout: Layout
    ) -> tuple[TrainingGraph, InferenceGraph]:
        inputs = ModelInputs(
            dim=profile.dim,
            label_dtype=dtypes.int64 if label.is_integer else dtypes.float32,
            params=self.getModelParams(),
            seed=self.getSeed(),
        )
        sync = self.getSyncMode() == "sync"
        training = build_training_graph(self.model_fn, inputs, layout.num_ps, sync)
        inference = build_inference_graph(self.model_fn, inputs)
        require_same_variables(training, inference)
        output_columns(inference.signature, self.prediction_columns())
        return training, inference

    def _train(
        self,
        rows: DataFrame,
        profile: RowProfile,
        layout: Layout,
        training: TrainingGraph,
        inference: InferenceGraph,
    ) -> SparkTrainerModel:
        sync = self.getSyncMode() == "sync"
        steps_per_epoch = layout.steps_per_epoch(profile.rows, self.getBatchSize())
        feed = FeedPlan(
            batch_size=self.getBatchSize(),
            epochs=self.getEpochs(),
            steps_per_epoch=steps_per_epoch if sync else 0,
            shuffle=self.getShuffle(),
            seed=self.getSeed(),
        )
        plan = TrainingPlan(
            layout=layout,
            rows=profile.rows,
            graph=training,
            total_steps=steps_per_epoch * self.getEpochs() if sync else None,
            fetch=inference.variables,
            start_timeout_s=self.getStartTimeout(),
        )
        recorder = HistoryRecorder(profile.rows, range(layout.num_workers), sync)
        history = recorder.history
        token = new_token()
        context: Any = rows.sparkSession.sparkContext
        host = context.getConf().get("spark.driver.host")
        with (
            ProgressBar(history, profile.rows * self.getEpochs(), self.getProgress()) as bar,
            ScalarLog(history, self.getLogDir()) as scalars,
        ):
            run = TrainingRun(plan, token, recorder, _show_on(bar, scalars))
            bind = context.getConf().get("spark.driver.bindAddress", host)
            server = RegistrationServer(layout.tasks, run.events.put, bind, token)
            job = BarrierJob(
                place_rows(rows, profile.partition_rows, layout),
                JobConfig(f"{host}:{server.port}", token, layout, profile.dim, feed),
                group=f"sparkflow-{self.uid}-{token[:8]}",
                description=f"{self.uid}: {layout.num_workers} workers, {layout.num_ps} parameter "
                f"servers, {self.getSyncMode()}",
                post=run.events.put,
            )
            failed = True
            try:
                values = run.run(server, job)
                failed = False
            finally:
                finish(server, job, failed)
        inference_model = InferenceModel.build(
            inference.graph_def,
            values,
            inference.signature,
            {
                "uid": self.uid,
                "params": {p.name: v for p, v in self.extractParamMap().items()},
                "history": history.to_dict(),
                "versions": _versions(),
            },
        )
        model = SparkTrainerModel(inference_model, history)
        model._resetUid(self.uid)
        own = {param.name for param in model.params}
        model._set(**{p.name: v for p, v in self._paramMap.items() if p.name in own})
        return model


@contextlib.contextmanager
def _cached(dataset: DataFrame, rows: DataFrame) -> Iterator[DataFrame]:
    """The rows, cached unless the DataFrame is, so that two passes cost one and agree."""
    level = dataset.storageLevel
    if level.useMemory or level.useDisk or level.useOffHeap:
        yield rows
        return
    rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield rows
    finally:
        rows.unpersist()


def _show_on(bar: ProgressBar, scalars: ScalarLog) -> Callable[[str | None], None]:
    def show(text: str | None) -> None:
        if text is not None:
            bar.say(text)
        else:
            bar.update()
            scalars.update()

    return show


def _versions() -> dict[str, str]:
    return {
        "sparkflow": SPARKFLOW_VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyspark": pyspark.__version__,
    }
