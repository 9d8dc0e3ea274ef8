"""Plans, on the driver, the rows that workers read from Parquet files without the JVM.

The driver reads footers, the first rows, and whole columns only if it has to count validation rows
or classes in them. Columns become inputs by the same rules as for DataFrames.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.ml.linalg import DenseVector, SparseVector, VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.feed_plan import Shards
from sparkflow.spark.data.parquet.footers import ParquetFiles, read_footers
from sparkflow.spark.data.parquet.shares import (
    DRAWN,
    ParquetShare,
    Piece,
    count_share,
    deal_groups,
    drawn_for_validation,
)
from sparkflow.spark.data.parquet.stored_bytes import column_digest
from sparkflow.spark.data.plan import prepare
from sparkflow.spark.data.plan.arrange import ArrangedRows, Placed
from sparkflow.spark.data.plan.invalid import SKIP
from sparkflow.spark.data.plan.partitioning import PlacedRows
from sparkflow.spark.data.plan.prepare import Plan, PreparedRows, plan_rows
from sparkflow.spark.data.plan.profile import is_uneven, profile_rows, refuse_lengths
from sparkflow.spark.data.plan.sources import SCALAR
from sparkflow.spark.data.plan.table_frame import frame_of, is_vector, readable, text_rows
from sparkflow.spark.data.plan.weights import class_factors
from sparkflow.spark.data.schema.row_format import DENSE, RowFormat
from sparkflow.spark.data.schema.row_schema import LABEL, SCALARS, InputColumns
from sparkflow.spark.data.spool.spool import MESSAGE_COLUMN
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.tables.data_rows import STRATIFIED
from sparkflow_runtime.resources.datasets.arrow_columns import (
    as_objects,
    as_python_has_them,
    plain,
)

_SAMPLE_ROWS: Final = 64


def parquet_rows(
    session: SparkSession,
    given: str | ParquetFiles,
    config: FitConfig,
    wants_rows: bool = False,
    wanted: ClusterLayout | None = None,
) -> ArrangedRows:
    """Prepares the rows of Parquet files and distributes them to workers by row group.

    With `handleInvalid='skip'`, blocks for a Spark job whose tasks count the remaining rows. The
    set of files is fixed by this call, even if rows are placed again later.

    Args:
        session: The session in which training runs.
        given: A file or directory on a file system that pyarrow supports and that driver and
            executors reach by the same name; or the files of one version of a table.
        config: Columns and policies.
        wants_rows: Whether all rows are examined before training; Spark must then support the file
            system, too, except for tables.
        wanted: The tasks, whose number of workers the rows may reduce; None for those that the
            parameters set.

    Returns:
        The rows and the function that places them; `prepared.rows` has only the first rows unless
        `wants_rows`.

    Raises:
        FileNotFoundError: There are no files.
        ValueError, TypeError: The files are not Parquet files or have no rows; columns differ
            between files, are missing or cannot be converted to tensors.
    """
    files = read_footers(given) if isinstance(given, str) else given
    if not files.rows:
        what = files.origin or f"The Parquet files in {files.uri!r}"
        raise ValueError(f"{what}: no rows, so there is nothing to train on")
    sample = _sample(session, files)
    _require_types(files, sample, config)
    plan = plan_rows(sample, config)
    profile = profile_rows(plan.selected.coalesce(1), plan.sources)
    for source in plan.sources:
        if is_uneven(source, profile.sources[source.name]):
            refuse_lengths(plan.selected, source, profile.total)
    classes = config.class_weights
    row_format = prepare.format_of(plan, profile, weighted=bool(classes))
    template = _template(files, plan, row_format, config)
    files.require_columns(template.names)
    label = plan.of_role(LABEL)
    factors: Mapping[float, float] = {}
    if classes and label is not None and row_format.label is not None:
        counts = _class_rows(files, label.columns[0])
        factors = class_factors(classes, row_format.label, counts)
        template = replace(
            template, class_column=label.columns[0], class_weights=tuple(factors.items())
        )
    tasks = wanted or config.layout()
    # A worker without rows would have nothing to do.
    most = min(config.num_workers, files.rows)
    seed = config.seed if config.shuffle else None
    in_shards = config.is_elastic and config.in_step

    @functools.cache
    def dealt(count: int) -> _Dealt:
        shares = [
            _share_of(template, files, pieces) for pieces in deal_groups(files.groups, count, seed)
        ]
        return _Dealt(shares, *_count(session, files, shares))

    def place(workers: int | None) -> Placed:
        layout = tasks.of_workers(min(workers or most, most))
        count = layout.num_workers
        found = dealt(most if in_shards else count)
        shards = None
        if in_shards:
            shards = Shards(tuple(found.train), count, by_content=False, ranges=found.ranges)
            found = found.joined(count, lambda pieces: _share_of(template, files, pieces))
        messages = [json.dumps({"parquet": share.to_json()}) for share in found.shares]
        placed = text_rows(session, layout.per_partition(messages, None))
        return layout, PlacedRows(placed, found.train, found.validation, shards)

    first = dealt(most if in_shards else min(tasks.num_workers, most))
    seen = plan
    if wants_rows:
        fraction = config.validation_fraction
        if fraction:  # drawn by row number, which Spark does not know
            rows = frame_of(session, files, fraction, config.seed)
            seen = plan_rows(
                rows, replace(config, validation_fraction=0.0, validation_indicator_col=DRAWN)
            )
        else:
            is_table = bool(files.origin)
            rows = frame_of(session, files) if is_table else session.read.parquet(files.uri)
            seen = plan_rows(rows, config)
    marks = wants_rows and seen.validates
    prepared = PreparedRows(
        rows=prepare.treated_rows(
            seen.selected,
            seen,
            row_format,
            profile,
            factors,
            config,
            seen.sources,
            marks=marks,
        ),
        format=row_format,
        partition_rows={},
        num_rows=sum(first.train),
        num_validation_rows=sum(first.validation),
        skipped={files.origin or files.uri: files.rows - sum(first.train) - sum(first.validation)}
        if template.invalid == SKIP
        else {},
        num_classes=_num_classes(files, row_format, label.columns[0] if label else ""),
        class_factors=factors,
        content=f"bytes:{column_digest(files, template.names)}" if config.saves else "",
    )
    return ArrangedRows(prepared, place, config.is_elastic)


@dataclass(frozen=True, slots=True)
class _Dealt:
    """Row groups in equal shares.

    Attributes:
        shares: The shares.
        train: The number of training rows per share.
        validation: The number of validation rows per share.
    """

    shares: Sequence[ParquetShare]
    train: list[int]
    validation: list[int]

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The row numbers at which pieces begin, in ascending order, and their shares' indices."""
        pairs = (
            (piece.number, index)
            for index, share in enumerate(self.shares)
            for piece in share.pieces
        )
        return tuple(sorted(pairs))

    def joined(self, workers: int, share_of: Callable[[tuple[Piece, ...]], ParquetShare]) -> _Dealt:
        """Returns the same rows by worker; shares are assigned round-robin."""
        of_workers = [range(first, len(self.shares), workers) for first in range(workers)]
        shares = [
            share_of(tuple(piece for each in own for piece in self.shares[each].pieces))
            for own in of_workers
        ]
        train, validation = (
            [sum(rows[each] for each in own) for own in of_workers]
            for rows in (self.train, self.validation)
        )
        return _Dealt(shares, train, validation)


