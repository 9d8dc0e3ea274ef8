"""A worker's share of Parquet files: row groups and their conversion to rows, without Spark.

The driver reads only the footers and distributes the row groups in an order drawn from the seed, so
that each worker gets rows from all files. Shares are equal: a group that crosses the boundary of
two shares is read by both workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkflow.spark.data.parquet.file_layout import (
    NO_LAYOUTS,
    FileLayouts,
    group_table,
    group_tables,
    open_parquet,
)
from sparkflow.spark.data.parquet.footers import RowGroup, open_location
from sparkflow.spark.data.schema.row_format import ROW_NUMBER, VALIDATES
from sparkflow.spark.data.schema.row_schema import WEIGHT, InputColumns, RowSchema
from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError
from sparkflow_runtime.resources.datasets.arrow_columns import numbers, whole

DRAWN: Final = "__sparkflow_drawn"
"""The column of unconverted rows that marks validation rows."""
_ROWS_AT_ONCE: Final = 10_000
_MAX_GROUP_BYTES: Final = 256 << 20
"""Row groups with more bytes than this are read piece by piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of rows of one row group.

    Attributes:
        file: The path.
        group: The row group's number.
        first: The first row within the group, not counting deleted rows.
        count: The number of rows.
        number: The number of the first row among the rows of all files.
        size_bytes: Their approximate size.
    """

    file: str
    group: int
    first: int
    count: int
    number: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ParquetShare:
    """The share of one worker and how to read it.

    Attributes:
        uri: The URI of the files, which determines the file system.
        pieces: The rows to read.
        columns: The inputs to create, and their columns.
        invalid: What happens to rows with nulls, NaNs or infinities: `error`, `skip` or `fill`.
        fill: The value that replaces invalid elements.
        indicator: A boolean column that is true for validation rows; empty for none.
        fraction: The fraction of rows drawn for validation, by seed and row number.
        seed: The seed of that draw.
        weight: The name of the input of weights, if classes have weights.
        class_column: The label column that determines the class weights; empty for none.
        class_weights: Weight factors by label.
        layouts: Layouts of the files that are not read as they are.
        origin: What the files belong to (a table), for error texts; empty for plain files.
    """

    uri: str
    pieces: tuple[Piece, ...]
    columns: tuple[InputColumns, ...]
    invalid: str = "error"
    fill: float = 0.0
    indicator: str = ""
    fraction: float = 0.0
    seed: int = 0
    weight: str = "weight"
    class_column: str = ""
    class_weights: tuple[tuple[float, float], ...] = ()
    layouts: FileLayouts = NO_LAYOUTS
    origin: str = ""

    @property
    def size_bytes(self) -> int:
        """The approximate size of the rows."""
        return sum(piece.size_bytes for piece in self.pieces)

    @property
    def names(self) -> list[str]:
        """The columns to read."""
        names = [name for column in self.columns for name in column.columns]
        return list(dict.fromkeys([*names, *filter(None, (self.indicator, self.class_column))]))

    def to_json(self) -> dict[str, Any]:
        """Returns the object as JSON types."""
        pieces = [asdict(piece) for piece in self.pieces]
        columns = [each.to_json() for each in self.columns]
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        layouts = self.layouts.to_json()
        return {**plain, "pieces": pieces, "columns": columns, "layouts": layouts}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ParquetShare:
        """Creates the object from the result of `to_json`."""
        return cls(
            **{
                **value,
                "pieces": tuple(Piece(**piece) for piece in value["pieces"]),
                "columns": tuple(map(InputColumns.from_json, value["columns"])),
                "layouts": FileLayouts.from_json(value["layouts"]),
                "class_weights": tuple((label, factor) for label, factor in value["class_weights"]),
            }
        )


def deal_groups(
    groups: Sequence[RowGroup], workers: int, seed: int | None
) -> list[tuple[Piece, ...]]:
    """Divides row groups among workers, whose numbers of rows differ by at most one.

    Args:
        groups: All row groups.
        workers: The number of shares.
        seed: Determines the order in which groups are distributed; None keeps the files' order.
    """
    total = sum(group.rows for group in groups)
    order = np.arange(len(groups))
    if seed is not None:
        np.random.default_rng(seed).shuffle(order)
    ends = [total * (worker + 1) // workers for worker in range(workers)]
    shares: list[list[Piece]] = [[] for _ in range(workers)]
    worker = position = 0
    for index in order:
        group = groups[int(index)]
        first = 0
        while first < group.rows:
            while position == ends[worker]:
                worker += 1
            count = min(group.rows - first, ends[worker] - position)
            size = group.size_bytes * count // group.rows
            piece = Piece(group.file, group.index, first, count, group.number + first, size)
            shares[worker].append(piece)
            first += count
            position += count
    return [tuple(share) for share in shares]


def read_share(share: ParquetShare) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a share as batches for `RowSpool.take`. Reads ahead in threads.

    Raises:
        InvalidArgumentError: Rows have nulls, NaNs or infinities and `invalid` is `error`, or
            arrays have a wrong length.
    """
    system, _ = open_location(share.uri)
    threads = max(1, min(pa.cpu_count(), 4))
    # Either row groups are decoded at the same time, or the columns of one.
    by_column = len(share.pieces) < threads
    waiting: deque[Future[Iterable[pa.RecordBatch]]] = deque()
    with ThreadPoolExecutor(threads, "parquet") as pool:
        try:
            for piece in share.pieces:
                waiting.append(pool.submit(_read, system, share, piece, by_column))
                if len(waiting) > threads:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def read_tables(share: ParquetShare, names: Sequence[str]) -> Iterator[pa.Table]:
    """Yields the rows of a share unconverted, with these columns.

    If some of them are drawn for validation, the column `DRAWN` marks these.
    """
    system, _ = open_location(share.uri)
    for piece in share.pieces:
        for part, table in _parts(system, share, piece, names, _ROWS_AT_ONCE):
            if share.fraction:
                drawn = drawn_for_validation(share.seed, part, share.fraction)
                table = table.append_column(DRAWN, pa.array(drawn))
            yield table


