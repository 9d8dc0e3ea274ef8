"""`SparkTrainer`: a pyspark.ml Estimator that trains a `model_fn` inside Spark's executors."""

from __future__ import annotations

import contextlib
import os
import platform
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyspark
from pyspark.ml import Estimator
from pyspark.ml.util import DefaultParamsWritable, MLReadable, MLReader
from pyspark.sql import DataFrame, SparkSession

from sparkflow.export import InferenceModel
from sparkflow.spark.cluster.worker_callbacks import WorkerCallback, require_callbacks
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.control.callbacks import Callback, Callbacks
from sparkflow.spark.control.checkpoints.fingerprint import Fingerprint, RowsPrint
from sparkflow.spark.control.checkpoints.snapshot import Snapshot
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.data.parquet.footers import ParquetFiles
from sparkflow.spark.data.plan.arrange import ArrangedRows, arranged_rows
from sparkflow.spark.data.plan.examples import example_rows
from sparkflow.spark.data.plan.parquet_rows import parquet_rows
from sparkflow.spark.data.plan.prepare import PreparedRows, Statistics
from sparkflow.spark.data.schema.frame import require_frame
from sparkflow.spark.errors import interrupts_kept
from sparkflow.spark.fit_multiple import fit_multiple
from sparkflow.spark.graphs.digest import GraphDigest
from sparkflow.spark.graphs.evaluation import build_evaluation_graph
from sparkflow.spark.graphs.inference_graph import (
    InferenceGraph,
    build_inference_graph,
    require_same_variables,
)
from sparkflow.spark.graphs.model_fn import (
    GIVEN,
    ModelFn,
    ModelInputs,
    require_callable,
    takes,
)
from sparkflow.spark.graphs.training_graph import build_training_graph
from sparkflow.spark.job_names import described
from sparkflow.spark.launch.backends import backend_for
from sparkflow.spark.launch.training import Training, TrainingData
from sparkflow.spark.model.outputs import output_columns
from sparkflow.spark.model.trainer_model import SparkTrainerModel
from sparkflow.spark.params.checks import check_metric, check_params
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.identity import changed_rows, deciding, placement, row_rule
from sparkflow.spark.params.trainer_params import TrainerParams
from sparkflow.spark.report.mlflow_dataset import TrainingRows
from sparkflow.spark.report.reporters import Reporters
from sparkflow.spark.unsaved import TrainerReader
from sparkflow.version import SPARKFLOW_VERSION


