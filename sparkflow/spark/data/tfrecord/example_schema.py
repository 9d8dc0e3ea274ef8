"""Spark schemas of `tf.train.Example` records: inferred from some, or given and checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from sparkflow.spark.data.tfrecord.decoding import feature_kind, features_of
from sparkflow.spark.data.tfrecord.examples import BYTES, FLOAT, INT64, FeatureColumn, RecordError

_KINDS: dict[type[DataType], str] = {
    BooleanType: INT64,
    ByteType: INT64,
    ShortType: INT64,
    IntegerType: INT64,
    LongType: INT64,
    FloatType: FLOAT,
    DoubleType: FLOAT,
    BinaryType: BYTES,
    StringType: BYTES,
}
_TYPES: dict[str, DataType] = {INT64: LongType(), FLOAT: FloatType(), BYTES: BinaryType()}


@dataclass(slots=True)
class _Seen:
    kind: str
    is_list: bool


def infer_schema(records: Iterable[bytes]) -> StructType:
    """Infers the schema of records, with columns in the order of their names.

    int64 lists become bigint, float lists float, bytes lists binary. A feature that has exactly one
    value whenever it is present becomes a scalar column, any other one an array. Features that are
    empty in all records are left out.

    Raises:
        RecordError: A record is not an Example, or a feature has lists of two kinds.
    """
    seen: dict[str, _Seen] = {}
    for row, record in enumerate(records):
        for name, feature in features_of(row, record).items():
            found = feature_kind(feature)
            if found is None:
                continue
            kind, count = found
            before = seen.setdefault(name, _Seen(kind, False))
            if before.kind != kind:
                raise RecordError(
                    row,
                    f"its feature {name!r} is a {kind}_list, but a {before.kind}_list in an "
                    "earlier record: specify a schema without it, or rewrite the files",
                )
            before.is_list = before.is_list or count != 1
    return StructType(
        [
            StructField(name, ArrayType(_TYPES[each.kind]) if each.is_list else _TYPES[each.kind])
            for name, each in sorted(seen.items())
        ]
    )


def feature_columns(schema: StructType) -> list[FeatureColumn]:
    """Returns the feature that each column of a schema becomes.

    Raises:
        ValueError: A column has a type that no feature can represent.
    """
    arrow = to_arrow_schema(schema)
    return [_column(field, arrow.field(at).type) for at, field in enumerate(schema.fields)]


def _column(field: StructField, arrow_type: pa.DataType) -> FeatureColumn:
    is_list = isinstance(field.dataType, ArrayType)
    element = field.dataType.elementType if isinstance(field.dataType, ArrayType) else None
    kind = _KINDS.get(type(element or field.dataType))
    if kind is None:
        raise ValueError(
            f"Column {field.name!r} is {field.dataType.simpleString()}; a tf.train.Feature holds "
            "whole numbers or booleans, float or double (stored as float32), string or binary, or "
            "an array of them. Cast or drop the column; convert vectors with "
            "pyspark.ml.functions.vector_to_array"
        )
    return FeatureColumn(field.name, kind, is_list, arrow_type)
