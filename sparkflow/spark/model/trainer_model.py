"""The trained model as a pyspark.ml Model."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.util import MLReadable, MLReader, MLWritable, MLWriter
from pyspark.sql import Column, DataFrame, functions as F

from sparkflow.export import InferenceModel
from sparkflow.export.summary import ModelSummary
from sparkflow.graph.nodes.reach import Allowed
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.data.schema.frame import require_frame
from sparkflow.spark.interpreter import use_this_python
from sparkflow.spark.model.input_columns import input_columns
from sparkflow.spark.model.outputs import OutputColumn, output_columns
from sparkflow.spark.model.persistence import ModelReader, ModelWriter
from sparkflow.spark.model.prediction import KEEP, SKIP, VALID, InferencePlan
from sparkflow.spark.model.shipping import Shipper
from sparkflow.spark.model.udf import prediction_udf, takes_arrow
from sparkflow.spark.params.inference_params import InferenceParams
from sparkflow_runtime.errors import FailedPreconditionError
from sparkflow_runtime.protos.graph_pb2 import GraphDef

_PREDICTIONS = "__sparkflow_predictions"
_log = logging.getLogger(__name__)
_COLUMNAR_INPUT = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"


class SparkTrainerModel(Model, InferenceParams, MLWritable, MLReadable["SparkTrainerModel"]):
    """The model that `SparkTrainer.fit` returns; appends predictions to DataFrames and streams.

    Of the predictions that `model_fn` returns, `prediction` becomes a double in `predictionCol`,
    `probability` and `rawPrediction` become vectors in `probabilityCol` and `rawPredictionCol`. A
    single probability p per row becomes the vector [1 - p, p]. An empty name leaves one out. Other
    predictions are appended under their own names: one value per row as double, bigint, boolean or
    string, several as an array.

    Attributes:
        inference_model: Graph, variables and signature; works without Spark.
        history: Losses, metrics and rows of the training.
    """

    def __init__(
        self, inference_model: InferenceModel | None = None, history: TrainingHistory | None = None
    ) -> None:
        super().__init__()
        self._inference_model = inference_model
        self.history = history or TrainingHistory()
        # Shared by copies of the model, so that it is sent only once.
        self._shipper = None if inference_model is None else Shipper(inference_model)

    @property
    def inference_model(self) -> InferenceModel:
        """Graph, variables and signature.

        Raises:
            FailedPreconditionError: This is an empty model that was neither trained nor loaded.
        """
        if self._inference_model is None:
            raise FailedPreconditionError(
                message=f"This {type(self).__name__} is empty: it comes from an estimator's fit or "
                f"from {type(self).__name__}.load(path)"
            )
        return self._inference_model

    def __repr__(self) -> str:
        """A summary in pyspark.ml's form: `SparkTrainerModel: uid=..., numParameters=7850, ...`."""
        facts = {"uid": self.uid, **(self._facts() if self._inference_model is not None else {})}
        listed = ", ".join(f"{name}={value}" for name, value in facts.items())
        return f"{type(self).__name__}: {listed}"

    def _facts(self) -> dict[str, Any]:
        """Returns the properties shown by `repr`."""
        model = self.inference_model
        return {
            "numParameters": sum(int(value.size) for value in model.variables.values()),
            "outputs": "+".join(each.name for each in model.signature.outputs),
        }

    def summary(self) -> ModelSummary:
        """Inputs, layers with shapes and parameter counts, predictions, and training statistics.

        `print` it, or make it the last line of a notebook cell.
        """
        return self.inference_model.summary()

    def toGraphDef(self, frozen: bool = True) -> GraphDef:
        """Returns the inference graph in TensorFlow's format.

        Args:
            frozen: Whether to replace the variables by constants.
        """
        return self.inference_model.to_graph_def(frozen)

    def toONNX(self, path: str | Path) -> None:
        """Writes the model in ONNX's format to a file on the driver; see `docs/spark_model.md`.

        Raises:
            ImportError: The package `onnx` is missing (`pip install 'sparkflow-ml[onnx]'`).
            UnimplementedError: The graph has an op that ONNX or this exporter lacks; the message
                names the op and node.
        """
        self.inference_model.to_onnx(path)

    def toSavedModel(self, folder: str | Path, version: int | None = None) -> Path:
        """Writes the model as a TensorFlow SavedModel to a folder on the driver.

        Args:
            folder: The folder of all versions of the model, in TensorFlow Serving's layout.
            version: The version number; None for the next one.

        Returns:
            The folder of the version.

        Raises:
            UnimplementedError: The graph has an op that TensorFlow lacks; the message names it.
            AlreadyExistsError: The version exists.
        """
        return self.inference_model.to_saved_model(folder, version)

    def transform(self, dataset: DataFrame, params: Any = None) -> DataFrame:
        """Appends the predictions to a DataFrame.

        Args:
            dataset: The rows; may be a streaming DataFrame.
            params: Values by Param, used instead of this model's.
        """
        require_frame(dataset, "transform")
        return super().transform(dataset, params)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        model = self.inference_model
        use_this_python(dataset.sparkSession)
        encoded, sent = input_columns(dataset, model.signature, self.getFeaturesCol())
        outputs = output_columns(model.signature, self.prediction_columns())
        taken = sorted({each.column for each in outputs} & set(dataset.columns))
        if taken:
            raise ValueError(
                f"The DataFrame has columns named {', '.join(taken)} already; drop them, or set "
                "predictionCol and the like to other names"
            )
        if not outputs:
            _log.warning(
                "%s: transform changes nothing: predictionCol and the like are all empty", self.uid
            )
            return dataset
        assert self._shipper is not None  # as there is a model
        shipped = self._shipper.ship(dataset.sparkSession)
        handle_invalid = self.getHandleInvalid()
        plan = InferencePlan(
            shipped.key,
            tuple(encoded),
            tuple(outputs),
            self.getInferenceBatchSize(),
            handle_invalid,
            self.getFillValue(),
            takes_arrow(),
        )
        udf = prediction_udf(plan, shipped, self.getInferenceDevice())
        predicted = _by_rows(dataset).withColumn(_PREDICTIONS, udf(*sent))
        if handle_invalid == SKIP:
            predicted = predicted.where(F.col(_PREDICTIONS).getField(VALID))
        # Two columns of one name can be kept, but not named.
        found = predicted.select("*", *(_field(each, plan).alias(each.column) for each in outputs))
        return found.drop(_PREDICTIONS)

    def write(self) -> MLWriter:
        """A writer: `model.write().overwrite().save(path)`."""
        return ModelWriter(self, self.inference_model)

    @classmethod
    def read(cls) -> MLReader[SparkTrainerModel]:
        """A reader; `load(path)` is short for `read().load(path)`."""
        return ModelReader(cls)

    @classmethod
    def load(cls, path: str, allowed_ops: Allowed = None) -> SparkTrainerModel:
        """Loads the model saved at a path.

        Args:
            path: A path on any file system that Spark knows.
            allowed_ops: Op types with effects outside the graph that it may contain, or "all"; see
                `InferenceModel.load`. None for those in Spark's conf `spark.sparkflow.allowedOps`,
                which also applies to stages of pipelines.

        Raises:
            InvalidArgumentError: The directory holds something else, or a later version's model.
            NotFoundError, DataLossError: A file is missing or damaged.
            PermissionDeniedError: The graph has ops that must be allowed explicitly.
        """
        return ModelReader(cls, allowed_ops).load(path)


