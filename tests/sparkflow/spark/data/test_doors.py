"""The same awkward columns through every way in for rows: the same arrays, the same errors.

`fit` and streams (Spark's SQL, Arrow, spool, feed), `fitOnParquet` (files, spool, feed),
`transform` and `evaluate` (Arrow in Spark's Python workers), `tf.data`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructField, StructType

import sparkflow as tf
from sparkflow.export import Input as ModelInput, Signature
from sparkflow.spark.data.feed.row_table import Chunk, MappedChunks, RowTable
from sparkflow.spark.data.feed.worker_feed import WorkerFeed
from sparkflow.spark.data.feed_plan import FeedPlan
from sparkflow.spark.data.plan.invalid import is_invalid
from sparkflow.spark.data.plan.parquet_rows import parquet_rows
from sparkflow.spark.data.plan.prepare import PreparedRows, plan_rows, prepare_rows
from sparkflow.spark.data.schema.frame import quoted
from sparkflow.spark.data.schema.row_format import (
    DENSE,
    RAGGED,
    ROW_NUMBER,
    SPARSE,
    Input,
    RowFormat,
)
from sparkflow.spark.data.schema.row_schema import (
    ARRAY,
    NANS,
    NON_FINITE,
    SCALARS,
    VECTOR,
    InputColumns,
    RowSchema,
)
from sparkflow.spark.data.spool.spool import MESSAGE_COLUMN, convert
from sparkflow.spark.model.input_columns import input_columns
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.trainer_params import TrainerParams
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError

NAN = float("nan")
ROWS = 5
FILL = 7.0
WIDE = 100

COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "double": ("double", [1.5, None, NAN, -2.0, 3e38]),
    "float": ("float", [1.5, None, NAN, -0.0, 3.0]),
    "byte": ("tinyint", [1, None, -128, 127, 0]),
    "short": ("smallint", [1, None, -3, 4, 5]),
    "int": ("int", [2**31 - 1, None, -3, 4, 5]),
    "long": ("bigint", [2**53 + 1, None, -(2**62), 4, 5]),
    "bool": ("boolean", [True, None, False, True, False]),
    "money": ("decimal(10,2)", [Decimal("1.25"), None, Decimal("-0.01"), Decimal(3), Decimal(0)]),
    "count": ("decimal(12,0)", [Decimal(10**11), None, Decimal(-2), Decimal(3), Decimal(0)]),
    "word": ("string", ["ä", None, "", "b\0c", "long " * 20]),
    "pair": ("array<double>", [[1.0, 2.0], None, [None, 3.0], [NAN, 4.0], [5.0, 6.0]]),
    "whole_pair": ("array<int>", [[1, 2], None, [None, 3], [4, 5], [6, 7]]),
    "ids": ("array<bigint>", [[3, 1], None, [], [None, 2**60], [5]]),
    "words": ("array<string>", [["a", "ä"], None, [], [None, "b"], [""]]),
    "reals": ("array<float>", [[0.5], None, [], [None, NAN, 1.5], [2.5, 3.5]]),
    "image": (
        "array<array<double>>",
        [
            [[1.0, 2.0], [3.0, 4.0]],
            None,
            [[5.0, None], [6.0, NAN]],
            [[1.0, 2.0], None],
            [[7.0, 8.0], [9.0, 0.0]],
        ],
    ),
    "first": ("int", [1, None, 3, 4, 5]),
    "second": ("double", [0.5, 1.5, NAN, None, 2.5]),
    "dense": (
        "vector",
        [
            Vectors.dense([1, 2, 3]),
            None,
            Vectors.dense([NAN, 0, 1]),
            Vectors.dense([0, 0, 0]),
            Vectors.dense([4, 5, 6]),
        ],
    ),
    "mixed": (
        "vector",
        [
            Vectors.dense([1, 2, 3]),
            None,
            Vectors.sparse(3, [(1, NAN)]),
            Vectors.sparse(3, []),
            Vectors.sparse(3, [(0, 2.0), (2, 3.0)]),
        ],
    ),
    "sparse": (
        "vector",
        [
            Vectors.sparse(WIDE, [(99, 2.0)]),
            None,
            Vectors.sparse(WIDE, [(3, NAN), (50, 1.0)]),
            Vectors.sparse(WIDE, []),
            Vectors.sparse(WIDE, [(0, 4.0)]),
        ],
    ),
}
UTC = timezone.utc
TIMES: dict[str, tuple[str, list[Any]]] = {
    "huge": (
        "decimal(38,0)",
        [Decimal(2**63 - 1), None, Decimal(2**63), Decimal(-(2**63)), Decimal(10) ** 37],
    ),
    "exact": (
        "decimal(38,18)",
        [Decimal("0.1"), None, Decimal("123456789.987654321"), Decimal(0), Decimal(-1)],
    ),
    "day": (
        "date",
        [date(2026, 11, 24), None, date(1970, 1, 1), date(1900, 2, 28), date(9999, 12, 31)],
    ),
    "moment": (
        "timestamp",
        [
            datetime(2026, 3, 29, 1, 30, 0, 123456, UTC),
            None,
            datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            datetime(1900, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 30, tzinfo=UTC),
        ],
    ),
    "clock": (
        "timestamp_ntz",
        [
            datetime(2026, 3, 29, 2, 30, 0, 123456),
            None,
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime(1900, 1, 1),
            datetime(9999, 12, 31, 23, 59, 59),
        ],
    ),
    "days": (
        "array<date>",
        [[date(1970, 1, 2)], None, [], [None, date(1969, 12, 31)], [date(2000, 1, 1)]],
    ),
    "prices": (
        "array<decimal(5,2)>",
        [[Decimal("1.25")] * 2, None, [None, Decimal(3)], [Decimal("-0.1")] * 2, [Decimal(0)] * 2],
    ),
}
GIVEN: dict[str, Any] = {name: name for name in COLUMNS if name not in ("first", "second")}
GIVEN["columns"] = ["first", "second"]
SHAPES = {"pair": [2], "whole_pair": [2], "image": [2, 2, 1], "reals": [None]}


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Parquet files of the columns, with labels, as Spark writes them."""
    path = str(tmp_path_factory.mktemp("doors") / "rows")
    _frame(spark, COLUMNS).write.parquet(path)
    return path