def _share_of(
    template: ParquetShare, files: ParquetFiles, pieces: tuple[Piece, ...]
) -> ParquetShare:
    layouts = files.layouts.of_pieces(pieces, template.names)
    return replace(template, pieces=pieces, layouts=layouts)


def _sample(session: SparkSession, files: ParquetFiles) -> DataFrame:
    """Returns the first rows as a DataFrame."""
    table = files.head(_SAMPLE_ROWS)
    fields = []
    columns: dict[str, list[Any]] = {}
    for field in files.schema:
        column = table.column(field.name)
        if pa.types.is_temporal(field.type):
            column = as_python_has_them(column)
        kind = readable(field.type)
        if kind != field.type:
            column = column.cast(kind)
        values = as_objects(column)
        if is_vector(field.type):
            fields.append(StructField(field.name, VectorUDT()))
            values = [None if value is None else _vector(value) for value in values]
        else:
            try:
                fields.append(StructField(field.name, from_arrow_type(kind, True)))
            except Exception:  # noqa: S112  a type that Spark lacks; no matter unless it is asked for
                continue
        columns[field.name] = values
    rows = list(zip(*columns.values(), strict=True))
    return session.createDataFrame(rows, StructType(fields), verifySchema=False)


def _require_types(files: ParquetFiles, sample: DataFrame, config: FitConfig) -> None:
    """Checks that Spark has the types of the columns that are asked for.

    Raises:
        TypeError: It lacks one.
    """
    given = config.features
    parts = given.values() if isinstance(given, Mapping) else [given]
    asked = [name for part in parts for name in ([part] if isinstance(part, str) else part)]
    for name in (*asked, config.label_col, config.weight_col, config.validation_indicator_col):
        if name in files.schema.names and name not in sample.columns:
            raise TypeError(
                f"The column {name!r} of {files.origin or files.uri!r} is "
                f"{files.schema.field(name).type}, a type that Spark does not have: write "
                "another one, such as float32 instead of halffloat"
            )


