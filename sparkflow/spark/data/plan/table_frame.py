"""A DataFrame of files that Spark's Python workers read, so Spark need not support the format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import BooleanType, StructField, StructType

from sparkflow.spark.data.parquet.footers import ParquetFiles
from sparkflow.spark.data.parquet.shares import DRAWN, ParquetShare, deal_groups, read_tables
from sparkflow.spark.data.spool.spool import MESSAGE_COLUMN
from sparkflow_runtime.resources.datasets.arrow_columns import as_objects

_MOST_PARTS = 200
_SIGNED: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
_VECTOR_FIELDS: Final = ("type", "size", "indices", "values")


def text_rows(session: SparkSession, texts: Sequence[str | None]) -> DataFrame:
    """Returns a DataFrame with one partition per text, which has the text in its only row."""
    lookup = F.lit([text or "" for text in texts])
    message = F.element_at(lookup, (F.col("id") + 1).cast("int")).alias(MESSAGE_COLUMN)
    return session.range(0, len(texts), 1, len(texts)).select(message)


def frame_of(
    session: SparkSession, files: ParquetFiles, fraction: float = 0.0, seed: int = 0
) -> DataFrame:
    """Returns all rows, with the columns whose type Spark supports.

    Args:
        session: The session that reads them.
        files: The files of the rows.
        fraction: The fraction of rows drawn for validation, which the column `DRAWN` marks.
        seed: The seed of that draw.
    """
    fields = list(_fields(files.schema))
    names = [field.name for field in fields]
    parts = min(len(files.groups), _MOST_PARTS)
    texts = []
    for pieces in deal_groups(files.groups, parts, None):
        layouts = files.layouts.of_pieces(pieces, names)
        share = ParquetShare(
            files.uri,
            pieces,
            (),
            layouts=layouts,
            origin=files.origin,
            fraction=fraction,
            seed=seed,
        )
        texts.append(json.dumps({"share": share.to_json(), "names": names}))
    if fraction:
        fields.append(StructField(DRAWN, BooleanType()))
    rows: Any = text_rows(session, texts)
    found: DataFrame = rows.mapInArrow(_read, StructType(fields))
    return found


def readable(kind: pa.DataType) -> pa.DataType:
    """Returns the type that Spark reads values of a type of Parquet as: it has no unsigned ones."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        element = readable(kind.value_type)
        return kind if element == kind.value_type else pa.list_(element)
    return _SIGNED.get(kind, kind)


def is_vector(kind: pa.DataType) -> bool:
    """Whether the type is the storage type of Spark ML vectors."""
    return pa.types.is_struct(kind) and tuple(field.name for field in kind) == _VECTOR_FIELDS


def _fields(schema: pa.Schema) -> Iterator[StructField]:
    for each in schema:
        if is_vector(each.type):
            yield StructField(each.name, VectorUDT())
            continue
        try:
            kind = from_arrow_type(readable(each.type), prefer_timestamp_ntz=True)
            yield StructField(each.name, kind)
        except Exception:  # noqa: S112  a type that Spark lacks
            continue


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for text in as_objects(batch.column(MESSAGE_COLUMN)):
            given = json.loads(text)
            share = ParquetShare.from_json(given["share"])
            names = [*given["names"], *([DRAWN] if share.fraction else [])]
            for table in read_tables(share, given["names"]):
                table = table.select(names)
                kinds = [field.with_type(readable(field.type)) for field in table.schema]
                yield from table.cast(pa.schema(kinds)).to_batches()
