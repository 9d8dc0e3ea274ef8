"""The trained model as a pyspark.ml Model."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import Column, DataFrame, functions as F

from sparkflow.export import InferenceModel
from sparkflow.export.inference_model import FILES
from sparkflow.spark.model.files import read_files, write_files
from sparkflow.spark.model.inference import (
    OutputColumn,
    output_columns,
    predict_batches,
)
from sparkflow.spark.params.columns import ColumnParams
from sparkflow.spark.report.history import TrainingHistory
from sparkflow.spark.rows.columns import find_features
from sparkflow_runtime.errors import FailedPreconditionError

_PREDICTIONS = "__sparkflow_predictions"


class SparkTrainerModel(Model, ColumnParams, MLWritable, MLReadable["SparkTrainerModel"]):
    """What `SparkTrainer.fit` returns: appends predictions to DataFrames.

    Of the predictions that `model_fn` returns, `prediction` becomes a double in `predictionCol`,
    `probability` and `rawPrediction` become vectors in `probabilityCol` and `rawPredictionCol`.
    Of one number p per row, the probability vector is [1 - p, p]. Others are appended under their
    own names: one number per row as double or bigint, several as array<float> or array<bigint>.

    Attributes:
        inference_model: Graph, variables and signature; works without Spark.
        history: Losses and rows of the training's steps.
    """

    def __init__(
        self, inference_model: InferenceModel | None = None, history: TrainingHistory | None = None
    ) -> None:
        super().__init__()
        self._inference_model = inference_model
        self.history = history or TrainingHistory()
        # The model's files on the executors, and the application they were sent in.
        self._shipped: tuple[str, Any] | None = None

    @property
    def inference_model(self) -> InferenceModel:
        """Graph, variables and signature.

        Raises:
            FailedPreconditionError: This is an empty model that was neither trained nor loaded.
        """
        if self._inference_model is None:
            raise FailedPreconditionError(
                message="This model is empty: it comes from SparkTrainer.fit or from load"
            )
        return self._inference_model

    def _transform(self, dataset: DataFrame) -> DataFrame:
        model = self.inference_model
        features = find_features(dataset.schema, self.getFeaturesCol())
        columns = output_columns(model.signature, self.prediction_columns())
        taken = sorted({each.column for each in columns} & set(dataset.columns))
        if taken:
            raise ValueError(
                f"The DataFrame has columns named {', '.join(taken)} already; drop them, or set "
                "predictionCol and the like to other names"
            )
        predicted = dataset.withColumn(_PREDICTIONS, self._udf(dataset, columns)(features.array()))
        return predicted.select(
            *(predicted[f"`{name}`"] for name in dataset.columns),
            *(_field(each).alias(each.column) for each in columns),
        )

    def _udf(self, dataset: DataFrame, columns: list[OutputColumn]) -> Any:
        files = self._ship(dataset)
        batch_size = self.getInferenceBatchSize()
        fields = ", ".join(f"`{each.output}`: {each.spark_type}" for each in columns)

        def predict(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
            return predict_batches(files.value, columns, batch_size, batches)

        # Spark reads from the annotations that it is to give an iterator of arrays.
        if hasattr(F, "arrow_udf"):  # Spark 4.1
            make_udf: Any = F.arrow_udf
            udf = make_udf(predict, f"struct<{fields}>")
        else:
            udf = _pandas_udf(predict, f"struct<{fields}>")
        # Otherwise a filter on a prediction would be pushed below it, and the model run twice.
        return udf.asNondeterministic()

    def _ship(self, dataset: DataFrame) -> Any:
        """A broadcast variable with the model's files, made once per application."""
        context = dataset.sparkSession.sparkContext
        if self._shipped is None or self._shipped[0] != context.applicationId:
            files = self.inference_model.to_files()
            self._shipped = (context.applicationId, context.broadcast(files))
        return self._shipped[1]

    def write(self) -> MLWriter:
        """A writer: `model.write().overwrite().save(path)`."""
        return _ModelWriter(self)

    @classmethod
    def read(cls) -> MLReader[SparkTrainerModel]:
        """A reader; `load(path)` is short for `read().load(path)`."""
        return _ModelReader(cls)


class _ModelWriter(MLWriter):
    def __init__(self, model: SparkTrainerModel) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:
        """Writes Spark ML's metadata and the files of the inference model."""
        session = self.sparkSession
        files = self._model.inference_model.to_files()
        DefaultParamsWriter.saveMetadata(self._model, path, session.sparkContext)
        write_files(session, path, files)


class _ModelReader(MLReader[SparkTrainerModel]):
    def __init__(self, model_class: type[SparkTrainerModel]) -> None:
        super().__init__()
        self._class = model_class

    def load(self, path: str) -> SparkTrainerModel:
        """Reads what the writer wrote."""
        session = self.sparkSession
        kind = self._class
        metadata = DefaultParamsReader.loadMetadata(
            path, session.sparkContext, f"{kind.__module__}.{kind.__name__}"
        )
        inference_model = InferenceModel.from_files(read_files(session, path, FILES))
        history = TrainingHistory.from_dict(inference_model.extra["history"])
        model = kind(inference_model, history)
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model


def _pandas_udf(predict: Callable[[Iterator[pa.Array]], Iterator[pa.Array]], returns: str) -> Any:
    """The same for Spark before 4.1, which gives pandas objects instead of Arrow's."""
    pandas: Any = importlib.import_module("pandas")  # comes without type information

    def predict_frames(batches: Iterator[Any]) -> Iterator[Any]:
        arrays = (pa.array(batch, pa.list_(pa.float32())) for batch in batches)
        for found in predict(arrays):
            names = [field.name for field in found.type]
            columns = [column.to_pandas() for column in found.flatten()]
            yield pandas.DataFrame(dict(zip(names, columns, strict=True)))

    predict_frames.__annotations__ = {
        "batches": Iterator[pandas.Series],
        "return": Iterator[pandas.DataFrame],
    }
    make_udf: Any = F.pandas_udf
    return make_udf(predict_frames, returns)


def _field(column: OutputColumn) -> Column:
    value = F.col(_PREDICTIONS).getField(column.output)
    return array_to_vector(value) if column.is_vector else value