def _frame(spark: SparkSession, given: Mapping[str, tuple[str, list[Any]]]) -> DataFrame:
    fields = [
        StructField(name, VectorUDT()) if kind == "vector" else _field(spark, name, kind)
        for name, (kind, _) in given.items()
    ]
    schema = StructType([*fields, _field(spark, "label", "double")])
    columns = [values for _, values in given.values()]
    rows = zip(*columns, map(float, range(ROWS)), strict=True)
    return spark.createDataFrame(list(rows), schema, verifySchema=False).coalesce(1)


def _arrow(frame: DataFrame) -> pa.Table:
    """Converts to Arrow, since Spark 3.5 has no `toArrow`."""
    return pa.Table.from_batches(frame._collect_as_arrow())


def _field(spark: SparkSession, name: str, kind: str) -> StructField:
    (field,) = spark.createDataFrame([], f"`{name}` {kind}").schema.fields
    return field


def _params(policy: str, fill: float = 7.0, vectors: str = "auto", **more: Any) -> FitConfig:
    made = TrainerParams()
    given = {
        "featuresCol": GIVEN,
        "inputShapes": SHAPES,
        "handleInvalid": policy,
        "fillValue": fill,
        "vectorFormat": vectors,
        "numWorkers": 1,
        "shuffle": False,
    }
    made.setParams(**{**given, **more})
    return made.config()


def _through_fit(prepared: PreparedRows) -> list[np.ndarray]:
    """Returns what Spark sends to the tasks, after the feed."""
    table = _arrow(prepared.rows).combine_chunks()
    numbers = pa.array(np.arange(table.num_rows))
    (batch,) = table.append_column(ROW_NUMBER, numbers).to_batches()
    rows = RowTable(prepared.format, MappedChunks())
    rows.append(Chunk(batch=convert(batch, prepared.format)))
    (components,) = rows.take(rows.in_order(), batch.num_rows)
    return list(components)


def _through_files(spark: SparkSession, path: str, params: FitConfig) -> list[np.ndarray]:
    arranged = parquet_rows(spark, path, params)
    prepared, (_, placed) = arranged.prepared, arranged.place(None)
    messages = [row[MESSAGE_COLUMN] for row in placed.df.collect() if row[MESSAGE_COLUMN]]
    feed = WorkerFeed(FeedPlan(prepared.format, ROWS, shuffle=False), 0)
    for message in messages:
        feed.take(json.loads(message))
    components = feed.train.next_batch()[:-2]
    feed.close()
    return list(components)


