"""The column function that runs a model, in the form that the Spark version supports."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructType,
)

from sparkflow.spark.data.schema.row_schema import SCALARS, VECTOR_PARTS, InputColumns
from sparkflow.spark.model.place import place_of_task
from sparkflow.spark.model.prediction import VALID, InferencePlan, predict_batches, predictor_for
from sparkflow.spark.model.shipping import ShippedModel
from sparkflow_runtime.resources.datasets.arrow_columns import as_pandas

_TYPES: Final[dict[str, DataType]] = {
    each.simpleString(): each
    for each in (BooleanType(), LongType(), DoubleType(), FloatType(), StringType())
}


def takes_arrow() -> bool:
    """Whether column functions return Arrow arrays, and so Spark ML's vectors: from Spark 4.1 on.

    If they return arrays of numbers, `array_to_vector` converts these to vectors one by one, which
    takes two fifths of the CPU time of a `transform` of 28 columns (2026-11-27,
    benchmarks/RESULTS.md).
    """
    return hasattr(F, "arrow_udf")


def prediction_udf(plan: InferencePlan, shipped: ShippedModel, device: str) -> Any:
    """Returns a function from the columns of all inputs to a struct of the predictions.

    It is marked as nondeterministic: otherwise a filter on a prediction would be pushed below it,
    and the model run twice.

    Args:
        plan: The work to do.
        shipped: The model.
        device: `auto`, `cpu` or `gpu`.
    """
    width = sum(each.width for each in plan.inputs)
    returns = StructType()
    for each in plan.outputs:
        is_vector = each.is_vector and plan.gives_vectors
        returns.add(each.output, VectorUDT() if is_vector else _type(each.spark_type))
    if plan.marks_valid:
        returns.add(VALID, BooleanType())

    def predict(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        predictor = predictor_for(plan.key, place_of_task(device), shipped.load)
        return predict_batches(plan, predictor, batches)

    make = _arrow_udf if takes_arrow() else _pandas_udf
    return make(predict, width, returns, plan).asNondeterministic()


Predict = Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]


def _type(ddl: str) -> DataType:
    """Returns the type of an output, which Spark itself would parse in the JVM."""
    if ddl.startswith("array<"):
        return ArrayType(_type(ddl.removeprefix("array<").removesuffix(">")))
    return _TYPES[ddl]


def _arrow_udf(predict: Predict, width: int, returns: StructType, plan: InferencePlan) -> Any:
    def predict_one(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return predict((batch,) for batch in batches)

    def predict_many(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return predict(batches)

    function: Any = predict_one if width == 1 else predict_many
    # The annotations tell Spark to pass an iterator of arrays.
    function.__annotations__ = {
        "batches": Iterator[pa.Array] if width == 1 else Iterator[tuple[pa.Array, ...]],
        "return": Iterator[pa.Array],
    }
    make_udf: Any = F.arrow_udf
    return make_udf(function, returns)


def _pandas_udf(predict: Predict, width: int, returns: StructType, plan: InferencePlan) -> Any:
    """The same for Spark before 4.1, which passes pandas objects instead of Arrow's."""
    pandas: Any = importlib.import_module("pandas")  # comes without type information
    types = [kind for each in plan.inputs for kind in _arrow_types(each)]

    def frames(batches: Iterator[Any]) -> Iterator[Any]:
        arrays = (
            tuple(
                pa.array(series, kind, from_pandas=True)  # NaN stands for null
                for series, kind in zip(batch, types, strict=True)
            )
            for batch in batches
        )
        for found in predict(arrays):
            yield pandas.DataFrame(as_pandas(found))

    def predict_one(batches: Iterator[Any]) -> Iterator[Any]:
        return frames((batch,) for batch in batches)

    def predict_many(batches: Iterator[Any]) -> Iterator[Any]:
        return frames(batches)

    function: Any = predict_one if width == 1 else predict_many
    function.__annotations__ = {
        "batches": (Iterator[pandas.Series] if width == 1 else Iterator[tuple[pandas.Series, ...]]),
        "return": Iterator[pandas.DataFrame],
    }
    make_udf: Any = F.pandas_udf
    return make_udf(function, returns)


def _arrow_types(each: InputColumns) -> list[Any]:
    """The Arrow types of pandas columns of Python objects; None if pandas has the type itself."""
    element = {"string": pa.binary(), "int64": pa.int64(), "float32": pa.float64()}
    of = element[each.input.dtype]
    if each.form == SCALARS:
        # A null among numbers is a NaN in pandas.
        return [of if each.input.dtype == "string" else None] * len(each.columns)
    if each.form == VECTOR_PARTS:
        return [pa.list_(pa.float64()), pa.list_(pa.int32()), pa.int32()]
    depth = 1 if each.input.kind != "dense" else max(len(each.input.shape), 1)
    return [None if depth > 1 else pa.list_(of)]
