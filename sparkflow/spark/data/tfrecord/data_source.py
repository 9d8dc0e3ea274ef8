"""`tfrecord`: files of `tf.train.Example` records as DataFrames (Spark 4's Python data source).

See `docs/tfrecord.md` for schemas, options and guarantees.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        InputPartition,
        WriterCommitMessage,
    )
except ImportError as error:
    raise ImportError(
        "The tfrecord data source needs Spark's Python data sources, which require pyspark 4.0"
    ) from error
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from sparkflow.spark.data.tfrecord.decoding import decode_columns
from sparkflow.spark.data.tfrecord.encoding import encode_records
from sparkflow.spark.data.tfrecord.example_schema import feature_columns, infer_schema
from sparkflow.spark.data.tfrecord.examples import FeatureColumn, RecordError
from sparkflow.spark.data.tfrecord.record_files import (
    Staging,
    compression_of,
    find_files,
    numbered_records,
)
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.resources.datasets.arrow_columns import texts

_BATCH_RECORDS: Final = 10_000
_BATCH_BYTES: Final = 8 << 20
_INFERENCE_RECORDS: Final = 10_000
# Maximum number of partitions; more would cost more to plan than they gain.
_MOST_PARTITIONS: Final = 10_000
_EXAMPLE: Final = "example"
_BYTE_ARRAY: Final = "bytearray"
_RAW_SCHEMA: Final = StructType([StructField("byteArray", BinaryType())])


@dataclass(frozen=True, slots=True)
class _Files(InputPartition):
    """The files that one task reads."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Written(WriterCommitMessage):
    """The file that one task wrote; the name is empty if there were no rows."""

    name: str | None
    records: int


