"""`SparkTrainer`: a pyspark.ml Estimator that trains a `model_fn` inside Spark's executors."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyspark
from pyspark.ml import Estimator
from pyspark.sql import DataFrame

from sparkflow.export import InferenceModel
from sparkflow.spark.feed.feed import FeedPlan
from sparkflow.spark.graphs.inference import (
    InferenceGraph,
    build_inference_graph,
    require_same_variables,
)
from sparkflow.spark.graphs.model_fn import ModelFn, ModelInputs
from sparkflow.spark.graphs.training import TrainingGraph, TrainingMode, build_training_graph
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
from sparkflow.spark.rows.placement import place_rows
from sparkflow.spark.rows.prepare import PreparedRows, prepare_rows
from sparkflow.spark.run.callbacks import Callback, Callbacks, Update
from sparkflow.spark.run.training_run import TrainingPlan, TrainingRun, finish
from sparkflow.version import SPARKFLOW_VERSION
from sparkflow_runtime.security import new_token


class SparkTrainer(Estimator[SparkTrainerModel], TrainerParams):
    """Trains a network on the rows of a DataFrame, on parameter servers and workers in Spark tasks.

    Args:
        model_fn: `model_fn(features, labels, mode, params)` builds the network and returns a
            `tf.estimator.EstimatorSpec`: with loss and train_op in mode TRAIN, with predictions in
            mode PREDICT. features is [batch, dim] float32; labels is [batch], int64 where the label
            column holds integers, else float32, and None in mode PREDICT; params is
            `modelParams`. It may leave out all but the first. It is called on the driver only.
        callbacks: Are told on the driver how training goes, see `Callback`.
        **params: The parameters, see `docs/spark_trainer.md`; in camelCase or snake_case.

    Raises:
        TypeError: No callable, an unknown parameter, or one of a wrong type.
        ValueError: A parameter has a value that is not allowed.

    Example:
        >>> trainer = SparkTrainer(model_fn=model_fn, numWorkers=2, epochs=5)  # doctest: +SKIP
        >>> model = trainer.fit(df)  # doctest: +SKIP
        >>> model.transform(df).select("prediction")  # doctest: +SKIP
    """

    def __init__(
        self, *, model_fn: ModelFn, callbacks: Sequence[Callback] = (), **params: Any
    ) -> None:
        super().__init__()
        if not callable(model_fn):
            raise TypeError(f"model_fn must be a function, got {model_fn!r}")
        self.model_fn = model_fn
        self.callbacks = tuple(Callbacks(callbacks))
        self.setParams(**params)

    def _fit(self, dataset: DataFrame) -> SparkTrainerModel:
        """Trains, and blocks until it has; `docs/spark_trainer.md` says what is raised."""
        session = dataset.sparkSession
        require_classic_session(session)
        require_slots(session, Layout(self.getNumPs(), self.getNumWorkers()))
        with prepare_rows(dataset, self) as prepared:
            # A worker without rows would have nothing to do.
            layout = Layout(self.getNumPs(), min(self.getNumWorkers(), prepared.num_rows))
            training, inference = self._build(prepared, layout)
            return self._train(prepared, layout, training, inference)

    def _build(
        self, prepared: PreparedRows, layout: Layout
    ) -> tuple[TrainingGraph, InferenceGraph]:
        inputs = ModelInputs(prepared.format, self.getModelParams(), self.getSeed())
        mode = TrainingMode(self.getSyncMode())
        training = build_training_graph(self.model_fn, inputs, layout, mode)
        inference = build_inference_graph(self.model_fn, inputs)
        require_same_variables(training, inference)
        output_columns(inference.signature, self.prediction_columns())
        return training, inference

    def _train(
        self,
        prepared: PreparedRows,
        layout: Layout,
        training: TrainingGraph,
        inference: InferenceGraph,
    ) -> SparkTrainerModel:
        sync = self.getSyncMode() == "sync"
        dim = prepared.format.features[0].size
        steps_per_epoch = layout.steps_per_epoch(prepared.num_rows, self.getBatchSize())
        feed = FeedPlan(
            batch_size=self.getBatchSize(),
            epochs=self.getEpochs(),
            steps_per_epoch=steps_per_epoch if sync else 0,
            shuffle=self.getShuffle(),
            seed=self.getSeed(),
        )
        plan = TrainingPlan(
            layout=layout,
            rows=prepared.num_rows,
            graph=training,
            total_steps=steps_per_epoch * self.getEpochs() if sync else None,
            fetch=inference.variables,
            start_timeout_s=self.getStartTimeout(),
            epochs=self.getEpochs(),
            batch_size=self.getBatchSize(),
            params={p.name: v for p, v in self.extractParamMap().items()},
        )
        recorder = HistoryRecorder(prepared.num_rows, range(layout.num_workers), sync)
        history = recorder.history
        token = new_token()
        context: Any = prepared.rows.sparkSession.sparkContext
        host = context.getConf().get("spark.driver.host")
        with (
            ProgressBar(history, prepared.num_rows * self.getEpochs(), self.getProgress()) as bar,
            ScalarLog(history, self.getLogDir()) as scalars,
        ):
            callbacks = Callbacks((_Show(bar, scalars), *self.callbacks))
            run = TrainingRun(plan, token, recorder, callbacks)
            bind = context.getConf().get("spark.driver.bindAddress", host)
            server = RegistrationServer(layout.tasks, run.events.put, bind, token)
            job = BarrierJob(
                place_rows(prepared.rows, prepared.partition_rows, layout),
                JobConfig(f"{host}:{server.port}", token, layout, dim, feed),
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
                try:
                    finish(server, job, failed)
                finally:
                    callbacks.on_close()
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


class _Show(Callback):
    """Feeds the progress bar and the TensorBoard scalars."""

    def __init__(self, bar: ProgressBar, scalars: ScalarLog) -> None:
        self._bar = bar
        self._scalars = scalars

    def on_waiting(self, text: str) -> None:
        self._bar.say(text)

    def on_steps(self, update: Update) -> None:
        self._bar.update()
        self._scalars.update()


def _versions() -> dict[str, str]:
    return {
        "sparkflow": SPARKFLOW_VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyspark": pyspark.__version__,
    }