def _through_transform(
    frame: DataFrame, row_format: RowFormat, fill: float | None, given: Any = GIVEN
) -> tuple[list[np.ndarray], list[Any]]:
    """Returns what a model is fed, and which rows of each input are invalid."""
    inputs = tuple(
        ModelInput(each.name, each.kind, each.dtype, each.shape, ()) for each in row_format.features
    )
    columns, sent = input_columns(frame, Signature(inputs, (), named=True), given)
    names = [f"c{place}" for place in range(len(sent))]
    selected = frame.select(*(each.alias(name) for each, name in zip(sent, names, strict=True)))
    found = RowSchema(tuple(columns), NANS, fill).decode(_arrow(selected).columns)
    return [part for each in found for part in each.components()], [each.invalid for each in found]


def _names(row_format: RowFormat) -> list[str]:
    """Returns the names of all components."""
    return [each.name for each in row_format.features for _ in each.components]


@pytest.mark.parametrize(("vectors", "fill"), [("auto", 7.0), ("sparse", 0.0), ("dense", -1.0)])
def test_filled_rows_are_the_same_arrays(
    spark: SparkSession, written: str, vectors: str, fill: float
) -> None:
    frame = spark.read.parquet(written)
    params = _params("fill", fill, vectors)
    with prepare_rows(frame, params) as prepared:
        fitted = _through_fit(prepared)
        kinds = {each.name: each.kind for each in prepared.format.features}
        assert kinds["sparse"] == (DENSE if vectors == "dense" else SPARSE)
        assert {name for name, kind in kinds.items() if kind == RAGGED} == {"ids", "words", "reals"}
        transformed, invalid = _through_transform(frame, prepared.format, fill)
        names = _names(prepared.format)
    files = _through_files(spark, written, params)
    assert invalid == [None] * len(GIVEN)
    for name, one, two, three in zip(names, fitted, files, transformed, strict=False):
        for other in (two, three):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), name
            np.testing.assert_array_equal(one, other, err_msg=name)
    np.testing.assert_array_equal(fitted[-1], files[-1])
    assert len(fitted) == len(files) == len(transformed) + 1  # the labels


def test_times_and_decimals_are_the_same_arrays(spark: SparkSession, tmp_path: Path) -> None:
    """Days, microseconds, the nearest floats; timestamps in the 96 bits that Spark writes."""
    path = str(tmp_path / "times")
    _frame(spark, TIMES).withColumn("row", F.lit(3)).coalesce(1).write.parquet(path)
    frame = spark.read.parquet(path)
    given = {name: name for name in TIMES} | {"floats": ["day", "moment", "exact"]}
    asked = {"featuresCol": given, "inputShapes": {"prices": [2]}}
    params = _params("skip", labelCol="day", **asked)
    with prepare_rows(frame, params) as prepared:
        kept = _through_fit(prepared)
        row_format = prepared.format
    assert {len(kept[place]) for place in (2, 3, -1)} == {1}
    assert kept[-1].tolist() == [20781]
    _, invalid = _through_transform(frame, row_format, None, given)
    assert [rows is None or not rows[0] for rows in invalid] == [True] * len(given)
    huge, exact, day, moment, clock, *_, floats = _filled(frame, row_format, given)
    assert huge.tolist() == [2**63 - 1, 7, 7, -(2**63), 7]
    assert exact.tolist() == np.float32([0.1, 7, 123456789.987654321, 0, -1]).tolist()
    assert day.tolist() == [20781, 7, 0, -25509, 2932896]
    assert moment.tolist()[:3] == [1774747800123456, 7, -1]
    assert clock.tolist()[:3] == [1774751400123456, 7, -1]
    assert floats[0].tolist() == [20781, np.float32(1774747800123456), np.float32(0.1)]
    params = _params("fill", labelCol="row", **asked)
    with prepare_rows(frame, params) as prepared:
        fitted = _through_fit(prepared)
    files = _through_files(spark, path, params)
    transformed, _ = _through_transform(frame, row_format, FILL, given)
    names = _names(row_format)
    for name, one, two, three in zip(names, fitted, files, transformed, strict=False):
        for other in (two, three):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), name
            np.testing.assert_array_equal(one, other, err_msg=name)


