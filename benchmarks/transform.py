"""Rows per second of `SparkTrainerModel.transform`: an MLP 784-256-10 on random rows.

    python benchmarks/transform.py [--record]

The first table measures one Python worker on one thread, from Spark's Arrow batches of 10,000 rows
to Arrow predictions, compared with numpy's matrix products of the same sizes. The second measures
Spark on one task slot: the same rows from Parquet files through functions that only read them,
through a `mapInArrow` that returns them unchanged, through one that appends a column of zeros,
which is the minimum for any prediction, and through `transform`. Rows with 28 single columns, ten
times as many, are for another network, 28-256-10. The JVM's own work runs concurrently.
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
FEW = (28, 256, 10)
FORMS = ("arrays of float", "vectors", "28 float columns")
COLUMNS = ("prediction", "probability", "rawPrediction")
ARROW_ROWS = 10_000  # spark.sql.execution.arrow.maxRecordsPerBatch
PACKAGES = (*local_spark.PACKAGES, "llvmlite")
GOAL = 200_000


def main() -> None:
    machine.clean_own_environment()
    # As in pyspark for its workers; before numpy is loaded.
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


def build_model(sizes: tuple[int, int, int] = SIZES) -> Any:
    """Returns a network with random weights and all three predictions of a classifier."""
    import numpy as np

    import sparkflow as tf
    from sparkflow.export import InferenceModel, Output, Signature

    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, sizes[0]], name="x")
        hidden = tf.layers.dense(x, sizes[1], activation=tf.nn.relu)
        logits = tf.identity(tf.layers.dense(hidden, sizes[2]), name="logits")
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
        Output("probability", "probability:0", "float32", (sizes[2],)),
        Output("rawPrediction", "logits:0", "float32", (sizes[2],)),
    )
    return InferenceModel.build(
        graph.as_graph_def(), values, Signature.of_features("x:0", sizes[0], outputs)
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
    """Computes only the matrix products, with numpy."""
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
    """Processes one Arrow batch like a Python worker."""
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
    columns = {name: name for name in COLUMNS}
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
        cases = dict(_cases(spark, options.rows, Path(folder)))
        rates: dict[tuple[str, str], list[float]] = {case: [] for case in cases}
        for round_ in range(-2, options.rounds):
            for (form, way), frame in cases.items():
                began = time.monotonic()
                frame.write.format("noop").mode("overwrite").save()
                if round_ >= 0:  # the first ones warm up the JVM, the workers and the page cache
                    rate = _rows_of(form, options.rows) / (time.monotonic() - began)
                    rates[form, way].append(rate)
    found = {case: measured(each) for case, each in rates.items()}
    return Table(
        [
            "rows as",
            "read by mapInArrow",
            "read by arrow_udf",
            "given back by mapInArrow",
            "a column appended by mapInArrow",
            "transform",
            "of arrow_udf",
            "of rows given back (goal 0.95)",
            "of a column appended",
        ],
        [_spark_cells(form, found) for form in FORMS],
    )


def _rows_of(form: str, rows: int) -> int:
    return 10 * rows if form == FORMS[2] else rows


def _spark_cells(form: str, found: dict[tuple[str, str], Measured]) -> Sequence[str]:
    ways = ("mapInArrow", "arrow_udf", "identity", "appended", "transform")
    rates = [found[form, way] for way in ways]
    _, read, identity, appended, transformed = rates
    ratios = [transformed.over(each) for each in (read, identity, appended)]
    return [form, *map(rate_text, rates), *map(ratio_text, ratios)]


def _write(spark: Any, rows: int, folder: Path) -> dict[str, Any]:
    """Returns the DataFrames by form, read from files."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    generator = np.random.default_rng(0)
    x = generator.random((rows, SIZES[0]), np.float32)
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(SIZES[0])
    tables = {"arrays": pa.table({"features": pa.ListArray.from_arrays(offsets, x.ravel())})}
    few = generator.random((FEW[0], _rows_of(FORMS[2], rows)), np.float32)
    tables["columns"] = pa.table({f"f{index}": column for index, column in enumerate(few)})
    for name, table in tables.items():
        (folder / name).mkdir()
        pq.write_table(table, folder / name / "0.parquet")
    arrays = spark.read.parquet(str(folder / "arrays"))
    doubles = F.col("features").cast("array<double>")
    arrays.select(array_to_vector(doubles).alias("features")).write.parquet(str(folder / "vectors"))
    vectors, columns = (spark.read.parquet(str(folder / name)) for name in ("vectors", "columns"))
    return dict(zip(FORMS, (arrays, vectors, columns), strict=True))


def _cases(spark: Any, rows: int, folder: Path) -> Iterator[tuple[tuple[str, str], Any]]:
    """Returns what to run, by form and way."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DoubleType, StructField, StructType

    from sparkflow.spark import SparkTrainerModel

    frames = _write(spark, rows, folder)
    parts = F.unwrap_udt("features")
    # The filter lets vectors bypass a Python function in Spark 4.3, see trainer_model.
    vectors = frames["vectors"].where(F.spark_partition_id() >= 0)
    plain = vectors.select(parts.getField("values").alias("features"))
    names = ("values", "indices", "size")  # the columns that `transform` sends
    sent = vectors.select(*(parts.getField(name).alias(name) for name in names))
    for form, frame in frames.items():
        read, same = (plain, sent) if form == "vectors" else (frame, frame)
        model = SparkTrainerModel(build_model(FEW if form == FORMS[2] else SIZES))
        if form == FORMS[2]:
            model = model.setFeaturesCol(frame.columns)
        yield (form, "mapInArrow"), read.mapInArrow(_count, "rows bigint")
        yield (form, "identity"), same.mapInArrow(_given_back, same.schema)
        appended = StructType([*same.schema.fields, StructField("zero", DoubleType())])
        yield (form, "appended"), same.mapInArrow(_with_zeros, appended)
        yield (
            (form, "arrow_udf"),
            read.select(_reader(len(read.columns))(*read.columns).alias("zero")),
        )
        yield (form, "transform"), model.transform(frame).select(*COLUMNS)


def _count(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow

    rows = sum(batch.num_rows for batch in batches)
    yield pyarrow.RecordBatch.from_pydict({"rows": [rows]})


def _given_back(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def _with_zeros(batches: Iterator[Any]) -> Iterator[Any]:
    import numpy as np
    import pyarrow as pa

    for batch in batches:
        yield batch.append_column("zero", pa.array(np.zeros(batch.num_rows)))


def _reader(width: int) -> Any:
    """Returns a function of a number of columns that returns a zero per row."""
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import functions as F

    def zeros(batches: Iterator[Any]) -> Iterator[pa.Array]:
        for batch in batches:
            yield pa.array(np.zeros(len(batch if width == 1 else batch[0])))

    given = Iterator[pa.Array] if width == 1 else Iterator[tuple[pa.Array, ...]]
    zeros.__annotations__ = {"batches": given, "return": Iterator[pa.Array]}
    return F.arrow_udf(zeros, "double")


if __name__ == "__main__":
    main()