class BaseTrainer(Estimator[SparkTrainerModel], TrainerParams):
    """The base of all estimators: a subclass defines the network and the resulting model.

    Args:
        callbacks: Called on the driver during training, see `Callback`.
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
        # The snapshot of another training to start from; set by `streaming`.
        self.start_snapshot: Snapshot | None = None
        # What `look_at` found in the first rows of that training; set by `streaming`.
        self.start_facts: Any = None
        # Whether more rows of a stream will follow; set by `streaming`.
        self.continues = False
        # The number of workers that there are slots for; None to ask Spark. Set by tests.
        self.count_workers: Callable[[], int] | None = None
        # The choices of `decided`, for the history.
        self.chosen: dict[str, Any] = {}
        self.setParams(**params)

    @abstractmethod
    def model_fn_for(self, data: TrainingData) -> ModelFn:
        """Returns the model_fn to train on these data."""

    def statistics(self) -> Statistics | None:
        """The aggregates that `look_at` needs from reading the rows; None for none."""
        return None

    def look_at(self, prepared: PreparedRows) -> Any:
        """Computes what `model_fn_for` needs to know about the rows; may run a Spark job."""
        return None

    def facts_to_json(self, facts: Any) -> Mapping[str, Any] | None:
        """Returns what `look_at` found as values for JSON, if later trainings are to keep it."""
        return None

    def facts_from_json(self, value: Mapping[str, Any]) -> Any:
        """Reads what `facts_to_json` returned, for `start_facts`."""
        return None

    def new_model(
        self, inference_model: InferenceModel, history: TrainingHistory
    ) -> SparkTrainerModel:
        """Creates the model that `fit` returns; uid and parameters are set on it afterwards."""
        return SparkTrainerModel(inference_model, history)

    def fitMultiple(
        self, dataset: DataFrame, paramMaps: Sequence[Any]
    ) -> Iterator[tuple[int, SparkTrainerModel]]:
        """Trains models for several parameter maps, on rows that are prepared and placed once.

        Returns:
            A thread-safe iterator of (index, model), see `fit_multiple`.
        """
        require_frame(dataset, "fitMultiple")
        return fit_multiple(self, dataset, paramMaps)

    @interrupts_kept()
    def fit(
        self, dataset: DataFrame, params: Any = None, *, validation: DataFrame | None = None
    ) -> Any:
        """Trains on the rows of a DataFrame; blocks until training has ended.

        Args:
            dataset: The rows.
            params: A dictionary from Param to the value to use instead of this trainer's, or a list
                of these, which returns a list of models.
            validation: Validation rows, with the same columns.
        """
        require_frame(dataset, "fit")
        if validation is None:
            return super().fit(dataset, params)
        require_frame(validation, "fit (validation)")
        if isinstance(params, list | tuple):
            found = dict(fit_multiple(self, dataset, params, validation))
            return [found[index] for index in range(len(params))]
        trainer = self.copy(params) if params else self
        with trainer.training_data(dataset, validation) as data:
            return trainer.fit_data(data)

    def _fit(self, dataset: DataFrame) -> SparkTrainerModel:
        """Trains and blocks until training ends; `docs/spark_trainer.md` lists the errors."""
        with self.training_data(dataset) as data:
            return self.fit_data(data)

    @contextlib.contextmanager
    def training_data(
        self, dataset: DataFrame, validation: DataFrame | None = None
    ) -> Iterator[TrainingData]:
        """Checks, prepares and places the rows, and holds them while the `with` block lasts."""
        config = self._check_params(validation is not None)
        session = dataset.sparkSession
        with contextlib.ExitStack() as stack:
            with described(session, f"{self.uid}: slots"):
                wanted = self._require_cluster(session, config)
            with described(session, f"{self.uid}: rows"):
                rows = arranged_rows(dataset, config, validation, wanted, self.statistics())
                arranged = stack.enter_context(rows)
            yield self._placed(session, arranged, wanted.num_workers, dataset)

    def _placed(
        self, session: Any, arranged: ArrangedRows, workers: int, given: DataFrame | str
    ) -> TrainingData:
        """Yields the rows after `look_at`, placed for the initial number of workers."""
        with described(session, f"{self.uid}: statistics"):
            facts = self.look_at(arranged.prepared)

        def data(workers: int) -> TrainingData:
            with described(session, f"{self.uid}: rows by worker"):
                layout, placed = arranged.place(workers)
            made = TrainingData.of(arranged.prepared, layout, placed, facts)
            follows = data if arranged.is_elastic else None
            return replace(made, given=given, resized=follows, rule=self._row_rule())

        return data(workers)

    def fitOnParquet(self, path: str) -> SparkTrainerModel:
        """Trains on Parquet files that the workers read themselves, without the JVM.

        Args:
            path: A file or directory, as a path or a URI of a file system that pyarrow knows
                (`file:`, `s3:`, `gs:`, `hdfs:`, `abfs:`). The driver and all executors must be able
                to read it under this name. See `docs/spark_data.md`.

        Raises:
            FileNotFoundError: No files were found.
            ValueError, TypeError: As `fit` does for columns and parameters.
        """
        if not isinstance(path, str | os.PathLike):
            raise TypeError(
                "fitOnParquet takes the path or URI of one file or folder, got "
                f"{type(path).__name__}; fit takes a DataFrame, such as that of several files: "
                "spark.read.parquet(*paths)"
            )
        return self._fit_on_files(lambda: str(path))

    def fitOnTable(
        self,
        table: Any,
        *,
        version: int | str | datetime | None = None,
        catalog: str | Mapping[str, str] | None = None,
    ) -> SparkTrainerModel:
        """Trains on a Delta Lake or Iceberg table, whose files the workers read themselves.

        On the driver, the format's own library reads the log: `pip install 'sparkflow-ml[delta]'`
        or `'sparkflow-ml[iceberg]'`. The version is pinned at the start: later writes are not seen.
        See `docs/spark_data.md`.

        Args:
            table: The path or URI of a Delta table's folder or of an Iceberg table's metadata file
                (`....metadata.json`), the name of an Iceberg table in `catalog`, a
                `deltalake.DeltaTable`, or a `pyiceberg.table.Table`. The driver and all executors
                must be able to read its files under the same names.
            version: The number of a Delta version or the id of an Iceberg snapshot; the name of an
                Iceberg branch or tag; or a `datetime` (for Delta also an ISO 8601 string), for the
                newest version at that time. None for the current version.
            catalog: The name of an Iceberg catalog that pyiceberg is configured for, or its
                properties, such as `{"name": "lake", "type": "sql", "uri": ..., "warehouse": ...}`.

        Raises:
            ImportError: The format's library is not installed.
            ValueError, TypeError: The table or version does not exist, or it uses an unsupported
                feature, which the message names; or as `fit` does for columns and parameters.
        """

        def files() -> ParquetFiles:
            # Imported here because few programs use it, and fewer need what it imports.
            from sparkflow.spark.data.tables.opening import table_files

            return table_files(table, version, catalog)

        return self._fit_on_files(files)

    @interrupts_kept()
    def _fit_on_files(self, find: Callable[[], str | ParquetFiles]) -> SparkTrainerModel:
        config = self._check_params(False)
        session = SparkSession.active()
        with described(session, f"{self.uid}: slots"):
            wanted = self._require_cluster(session, config)
        looks = type(self).look_at is not BaseTrainer.look_at
        with described(session, f"{self.uid}: rows"):
            found = find()
            arranged = parquet_rows(session, found, config, looks, wanted)
        given = found if isinstance(found, str) else found.origin
        return self.fit_data(self._placed(session, arranged, wanted.num_workers, given))

    def fit_data(self, data: TrainingData) -> SparkTrainerModel:
        """Trains on rows that `training_data` of this or a compatible estimator returned.

        Raises:
            ValueError: A parameter that decides on the rows has another value than in that
                estimator; the message names it.
        """
        validates = any(data.validation_rows)
        self._check_params(validates)
        if data.rule and (changes := list(changed_rows(data.rule, self._row_rule()))):
            raise ValueError(
                "These rows were prepared with other parameters (training_data -> fit_data): "
                f"{'; '.join(changes)}. Prepare them with training_data of an estimator that has "
                "the same values"
            )
        trainer = self.decided(data)
        config = trainer.config(validates)
        plan, inference = trainer._build(data, config)
        return trainer._train(data, plan, inference)

    def _row_rule(self) -> dict[str, Any]:
        return row_rule(self.config(), self._table_rows())

    def decided(self, data: TrainingData) -> BaseTrainer:
        """Returns this trainer, or a copy with all parameters that depend on the rows set."""
        return self

    def _require_cluster(self, session: Any, config: FitConfig) -> ClusterLayout:
        """Raises what the session's cluster cannot or may not do, before any rows are read.

        Returns:
            The tasks, with the initial number of workers.
        """
        least, most = config.min_workers, config.num_workers
        backend = backend_for(session, config.in_process)
        backend.speaks_tls(config.tls)
        wanted = backend.require_slots(
            config.layout(least or most), config.resources, is_elastic=config.is_elastic
        )
        if not least:
            return wanted
        count = self.count_workers() if self.count_workers else backend.count_workers(config)
        return wanted.of_workers(max(least, min(count, most)))

    def _check_params(self, has_validation: bool) -> FitConfig:
        """Checks the parameters and returns them as the configuration of the fit."""
        validates = (
            has_validation
            or bool(self.getValidationIndicatorCol())
            or self.getValidationFraction() > 0
        )
        given = {param.name for param in self._paramMap}
        config = self.config(validates)
        check_params(config, given)
        return config

    def _build(self, data: TrainingData, config: FitConfig) -> tuple[TrainingPlan, InferenceGraph]:
        model_fn = self.model_fn_for(data)
        prepared, layout = data.prepared, data.layout
        inputs = ModelInputs(prepared.format, config.model_params, config.seed)
        # Spark 3.5 has no toArrow.
        examples = partial(example_rows, prepared) if hasattr(DataFrame, "toArrow") else None
        training = build_training_graph(model_fn, inputs, layout, config, examples)
        evaluation = None
        if config.validates:
            evaluation = build_evaluation_graph(model_fn, inputs, layout, training)
            if config.early_stopping_patience:
                check_metric(config.early_stopping_metric, evaluation.values)
        inference = build_inference_graph(model_fn, inputs)
        require_same_variables(training, inference)
        output_columns(inference.signature, self.prediction_columns())
        fingerprint = None
        if config.saves:
            fingerprint = Fingerprint(
                deciding(config.params, self._table_rows()),
                placement(config.params),
                GraphDigest.of(training.graph_def),
                _print_of(prepared),
                shape={
                    "workers": layout.num_workers,
                    "stages": layout.num_stages,
                    "micro_batches": config.micro_batches,
                },
            )
        plan = TrainingPlan(
            layout=layout,
            graph=training,
            fetch=inference.variables,
            worker_rows=data.worker_rows,
            evaluation=evaluation,
            validation_rows=data.validation_rows,
            fingerprint=fingerprint,
            shards=data.shards,
        )
        return plan, inference

    def _train(
        self, data: TrainingData, plan: TrainingPlan, inference: InferenceGraph
    ) -> SparkTrainerModel:
        config = plan.config
        session = data.prepared.rows.sparkSession
        name = f"sparkflow-{self.uid}-{uuid.uuid4().hex[:8]}"
        counts = {
            "num_rows": data.prepared.num_rows,
            "num_validation_rows": data.prepared.num_validation_rows,
        }
        rows = TrainingRows(data.given, config.label_col, counts)
        reporters = Reporters(config, self.uid, session, name, plan.graph.graph_def, rows)
        callbacks = Callbacks((*reporters.callbacks, *self.callbacks))

        def training(data: TrainingData, plan: TrainingPlan) -> Training:
            layout = plan.layout
            return Training(
                plan=replace(plan, name=name),
                row_format=data.prepared.format,
                rows=data.placed,
                name=name,
                description=f"{self.uid}: {layout.num_workers} workers, {layout.num_ps} "
                f"parameter servers, {config.sync_mode}",
                callbacks=callbacks,
                worker_callbacks=self.worker_callbacks,
                start=self.start_snapshot,
                resized=resized if data.resized is not None else None,
                most_workers=min(config.num_workers, data.prepared.num_rows),
                count_workers=self.count_workers,
            )

        def resized(workers: int) -> Training:
            assert data.resized is not None
            other = data.resized(workers)
            return training(other, self._build(other, config)[0])

        try:
            values, history = backend_for(session, config.in_process).train(training(data, plan))
        finally:
            callbacks.on_close()
        history.chosen = self.chosen
        inference_model = InferenceModel.build(
            inference.graph_def,
            values,
            inference.signature,
            {
                "uid": self.uid,
                "params": config.params,
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


class SparkTrainer(BaseTrainer, DefaultParamsWritable, MLReadable["SparkTrainer"]):
    """Trains a network on the rows of a DataFrame, on parameter servers and workers in Spark tasks.

    Args:
        model_fn: `model_fn(features, labels, mode, params, weights)` builds the network and returns
            a `tf.estimator.EstimatorSpec`: with loss and train_op in mode TRAIN, with loss and
            perhaps eval_metric_ops in mode EVAL, with predictions in mode PREDICT. features is
            [batch, dim] float32, or what `docs/spark_inputs.md` says of other columns; labels is
            [batch], int64 if the label column holds integers, else float32; weights is [batch]
            float32; labels and weights are None in mode PREDICT; params is `modelParams`. All
            arguments but the first are optional. It is called on the driver only.
        callbacks: Called on the driver while training runs, see `Callback`.
        workerCallbacks: Functions of a `WorkerEvent`, called in the Spark tasks of the workers.
        **params: The parameters, see `docs/spark_trainer.md`; in camelCase or snake_case.

    Raises:
        TypeError: `model_fn` is not callable, or a parameter is unknown or of a wrong type.
        ValueError: A parameter has an invalid value.

    Examples:
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
        require_callable(model_fn, "model_fn", GIVEN)
        super().__init__(callbacks=callbacks, workerCallbacks=workerCallbacks, **params)
        self.model_fn = model_fn

    def model_fn_for(self, data: TrainingData) -> ModelFn:
        """The user's model_fn."""
        return self.model_fn

    def takes_labels(self) -> bool:
        """Whether model_fn has an argument for them."""
        return takes(self.model_fn, "labels")

    @classmethod
    def read(cls) -> MLReader[SparkTrainer]:
        """Returns a reader; `model_fn` is code and is not saved, so set it after `load`."""
        return TrainerReader(cls)

    def takes_weights(self) -> bool:
        """Whether model_fn has an argument for them."""
        return takes(self.model_fn, "weights")


def _print_of(rows: PreparedRows) -> RowsPrint:
    columns = {
        each.name: f"{each.kind} {each.dtype} {list(each.shape)}" for each in rows.format.inputs
    }
    return RowsPrint(columns, rows.num_rows, rows.num_validation_rows, rows.content)


def _versions() -> dict[str, str]:
    return {
        "sparkflow": SPARKFLOW_VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyspark": pyspark.__version__,
    }