def count_share(share: ParquetShare) -> tuple[int, int]:
    """Counts the training and validation rows of a share, excluding invalid ones."""
    train = validation = 0
    for batch in read_share(share):
        found = int(pc.sum(batch.column(VALIDATES)).as_py() or 0) if _splits(share) else 0
        validation += found
        train += batch.num_rows - found
    return train, validation


def drawn_for_validation(seed: int, piece: Piece, fraction: float) -> Any:
    """Returns [count] bool: the validation rows of a piece, by seed and row number only."""
    numbers = np.arange(piece.number, piece.number + piece.count, dtype=np.uint64)
    # splitmix64 scrambles consecutive numbers as well as a generator does, in any order.
    with np.errstate(over="ignore"):
        z = (numbers + np.uint64(seed + 1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)) * (1.0 / (1 << 53)) < fraction


def _splits(share: ParquetShare) -> bool:
    return bool(share.indicator) or share.fraction > 0


def _read(
    system: Any, share: ParquetShare, piece: Piece, by_column: bool
) -> Iterable[pa.RecordBatch]:
    """Returns the rows of a piece; those of a large row group are read while they are taken."""
    # Pieces are large, so opening the file for each costs little; readers are not thread-safe.
    with _opened(system, share, piece.file) as source:
        file = open_parquet(source)
        rows = file.metadata.row_group(piece.group).num_rows
        if piece.size_bytes * rows // piece.count > _MAX_GROUP_BYTES:
            most = max(1, piece.count * _MAX_GROUP_BYTES // piece.size_bytes)
            parts = _parts(system, share, piece, share.names, most, by_column=True)
            return (_convert(share, *part) for part in parts)
        group = piece.file, piece.group, share.names, share.layouts
        table = group_table(file, *group, by_column)
        return [_convert(share, piece, table.slice(piece.first, piece.count))]


def _parts(
    system: Any,
    share: ParquetShare,
    piece: Piece,
    names: Sequence[str],
    rows: int,
    by_column: bool = False,
) -> Iterator[tuple[Piece, pa.Table]]:
    """Yields a piece in parts of at most `rows` rows, in one pass over its row group."""
    seen, end_of_piece = 0, piece.first + piece.count
    with _opened(system, share, piece.file) as source:
        group = piece.file, piece.group, names, share.layouts
        for table in group_tables(open_parquet(source), *group, rows, by_column):
            end = seen + table.num_rows
            first, last = max(piece.first, seen), min(end_of_piece, end)
            if first < last:
                number = piece.number + first - piece.first
                part = replace(piece, first=first, count=last - first, number=number)
                yield part, table.slice(first - seen, last - first)
            seen = end
            if seen >= end_of_piece:
                return


def _opened(system: Any, share: ParquetShare, path: str) -> Any:
    try:
        return system.open_input_file(path)
    except FileNotFoundError as error:
        of = f" of {share.origin}" if share.origin else ""
        raise NotFoundError(
            message=f"The file {path}{of} existed when training began, but was deleted "
            "since, for example by vacuuming the table or expiring its snapshots. Train again on "
            "the current files, or keep old files for as long as training takes"
        ) from error


def _convert(share: ParquetShare, piece: Piece, table: pa.Table) -> pa.RecordBatch:
    columns: dict[str, Any] = {}
    invalid: Any = None
    schema = RowSchema(share.columns, fill=share.fill if share.invalid == "fill" else None)
    given = [table.column(name) for column in share.columns for name in column.columns]
    for column, made in zip(share.columns, schema.decode(given), strict=True):
        columns[column.input.name] = made.column()
        if made.invalid is None:
            continue
        if share.invalid != "skip":
            names = ", ".join(map(repr, column.columns[:3]))
            more = ", and negative weights" if column.role == WEIGHT else ""
            raise InvalidArgumentError(
                message=f"Nulls, NaNs and infinities{more} cannot be trained on. "
                f"{int(made.invalid.sum())} of {table.num_rows} rows from row {piece.number} on "
                f"have some in {names} ({piece.file}, row group {piece.group}). "
                "handleInvalid='skip' leaves such rows out, 'fill' replaces them in features"
            )
        invalid = made.invalid if invalid is None else invalid | made.invalid
    if share.class_column:
        columns[share.weight] = _weighted(share, table, columns.get(share.weight))
    columns[ROW_NUMBER] = pa.array(np.arange(piece.number, piece.number + piece.count))
    if share.indicator:
        flags = table.column(share.indicator).combine_chunks()
        columns[VALIDATES] = pc.fill_null(flags.cast(pa.bool_()), False)
    elif share.fraction > 0:
        columns[VALIDATES] = pa.array(drawn_for_validation(share.seed, piece, share.fraction))
    batch = pa.RecordBatch.from_pydict(columns)
    return batch if invalid is None else batch.filter(pa.array(~invalid))


def _weighted(share: ParquetShare, table: pa.Table, weights: pa.Array | None) -> pa.Array:
    labels = numbers(whole(table.column(share.class_column)))
    factors = np.ones(len(labels), np.float32)
    for label, factor in share.class_weights:
        factors[labels == label] = factor
    if weights is not None:
        factors *= numbers(weights)
    return pa.array(factors)