class TFRecordDataSource(DataSource):
    """Reads and writes TFRecord files: `spark.dataSource.register(TFRecordDataSource)`.

    Options for reading and writing: `recordType` is `Example` (default), or `ByteArray` for whole
    records in one binary column. For reading: `inferenceRecords`, the number of records from which
    the schema is inferred (10000; 0 for all). For writing: `compression`, `none` (default), `gzip`
    or `zlib`.

    Examples:
        >>> spark.dataSource.register(TFRecordDataSource)  # doctest: +SKIP
        >>> df = spark.read.format("tfrecord").load("/data/train")  # doctest: +SKIP
        >>> df.write.format("tfrecord").mode("overwrite").save("/data/copy")  # doctest: +SKIP
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "tfrecord"

    def schema(self) -> StructType:
        """Returns the schema inferred from the first records of the files.

        Raises:
            ValueError: There are no records, or their schemas conflict.
        """
        if _record_type(self.options) == _BYTE_ARRAY:
            return _RAW_SCHEMA
        files = find_files(_paths(self.options))
        limit = _count_option(self.options, "inferenceRecords", _INFERENCE_RECORDS)
        schema = _infer(files, limit)
        if not schema.fields:
            raise ValueError(
                f"No schema can be found in {', '.join(_paths(self.options))}: {len(files)} files "
                "without a record that has features. Specify it with .schema(...)"
            )
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of the files for a schema."""
        return _Reader(_paths(self.options), schema, _record_type(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns the writer of a DataFrame, which writes one file per non-empty partition."""
        paths = _paths(self.options)
        if len(paths) != 1:
            raise ValueError(f"The tfrecord source writes to one path, got {len(paths)}")
        compression, suffix = compression_of(
            self.options.get("compression") or self.options.get("codec") or "none"
        )
        return _Writer(
            Staging(paths[0], uuid.uuid4().hex),
            _columns(schema, _record_type(self.options)),
            compression,
            suffix,
            overwrite,
        )


class _Reader(DataSourceReader):
    def __init__(self, paths: Sequence[str], schema: StructType, record_type: str) -> None:
        self._paths = paths
        self._schema = schema
        self._columns = _columns(schema, record_type)

    def partitions(self) -> Sequence[InputPartition]:
        files = find_files(self._paths)
        count = min(len(files), _MOST_PARTITIONS)
        return [_Files(tuple(files[start::count])) for start in range(count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Without files, Spark creates one partition itself.
        paths = partition.paths if isinstance(partition, _Files) else ()
        arrow = to_arrow_schema(self._schema)
        for path in paths:
            for offsets, records in _batches(path):
                if self._columns is None:
                    arrays = [pa.array(records, pa.binary())]
                else:
                    arrays = _decoded(path, offsets, records, self._columns)
                yield (
                    pa.RecordBatch.from_arrays(
                        [a.cast(f.type) for a, f in zip(arrays, arrow, strict=True)], schema=arrow
                    )
                    if arrays
                    else _without_columns(len(records))
                )


class _Writer(DataSourceArrowWriter):
    def __init__(
        self,
        staging: Staging,
        columns: list[FeatureColumn] | None,
        compression: str,
        suffix: str,
        overwrite: bool,
    ) -> None:
        self._staging = staging
        self._columns = columns
        self._compression = compression
        self._suffix = suffix
        self._overwrite = overwrite

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None, "Spark writes in tasks"
        records = self._records(iterator)
        first = next(records, None)
        if first is None:
            return _Written(None, 0)
        # A task that runs twice writes two files, only one of which is committed.
        name = (
            f"part-{context.partitionId():05d}-{self._staging.job}-{context.taskAttemptId()}"
            f".tfrecord{self._suffix}"
        )
        count = self._staging.write(name, chain([first], records), self._compression)
        return _Written(name, count)

    def _records(self, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
        for batch in batches:
            if self._columns is None:
                yield from texts(batch.column(0)).tolist()
            else:
                yield from encode_records(batch, self._columns)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = [each for each in messages if isinstance(each, _Written)]
        self._staging.commit([each.name for each in written if each.name], self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._staging.abort()


def _batches(path: str) -> Iterator[tuple[list[int], list[bytes]]]:
    """Yields a file's records with their offsets, in groups of a size suited to Arrow batches."""
    offsets: list[int] = []
    records: list[bytes] = []
    size = 0
    for offset, record in numbered_records(path):
        offsets.append(offset)
        records.append(record)
        size += len(record)
        if len(records) == _BATCH_RECORDS or size >= _BATCH_BYTES:
            yield offsets, records
            offsets, records, size = [], [], 0
    if records:
        yield offsets, records


def _decoded(
    path: str, offsets: Sequence[int], records: Sequence[bytes], columns: Sequence[FeatureColumn]
) -> list[pa.Array]:
    try:
        return decode_columns(records, columns)
    except RecordError as error:
        raise DataLossError(
            message=f"{path}: record at byte {offsets[error.row]} cannot be read: {error.reason}"
        ) from error


def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def _infer(files: Sequence[str], limit: int) -> StructType:
    """Infers the schema from the first `limit` records of the files; from all if it is 0."""
    share = max(1, -(-limit // max(len(files), 1))) if limit else None
    taken = files if limit == 0 else files[:limit]
    seen: list[tuple[str, int]] = []

    def records() -> Iterator[bytes]:
        for path in taken:
            for offset, record in islice(numbered_records(path), share):
                seen[:] = [(path, offset)]
                yield record

    try:
        return infer_schema(records())
    except RecordError as error:
        path, offset = seen[0]
        raise DataLossError(
            message=f"{path}: record at byte {offset} has no usable schema: {error.reason}"
        ) from error


def _columns(schema: StructType, record_type: str) -> list[FeatureColumn] | None:
    """Returns the features of the columns; None if the only column holds whole records."""
    if record_type == _EXAMPLE:
        return feature_columns(schema)
    if [type(field.dataType) for field in schema.fields] != [BinaryType]:
        raise ValueError(
            "recordType=ByteArray needs exactly one binary column, got " + schema.simpleString()
        )
    return None


def _record_type(options: Mapping[str, str]) -> str:
    given = options.get("recordType", _EXAMPLE)
    if given.lower() not in (_EXAMPLE, _BYTE_ARRAY):
        raise ValueError(f"recordType={given!r} is unknown; use Example or ByteArray")
    return given.lower()


def _count_option(options: Mapping[str, str], name: str, default: int) -> int:
    given = options.get(name, str(default))
    if not given.isdecimal():
        raise ValueError(f"{name}={given!r} must be a number of records, 0 for all")
    return int(given)


def _paths(options: Mapping[str, str]) -> list[str]:
    several = options.get("paths")
    found = json.loads(several) if several else []
    single = options.get("path")
    if single:
        found.append(single)
    if not found:
        raise ValueError("The tfrecord source needs a path: load(path) or save(path)")
    return [str(each) for each in found]
