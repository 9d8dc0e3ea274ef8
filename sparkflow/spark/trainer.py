"""`SparkTrainer`: a pyspark.ml Estimator that trains a `model_fn` inside Spark's executors."""

from __future__ import annotations

import contextlib
import json
import platform
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyspark
from pyspark.ml import Estimator
from pyspark.sql import DataFrame

from sparkflow.export import InferenceModel
from sparkflow.spark.estimators.multiple import fit_multiple
from sparkflow.spark.feed.plan import FeedPlan
from sparkflow.spark.graphs.inference import (
    InferenceGraph,
    build_inference_graph,
    require_same_variables,
)
from sparkflow.spark.graphs.model_fn import ModelFn, ModelInputs
from sparkflow.spark.graphs.training import TrainingGraph, TrainingMode, build_training_graph
from sparkflow.spark.job.cluster import Cluster, ClusterPlan
from sparkflow.spark.job.failures import is_restartable
from sparkflow.spark.job.layout import Layout
from sparkflow.spark.job.slots import (
    gpu_memory_bytes,
    require_classic_session,
    require_slots,
    reserved_slots,
)
from sparkflow.spark.job.worker_callbacks import WorkerCallback, require_callbacks
from sparkflow.spark.model.inference import output_columns
from sparkflow.spark.model.trainer_model import SparkTrainerModel
from sparkflow.spark.params.trainer import TrainerParams
from sparkflow.spark.report.history import TrainingHistory
from sparkflow.spark.report.recorder import HistoryRecorder
from sparkflow.spark.report.reporters import Reporters
from sparkflow.spark.rows.placement import place_rows
from sparkflow.spark.rows.prepare import PreparedRows, prepare_rows
from sparkflow.spark.run.callbacks import Callback, Callbacks
from sparkflow.spark.run.supervisor import Supervisor
from sparkflow.spark.run.training_run import TrainingPlan, TrainingRun
from sparkflow.version import SPARKFLOW_VERSION
from sparkflow_runtime.security import new_token


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Rows on their way to the workers: what several trainings can share.

    Attributes:
        prepared: The rows that are trained on.
        layout: The tasks.
        placed: The rows in one partition per task.
        facts: What `look_at` of the estimator said of them.
    """

    prepared: PreparedRows
    layout: Layout
    placed: DataFrame
    facts: Any


class BaseTrainer(Estimator[SparkTrainerModel], TrainerParams):
    """What all estimators share: a subclass says which network is trained, and what comes out.

    Args:
        callbacks: Are told on the driver how training goes, see `Callback`.
        workerCallbacks: Functions of a `WorkerEvent`, called in the Spark tasks of the workers.
        **params: The parameters; in camelCase or snake_case.
    """

    def __init__(
        self,
        *,
        callbacks: Sequence[Callback] = (),
        workerCallbacks: Sequence[WorkerCallback] = (),
        **params: Any,
    ) -> None:
        super().__init__()
        self.callbacks = tuple(Callbacks(callbacks))
        self.worker_callbacks = require_callbacks(workerCallbacks)
        self.setParams(**params)

    @abstractmethod
    def model_fn_for(self, data: TrainingData) -> ModelFn:
        """The model_fn that is trained on these data."""

    def look_at(self, prepared: PreparedRows) -> Any:
        """What `model_fn_for` has to know of the rows; may run a Spark job."""
        return None

    def new_model(
        self, inference_model: InferenceModel, history: TrainingHistory
    ) -> SparkTrainerModel:
        """The model that `fit` returns; uid and parameters are given to it afterwards."""
        return SparkTrainerModel(inference_model, history)

    def fitMultiple(
        self, dataset: DataFrame, paramMaps: Sequence[Any]
    ) -> Iterator[tuple[int, SparkTrainerModel]]:
        """Models for several parameter maps, over rows that are prepared and placed once.

        Returns:
            A thread-safe iterator of (index, model), see `estimators.multiple`.
        """
        return fit_multiple(self, dataset, paramMaps)

    def _fit(self, dataset: DataFrame) -> SparkTrainerModel:
        """Trains, and blocks until it has; `docs/spark_trainer.md` says what is raised."""
        with self.training_data(dataset) as data:
            return self.fit_data(data)

    @contextlib.contextmanager
    def training_data(self, dataset: DataFrame) -> Iterator[TrainingData]:
        """The rows checked, prepared and placed, for as long as the `with` block lasts."""
        session = dataset.sparkSession
        require_classic_session(session)
        require_slots(session, Layout.of(self.getNumPs(), self.getNumWorkers(), self.getSyncMode()))
        with prepare_rows(dataset, self) as prepared:
            # A worker without rows would have nothing to do.
            workers = min(self.getNumWorkers(), prepared.num_rows)
            layout = Layout.of(self.getNumPs(), workers, self.getSyncMode())
            placed = place_rows(prepared, layout, self.getSeed(), by_content=False).df
            yield TrainingData(prepared, layout, placed, self.look_at(prepared))

    def fit_data(self, data: TrainingData) -> SparkTrainerModel:
        """Trains on rows that `training_data` gave, of this estimator or one that agrees."""
        training, inference = self._build(data)
        return self._train(data, training, inference)

    def _build(self, data: TrainingData) -> tuple[TrainingGraph, InferenceGraph]:
        model_fn = self.model_fn_for(data)
        inputs = ModelInputs(data.prepared.format, self.getModelParams(), self.getSeed())
        mode = TrainingMode(self.getSyncMode())
        training = build_training_graph(model_fn, inputs, data.layout, mode)
        inference = build_inference_graph(model_fn, inputs)
        require_same_variables(training, inference)
        output_columns(inference.signature, self.prediction_columns())
        return training, inference

    def _train(
        self, data: TrainingData, training: TrainingGraph, inference: InferenceGraph
    ) -> SparkTrainerModel:
        prepared, layout = data.prepared, data.layout
        sync = self.getSyncMode() == "sync"
        steps_per_epoch = layout.steps_per_epoch(prepared.num_rows, self.getBatchSize())
        feed = FeedPlan(
            row_format=prepared.format,
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
        session = prepared.rows.sparkSession
        name = f"sparkflow-{self.uid}-{token[:8]}"
        reporters = Reporters(self, session, name, training.graph_def)
        callbacks = Callbacks((*reporters.callbacks, *self.callbacks))
        cluster = Cluster(
            ClusterPlan(
                rows=data.placed,
                layout=layout,
                row_format=prepared.format,
                name=name,
                description=f"{self.uid}: {layout.num_workers} workers, {layout.num_ps} "
                f"parameter servers, {self.getSyncMode()}",
                token=token,
                shows_logs=self.getWorkerLogs(),
                callbacks=self.worker_callbacks,
                gpu_memory_bytes=gpu_memory_bytes(prepared.rows.sparkSession),
            )
        )

        def attempt(number: int) -> Mapping[str, Any]:
            run = TrainingRun(plan, token, recorder, callbacks)
            server, job = cluster.begin_attempt(run.events.put, json.dumps(feed.to_json()))
            return run.run(server, job)

        supervisor = Supervisor(
            attempt, self.getMaxRestarts(), is_restartable, callbacks.on_restart
        )
        try:
            with (
                reserved_slots(session, layout, callbacks.on_waiting),
                contextlib.closing(cluster),
            ):
                values = supervisor.run()
                cluster.end()
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
        reporters.log_model(inference_model)
        model = self.new_model(inference_model, history)
        model._resetUid(self.uid)
        own = {param.name for param in model.params}
        model._set(**{p.name: v for p, v in self._paramMap.items() if p.name in own})
        return model


class SparkTrainer(BaseTrainer):
    """Trains a network on the rows of a DataFrame, on parameter servers and workers in Spark tasks.

    Args:
        model_fn: `model_fn(features, labels, mode, params)` builds the network and returns a
            `tf.estimator.EstimatorSpec`: with loss and train_op in mode TRAIN, with predictions in
            mode PREDICT. features is [batch, dim] float32; labels is [batch], int64 where the label
            column holds integers, else float32, and None in mode PREDICT; params is
            `modelParams`. It may leave out all but the first. It is called on the driver only.
        callbacks: Are told on the driver how training goes, see `Callback`.
        workerCallbacks: Functions of a `WorkerEvent`, called in the Spark tasks of the workers.
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
        self,
        *,
        model_fn: ModelFn,
        callbacks: Sequence[Callback] = (),
        workerCallbacks: Sequence[WorkerCallback] = (),
        **params: Any,
    ) -> None:
        if not callable(model_fn):
            raise TypeError(f"model_fn must be a function, got {model_fn!r}")
        super().__init__(callbacks=callbacks, workerCallbacks=workerCallbacks, **params)
        self.model_fn = model_fn

    def model_fn_for(self, data: TrainingData) -> ModelFn:
        """The user's model_fn."""
        return self.model_fn


def _versions() -> dict[str, str]:
    return {
        "sparkflow": SPARKFLOW_VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyspark": pyspark.__version__,
    }