def _filled(frame: DataFrame, row_format: RowFormat, given: Any) -> list[np.ndarray]:
    return _through_transform(frame, row_format, FILL, given)[0]


def test_the_same_rows_are_invalid(spark: SparkSession, written: str) -> None:
    frame = spark.read.parquet(written)
    params = _params("fill")
    plan = plan_rows(frame, params)
    features = [each for each in plan.sources if each.role == "features"]
    flags = [is_invalid(each, quoted(each.name)).alias(each.name) for each in features]
    by_sql = _arrow(plan.selected.select(*flags)).to_pydict()
    with prepare_rows(frame, params) as prepared:
        row_format = prepared.format
    _, by_transform = _through_transform(frame, row_format, None)
    inputs = {each.name: each for each in row_format.features}
    columns = tuple(
        InputColumns(
            inputs[each.name], SCALARS if each.form == "scalar" else each.form, each.columns
        )
        for each in features
    )
    stored = pq.read_table(written)
    given = [stored.column(name) for each in columns for name in each.columns]
    by_files = RowSchema(columns, NON_FINITE).decode(given)
    for each, masked, rows in zip(features, by_transform, by_files, strict=True):
        assert rows.invalid is not None
        assert rows.invalid.tolist() == by_sql[each.name], each.name
        assert masked.tolist() == by_sql[each.name], each.name
    assert by_sql["image"] == [False, True, True, True, False]


def _chunked(array: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([array[:1], array[1:1], array[1:]])


def _sliced(array: pa.Array) -> pa.Array:
    return pa.concat_arrays([array[-1:], array, array[:2]])[1 : 1 + len(array)]


def _dictionary(array: pa.Array) -> pa.Array:
    if pa.types.is_list(array.type):
        values = array.values.dictionary_encode()
        return pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null())
    return array.dictionary_encode()