def _by_rows(dataset: DataFrame) -> DataFrame:
    """Returns the DataFrame in a form that Spark passes to a Python function row by row.

    If the input is columnar, as from Parquet, Spark 4.3 passes columns to a Python function and
    keeps the rest of each row aside. For that it converts columns to rows and back, value by value:
    `transform` of arrays takes 1.45 times as long as by rows, of single columns 1.3 times
    (2026-11-24, benchmarks/RESULTS.md). It also fails on user-defined types such as vectors
    (UNSUPPORTED_DATATYPE, seen 2026-11-22). A filter that is always true, which Spark cannot
    detect, makes it pass rows.
    """
    try:
        # Given a default as second argument, Spark returns that instead of its own default.
        columnar: Any = dataset.sparkSession.conf.get(_COLUMNAR_INPUT)
    except Exception:  # before 4.3 there is no such setting: pyspark's error, py4j's in 3.5
        return dataset
    if str(columnar).lower() != "true":
        return dataset
    return dataset.where(F.spark_partition_id() >= 0)


def _field(column: OutputColumn, plan: InferencePlan) -> Column:
    predictions = F.col(_PREDICTIONS)
    value = predictions.getField(column.output)
    if not column.is_vector or plan.gives_vectors:
        return value
    vector = array_to_vector(value)
    return F.when(predictions.getField(VALID), vector) if plan.handle_invalid == KEEP else vector
