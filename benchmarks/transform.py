"""Rows per second of `SparkTrainerModel.transform`: an MLP 784-256-10 on random rows.

    python benchmarks/transform.py [--record]

The first table is what happens in one Python worker on one thread, from Arrow batches of 10,000
rows as Spark sends them to Arrow predictions, beside numpy's matrix products of the same sizes. The
second is Spark's side of it, on one task slot: the same rows from Parquet files through functions
that only read them, through a `mapInArrow` that gives them back as they are, and through
`transform`. The JVM's own work runs beside the slot's.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import local_spark
import machine
from report import Report, Table, add_options, rate_text, ratio_text
from timing import Measured, measured, seconds_per_call

SIZES = (784, 256, 10)
ARROW_ROWS = 10_000  # spark.sql.execution.arrow.maxRecordsPerBatch
PACKAGES = (*local_spark.PACKAGES, "llvmlite")
GOAL = 200_000


def main() -> None:
    machine.clean_own_environment()
    # As pyspark does for its workers; before numpy loads.
    os.environ["OMP_NUM_THREADS"] = "1"
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=7)
    parser.add_argument("--rows", type=int, default=100_000, help="of the Spark part; 0 for none")
    parser.add_argument("--round-s", type=float, default=0.5, help="seconds of calls per round")
    parser.add_argument("--batch-size", type=int, nargs="+", default=[256, 1024, 4096])
    options = parser.parse_args()
    report = Report("transform", PACKAGES, options)
    tables = {
        f"In one Python worker, rows/s on one thread, median of {options.rounds} rounds; the goal "
        f"is {GOAL:,}": _worker_table(options)
    }
    if options.rows:
        tables[f"In Spark, local[1], rows/s, median of {options.rounds} rounds"] = _spark_table(
            options
        )
    report.finish(tables)


def build_model() -> Any:
    """The network with random weights, and all three predictions of a classifier."""
    import numpy as np

    import sparkflow as tf
    from sparkflow.export import InferenceModel, Output, Signature

    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, SIZES[0]], name="x")
        hidden = tf.layers.dense(x, SIZES[1], activation=tf.nn.relu)
        logits = tf.identity(tf.layers.dense(hidden, SIZES[2]), name="logits")
        tf.nn.softmax(logits, name="probability")
        tf.argmax(logits, 1, name="prediction")
        variables = tf.global_variables()
    generator = np.random.default_rng(0)
    values = {
        each.op.name: generator.normal(0, 0.05, each.shape.as_list()).astype(np.float32)
        for each in variables
    }
    outputs = (
        Output("prediction", "prediction:0", "int64", ()),
        Output("probability", "probability:0", "float32", (SIZES[2],)),
        Output("rawPrediction", "logits:0", "float32", (SIZES[2],)),
    )
    return InferenceModel.build(
        graph.as_graph_def(), values, Signature.of_features("x:0", SIZES[0], outputs)
    )


def _worker_table(options: argparse.Namespace) -> Table:
    import numpy as np
    import threadpoolctl

    model = build_model()
    predictor = model.predictor("/device:CPU:0", threads=1)
    x = np.random.default_rng(0).random((ARROW_ROWS, SIZES[0]), np.float32)
    rows = []
    with threadpoolctl.threadpool_limits(1):
        for batch_size in options.batch_size:
            calls: dict[str, Callable[[], object]] = {
                "products": _products(model, x, batch_size),
                **{
                    form: _transformed(model, predictor, x, batch_size, form)
                    for form in ("arrays of float", "vectors", "columns of float")
                },
            }
            rates: dict[str, list[float]] = {name: [] for name in calls}
            for _ in range(options.rounds):
                for name, call in calls.items():
                    rates[name].append(ARROW_ROWS / seconds_per_call(call, options.round_s))
            limit = measured(rates.pop("products"))
            cells = [f"{batch_size:,}", rate_text(limit)]
            for each in map(measured, rates.values()):
                cells += [rate_text(each), ratio_text(each.over(limit))]
            rows.append(cells)
    predictor.close()
    headings = ["inferenceBatchSize", "only the products"]
    for form in ("arrays of float", "vectors", "columns of float"):
        headings += [form, "of the products"]
    return Table(headings, rows)


def _products(model: Any, x: Any, batch_size: int) -> Callable[[], object]:
    """Only the multiplications, by numpy."""
    weights = [value for value in model.variables.values() if value.ndim == 2]

    def run() -> None:
        for start in range(0, len(x), batch_size):
            found = x[start : start + batch_size]
            for each in weights:
                found = found @ each

    return run


def _transformed(
    model: Any, predictor: Any, x: Any, batch_size: int, form: str
) -> Callable[[], object]:
    """What a Python worker does with one Arrow batch."""
    import numpy as np
    import pyarrow as pa

    from sparkflow.spark.data.schema.row_schema import ARRAY, SCALARS, VECTOR_PARTS, InputColumns
    from sparkflow.spark.model.outputs import output_columns
    from sparkflow.spark.model.prediction import InferencePlan, predict_batches

    (given,) = model.signature.inputs
    rows, dim = x.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(dim)
    names: tuple[str, ...] = ("features",)
    if form == "vectors":
        kind = VECTOR_PARTS
        arrays = [
            pa.ListArray.from_arrays(offsets, x.ravel().astype(np.float64)),
            pa.nulls(rows, pa.list_(pa.int32())),
            pa.nulls(rows, pa.int32()),
        ]
    elif form == "columns of float":
        kind, names = SCALARS, tuple(f"f{index}" for index in range(dim))
        arrays = [pa.array(column) for column in np.ascontiguousarray(x.T)]
    else:
        kind, arrays = ARRAY, [pa.ListArray.from_arrays(offsets, x.ravel())]
    columns = {name: name for name in ("prediction", "probability", "rawPrediction")}
    plan = InferencePlan(
        "key",
        (InputColumns(given, kind, names),),
        tuple(output_columns(model.signature, columns)),
        batch_size,
    )
    return lambda: list(predict_batches(plan, predictor, [arrays]))


def _spark_table(options: argparse.Namespace) -> Table:
    local_spark.SLOTS = 1
    with tempfile.TemporaryDirectory() as folder, local_spark.started(Path(folder)) as spark:
        arrays, vectors = _write(spark, options.rows, Path(folder))
        cases = dict(_cases(arrays, vectors))
        rates: dict[str, list[float]] = {name: [] for name in cases}
        for round_ in range(-1, options.rounds):
            for name, frame in cases.items():
                began = time.monotonic()
                frame.write.format("noop").mode("overwrite").save()
                if round_ >= 0:  # the first ones warm the JVM, the workers and the page cache up
                    rates[name].append(options.rows / (time.monotonic() - began))
    found = {name: measured(each) for name, each in rates.items()}
    return Table(
        [
            "rows as",
            "read by mapInArrow",
            "read by arrow_udf",
            "given back by mapInArrow",
            "transform",
            "of arrow_udf",
            "of rows given back (goal 0.95)",
        ],
        [_spark_cells(form, found) for form in ("arrays of float", "vectors")],
    )


def _spark_cells(form: str, found: dict[str, Measured]) -> Sequence[str]:
    ways = [found[f"{form} {way}"] for way in ("mapInArrow", "arrow_udf", "identity", "transform")]
    _, read, identity, transformed = ways
    ratios = (transformed.over(read), transformed.over(identity))
    return [form, *map(rate_text, ways), *map(ratio_text, ratios)]


def _write(spark: Any, rows: int, folder: Path) -> tuple[Any, Any]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    (folder / "arrays").mkdir()
    x = np.random.default_rng(0).random((rows, SIZES[0]), np.float32)
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(SIZES[0])
    table = pa.table({"features": pa.ListArray.from_arrays(offsets, x.ravel())})
    pq.write_table(table, folder / "arrays" / "0.parquet")
    arrays = spark.read.parquet(str(folder / "arrays"))
    doubles = F.col("features").cast("array<double>")
    arrays.select(array_to_vector(doubles).alias("features")).write.parquet(str(folder / "vectors"))
    return arrays, spark.read.parquet(str(folder / "vectors"))


def _cases(arrays: Any, vectors: Any) -> Iterator[tuple[str, Any]]:
    from pyspark.sql import functions as F

    from sparkflow.spark import SparkTrainerModel

    model = SparkTrainerModel(build_model())
    parts = F.unwrap_udt("features")
    # The filter lets vectors pass by a Python function in Spark 4.3, see trainer_model.
    rows = vectors.where(F.spark_partition_id() >= 0)
    plain = rows.select(parts.getField("values").alias("features"))
    names = ("values", "indices", "size")  # the columns that `transform` sends
    sent = rows.select(*(parts.getField(name).alias(name) for name in names))
    for form, frame, same, transformed in (
        ("arrays of float", arrays, arrays, arrays),
        ("vectors", plain, sent, vectors),
    ):
        yield f"{form} mapInArrow", frame.mapInArrow(_count, "rows bigint")
        yield f"{form} identity", same.mapInArrow(_given_back, same.schema)
        yield f"{form} arrow_udf", frame.select(_reader()("features").alias("zero"))
        columns = ("prediction", "probability", "rawPrediction")
        yield f"{form} transform", model.transform(transformed).select(*columns)


def _count(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow

    rows = sum(batch.num_rows for batch in batches)
    yield pyarrow.RecordBatch.from_pydict({"rows": [rows]})


def _given_back(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def _reader() -> Any:
    """A column function that gives a zero per row."""
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import functions as F

    def zeros(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in batches:
            yield pa.array(np.zeros(len(batch)))

    zeros.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return F.arrow_udf(zeros, "double")


if __name__ == "__main__":
    main()