def _large(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_string(kind):
        return array.cast(pa.large_string())
    if pa.types.is_list(kind) and pa.types.is_list(kind.value_type):
        return array.cast(pa.large_list(pa.large_list(kind.value_type.value_type)))
    return array.cast(pa.large_list(kind.value_type))


def _hidden_values(array: pa.Array) -> pa.Array:
    """Null lists that nevertheless have elements, as Arrow allows."""
    filled = array.fill_null(array[0])
    mask = array.is_null()
    return pa.ListArray.from_arrays(filled.offsets, filled.values, mask=mask)


ENCODED = {
    "word": pa.array(["ä", None, "", "ä", "b"]),
    "whole": pa.array([1, None, 3, 1, 5]),
    "pair": pa.array([[1.0, 2.0], None, [None, 3.0], [NAN, 4.0], [5.0, 6.0]]),
    "ids": pa.array([[3, 1], None, [], [None, 3], [5]]),
    "words": pa.array([["a", "ä"], None, [], [None, "a"], [""]]),
    "image": pa.array([[[1.0], [2.0]], None, [[5.0], [None]], [None, [3.0]], [[7.0], [8.0]]]),
}
OF_COLUMN = {
    "word": InputColumns(Input("word", DENSE, "string", ()), SCALARS, ("word",)),
    "whole": InputColumns(Input("whole", DENSE, "int64", ()), SCALARS, ("whole",)),
    "pair": InputColumns(Input("pair", DENSE, "float32", (2,)), ARRAY, ("pair",)),
    "ids": InputColumns(Input("ids", RAGGED, "int64", ()), ARRAY, ("ids",)),
    "words": InputColumns(Input("words", RAGGED, "string", ()), ARRAY, ("words",)),
    "image": InputColumns(Input("image", DENSE, "float32", (2,)), ARRAY, ("image",)),
}


@pytest.mark.parametrize(
    ("name", "encode"),
    [
        *((name, each) for name in ENCODED for each in (_chunked, _sliced)),
        *((name, _dictionary) for name in ("word", "whole", "pair", "ids", "words")),
        *((name, _large) for name in ("word", "pair", "ids", "words", "image")),
        *((name, _hidden_values) for name in ("pair", "ids", "words")),
        ("pair", lambda array: array.cast(pa.list_(pa.float64(), 2))),
        ("whole", lambda array: array.cast(pa.uint64())),
        ("whole", lambda array: array.cast(pa.float64())),
        ("whole", lambda array: array.cast(pa.int8())),
        ("whole", lambda array: array.cast(pa.decimal128(19, 0))),
    ],
)
@pytest.mark.parametrize("fill", [None, FILL])
def test_how_arrow_lays_values_out_does_not_matter(
    name: str, encode: Callable[[pa.Array], Any], fill: float | None
) -> None:
    schema = RowSchema((OF_COLUMN[name],), NON_FINITE, fill)
    (plain,) = schema.decode([ENCODED[name]])
    (other,) = schema.decode([encode(ENCODED[name])])
    for one, two in zip(plain.components(), other.components(), strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(plain.invalid, other.invalid)
    assert plain.column().equals(other.column())
    assert plain.column().type == OF_COLUMN[name].input.column_type


@pytest.mark.parametrize("name", list(ENCODED))
def test_tf_data_has_the_same_arrays_of_valid_rows(name: str) -> None:
    schema = RowSchema((OF_COLUMN[name],), NON_FINITE)
    (found,) = schema.decode([ENCODED[name]])
    valid = ENCODED[name].filter(pa.array(~found.invalid))
    if name in ("ids", "words", "image"):
        valid = valid[:1]  # tf.data needs one length
    (rows,) = schema.decode([valid])
    if name == "pair":
        valid = valid.cast(pa.list_(pa.float32()))
    if name == "image":
        return  # nor does it support lists of lists
    dataset = tf.data.Dataset.from_arrow(pa.table({"x": _chunked(valid)}))
    following = dataset.batch(ROWS).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        given = session.run(following)["x"]
    values = rows.components()[0 if rows.lengths is None else 1]
    np.testing.assert_array_equal(given.reshape(values.shape), values)


WRONG = {
    "lengths": (OF_COLUMN["pair"], pa.array([[1.0, 2.0], [3.0], []])),
    "nested": (OF_COLUMN["image"], pa.array([[[1.0], [2.0]], [[3.0, 4.0], []]])),
    "empty": (OF_COLUMN["pair"], pa.array([[]], pa.list_(pa.float32()))),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_other_lengths_are_the_same_error(case: str) -> None:
    columns, array = WRONG[case]
    with pytest.raises(InvalidArgumentError) as by_rules:
        RowSchema((columns,), NANS).decode([array])
    row_format = RowFormat((columns.input,), None, None, named=False)
    batch = pa.RecordBatch.from_pydict(
        {columns.input.name: array, ROW_NUMBER: np.arange(len(array))}
    )
    with pytest.raises(DataLossError) as by_fit:
        convert(batch, row_format)
    assert by_fit.value.message.startswith(by_rules.value.message)


def test_numbers_that_whole_ones_cannot_hold_are_invalid() -> None:
    """A NaN instead of an integer used to be fed as the smallest integer."""
    for array in (
        pa.array([1.0, NAN, float("inf"), 1e30, 4.0]),
        pa.array([1, None, 2**63, 2**64 - 1, 4], pa.uint64()),
    ):
        (found,) = RowSchema((OF_COLUMN["whole"],), NANS, FILL).decode([array])
        assert found.components()[0].tolist() == [1, 7, 7, 7, 4]


def test_zeros_of_dense_vectors_are_not_stored() -> None:
    kind = pa.struct(
        {
            "type": pa.int8(),
            "size": pa.int32(),
            "indices": pa.list_(pa.int32()),
            "values": pa.list_(pa.float64()),
        }
    )
    rows = [
        {"type": 1, "size": None, "indices": None, "values": [0.0, 2.0, 0.0]},
        {"type": 0, "size": 3, "indices": [0, 2], "values": [0.0, 5.0]},
    ]
    wanted = InputColumns(Input("v", SPARSE, "float32", (3,)), VECTOR, ("v",))
    (found,) = RowSchema((wanted,)).decode([pa.array(rows, kind)])
    assert found.components()[0].tolist() == [[0, 1], [1, 0], [1, 2]]


def test_weights_are_not_negative() -> None:
    weight = InputColumns(Input("weight", DENSE, "float32", ()), SCALARS, ("w",), "weight")
    (found,) = RowSchema((weight,), fill=1.0).decode([pa.array([1.0, -1.0])])
    assert found.invalid is not None
    assert found.invalid.tolist() == [False, True]