def _vector(value: Mapping[str, Any]) -> DenseVector | SparseVector:
    if value["type"] == 1:
        return DenseVector(value["values"])
    return SparseVector(value["size"], value["indices"], value["values"])


def _template(
    files: ParquetFiles, plan: Plan, row_format: RowFormat, config: FitConfig
) -> ParquetShare:
    """Returns the fields that the shares of all workers have in common."""
    inputs = {each.name: each for each in row_format.inputs}
    columns = tuple(
        InputColumns(
            inputs[each.name],
            SCALARS if each.form == SCALAR else each.form,
            each.columns,
            each.role,
        )
        for each in plan.sources
    )
    if config.validation_fraction and config.validation_draw == STRATIFIED:
        raise ValueError(
            "validationDraw='stratified' needs all labels before rows are read, but "
            "fitOnParquet draws each row on its own. Use fit(spark.read.parquet(...)), or mark "
            "rows in validationIndicatorCol"
        )
    return ParquetShare(
        files.uri,
        (),
        columns,
        invalid=config.handle_invalid,
        fill=config.fill_value,
        indicator=config.validation_indicator_col,
        fraction=config.validation_fraction,
        seed=config.seed,
        weight=row_format.weight.name if row_format.weight is not None else "",
        origin=files.origin,
    )


def _class_rows(files: ParquetFiles, column: str) -> dict[Any, int]:
    chunks = [plain(chunk) for part in files.read(column) for chunk in part.chunks]
    counts = pa.chunked_array(chunks).drop_null().value_counts()
    return {each["values"].as_py(): each["counts"].as_py() for each in counts}


def _num_classes(files: ParquetFiles, row_format: RowFormat, column: str) -> int | None:
    label = row_format.label
    if label is None or label.dtype != "int64" or label.kind != DENSE or label.shape != ():
        return None
    found = files.range_of(column)
    if found is None:
        labels = _class_rows(files, column)
        if not labels:
            raise ValueError(
                f"Nulls cannot be trained on. Found in label column {column!r}: {files.rows} of "
                f"{files.rows} rows"
            )
        least, greatest = min(labels), max(labels)
    else:
        least, greatest = as_objects(plain(pa.array(found, files.schema.field(column).type)))
    return int(greatest) + 1 if least >= 0 else None


def _count(
    session: SparkSession, files: ParquetFiles, shares: Sequence[ParquetShare]
) -> tuple[list[int], list[int]]:
    """Returns the numbers of training and validation rows by worker."""
    if shares[0].invalid == SKIP:
        return _count_by_reading(session, shares)
    total = [sum(piece.count for piece in share.pieces) for share in shares]
    validation = [0] * len(shares)
    if shares[0].indicator:
        flags = dict(
            zip(
                ((group.file, group.index) for group in files.groups),
                (part.cast(pa.bool_()) for part in files.read(shares[0].indicator)),
                strict=True,
            )
        )
        for worker, share in enumerate(shares):
            parts = (flags[p.file, p.group].slice(p.first, p.count) for p in share.pieces)
            validation[worker] = sum(pc.sum(part).as_py() or 0 for part in parts)
    elif shares[0].fraction:
        for worker, share in enumerate(shares):
            drawn = (drawn_for_validation(share.seed, p, share.fraction) for p in share.pieces)
            validation[worker] = sum(int(each.sum()) for each in drawn)
    return [rows - out for rows, out in zip(total, validation, strict=True)], validation


def _count_by_reading(
    session: SparkSession, shares: Sequence[ParquetShare]
) -> tuple[list[int], list[int]]:
    texts = [json.dumps(share.to_json()) for share in shares]
    found = text_rows(session, texts).mapInArrow(_count_here, "text string").collect()
    counts = dict(tuple(json.loads(row["text"])) for row in found)
    train, validation = zip(*(counts[text] for text in texts), strict=True)
    return list(train), list(validation)


def _count_here(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        texts = as_objects(batch.column(MESSAGE_COLUMN))
        counts = [(text, count_share(ParquetShare.from_json(json.loads(text)))) for text in texts]
        yield pa.RecordBatch.from_pydict({"text": [json.dumps(each) for each in counts]})
