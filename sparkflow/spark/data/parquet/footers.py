"""Metadata of Parquet files from their footers: row groups, columns, statistics; never rows."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from sparkflow.spark.data.parquet.file_layout import (
    NO_LAYOUTS,
    FileLayout,
    FileLayouts,
    constant_value,
    group_table,
    group_tables,
    open_parquet,
)
from sparkflow.spark.data.parquet.partitions import (
    column_types,
    partition_values,
    read_by_spark,
)
from sparkflow_runtime.files.system import arrow_uri
from sparkflow_runtime.files.table_formats import table_below, table_of

_log = logging.getLogger(__name__)

_FOOTERS_AT_ONCE: Final = 16

Footers = Sequence[tuple[str, Any]]
"""Files and their footers."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group.

    Attributes:
        file: The path within its file system.
        index: Its index in the file.
        rows: Number of rows, without deleted ones.
        size_bytes: Uncompressed size of all columns.
        number: The number of its first row among the rows of all files.
    """

    file: str
    index: int
    rows: int
    size_bytes: int
    number: int


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """Files that together form one table.

    Attributes:
        uri: The URI or path that was requested.
        schema: The columns of all files.
        groups: The row groups in the order of the files' names.
        footers: The paths and footers of the files.
        layouts: Layouts of the files that are not read as they are.
        origin: What the files belong to (a table), for error texts; empty for plain files.
    """

    uri: str
    schema: pa.Schema
    groups: tuple[RowGroup, ...]
    footers: tuple[tuple[str, Any], ...]
    layouts: FileLayouts = NO_LAYOUTS
    origin: str = ""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(group.rows for group in self.groups)

    def range_of(self, column: str) -> tuple[Any, Any] | None:
        """Returns the minimum and maximum of a scalar column; None if a footer lacks them."""
        place = self.schema.get_field_index(column)
        if place >= 0 and pa.types.is_decimal(self.schema.field(place).type):
            return None  # pyarrow's statistics of decimals depend on how they are stored
        found = []
        for path, footer in self.footers:
            layout = self.layouts.of(path)
            if column in layout.constants:
                value = constant_value(layout.constants[column], self.schema.field(column).type)
                found += [value.as_py()] if value.is_valid else []
                continue
            if layout.deleted:
                return None
            name = layout.stored.get(column, column)
            for number in range(footer.num_row_groups):
                group = footer.row_group(number)
                stored = [group.column(index) for index in range(group.num_columns)]
                for each in stored:
                    if each.path_in_schema != name or not group.num_rows:
                        continue
                    if each.statistics is None or not each.statistics.has_min_max:
                        return None
                    try:
                        found += [each.statistics.min, each.statistics.max]
                    except OverflowError:  # a time outside of Python's range
                        return None
        if len(set(map(type, found))) != 1:
            return None  # older files of a table may store an earlier type of the column
        return min(found), max(found)

    def describe(self, columns: Collection[str]) -> Iterator[str]:
        """Yields a line per column and row group about its content, as stated by the footers.

        File names are left out and only their order counts, so a copy has the same description.
        """
        layouts = self.layouts.restricted([path for path, _ in self.footers], columns)
        for path, footer in self.footers:
            layout = layouts.of(path)
            if not layout.is_plain:
                yield f"{json.dumps(layout.to_json(), sort_keys=True)}\n"
            names = layout.columns(columns)
            for number in range(footer.num_row_groups):
                group = footer.row_group(number)
                for index in range(group.num_columns):
                    stored = group.column(index)
                    if stored.path_in_schema.partition(".")[0] not in names:
                        continue
                    found = stored.statistics
                    yield (
                        f"{number} {stored.path_in_schema} {stored.physical_type} "
                        f"{stored.num_values} {stored.total_uncompressed_size} "
                        f"{stored.total_compressed_size} "
                        f"{found.to_dict() if found is not None else ''}\n"
                    )

    def require_columns(self, names: Sequence[str]) -> None:
        """Checks that these columns have the same type in all files.

        Raises:
            ValueError: A column is missing in a file or has another type.
        """
        first, _ = self.footers[0]
        for path, footer in self.footers:
            layout = self.layouts.of(path)
            if layout.converts:
                continue
            other = footer.schema.to_arrow_schema()
            for name in names:
                if name in layout.constants:
                    continue
                one = self.schema.field(name).type
                two = other.field(name).type if name in other.names else None
                if one != two:
                    raise ValueError(
                        f"The column {name!r} is {one} in {first} and {two or 'missing'} in "
                        f"{path}: all files of a fit must have the same columns"
                    )

    def read(self, column: str) -> list[pa.ChunkedArray]:
        """Reads one column in this process and returns its values by row group."""
        system, _ = open_location(self.uri)

        def one(group: RowGroup) -> pa.ChunkedArray:
            with system.open_input_file(group.file) as source:
                file = open_parquet(source)
                return group_table(file, group.file, group.index, [column], self.layouts).column(
                    column
                )

        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            return list(pool.map(one, self.groups))

    def head(self, rows: int) -> pa.Table:
        """Returns the first rows, with all columns."""
        system, _ = open_location(self.uri)
        group = self.groups[0]
        names = self.schema.names
        with system.open_input_file(group.file) as source:
            found = group_tables(
                open_parquet(source), group.file, group.index, names, self.layouts, rows
            )
            return next(each for each in found if each.num_rows).slice(0, rows)


def open_location(uri: str) -> tuple[Any, str]:
    """Returns the file system and path for a path or URI (`file:`, `s3:`, `gs:`, `hdfs:`, `abfs:`).

    Raises:
        ValueError: pyarrow has no file system for it.
    """
    if "://" not in uri and not uri.startswith("file:"):
        return pa.fs.LocalFileSystem(), os.path.abspath(uri)
    try:
        found: tuple[Any, str] = pa.fs.FileSystem.from_uri(arrow_uri(uri))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"pyarrow cannot read {uri!r}: {error}") from error
    return found


def read_footers(uri: str) -> ParquetFiles:
    """Reads the footers of a Parquet file, or of the files that Spark reads from a directory.

    Left out are empty files, hidden ones and those in hidden directories (see `_is_hidden`), and
    those in other directories (see `partitions.read_by_spark`).

    Args:
        uri: A path or URI.

    Raises:
        FileNotFoundError: There are no files.
        ValueError: The files are not Parquet files, or belong to a table format such as Delta.
    """
    system, root = open_location(uri)
    footers = footers_of(system, _files(system, root, uri))
    return files_of(uri, footers, _with_partitions(root, footers))


def footers_of(system: Any, paths: Sequence[str]) -> Footers:
    """Returns the paths and footers of files.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A file is not a Parquet file.
    """

    def read(path: str) -> Any:
        with system.open_input_file(path) as file:
            try:
                return pq.read_metadata(file)
            except pa.ArrowException as error:
                raise ValueError(
                    f"{path} is not a Parquet file ({error}). If it has another format, read it "
                    "with spark.read and use fit(df); if it is damaged, write it again"
                ) from error

    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        footers = list(pool.map(read, paths))
    return tuple(zip(paths, footers, strict=True))


def _with_partitions(root: str, footers: Footers) -> FileLayouts:
    """Returns the columns of the first file and the partition columns in folder names."""
    values = partition_values(root, [path for path, _ in footers])
    types = column_types(values.values())
    stored = [each for each in footers[0][1].schema.to_arrow_schema() if each.name not in types]
    schema = pa.schema([*stored, *(pa.field(name, kind) for name, kind in types.items())])
    files = {path: FileLayout(constants=found) for path, found in values.items() if found}
    return FileLayouts(schema, files)


def files_of(uri: str, footers: Footers, layouts: FileLayouts, origin: str = "") -> ParquetFiles:
    """Returns the files with their row groups, whose rows are numbered consecutively.

    Args:
        uri: Determines the file system.
        footers: The paths and footers, in the order of the rows.
        layouts: The columns, and where they are stored in the files.
        origin: See `ParquetFiles`.
    """
    groups: list[RowGroup] = []
    number = 0
    for path, footer in footers:
        deleted = layouts.of(path).positions()
        first = 0
        for index in range(footer.num_row_groups):
            group = footer.row_group(index)
            end = first + group.num_rows
            rows = group.num_rows - int(np.diff(np.searchsorted(deleted, [first, end]))[0])
            if rows:
                groups.append(RowGroup(path, index, rows, group.total_byte_size, number))
            number, first = number + rows, end
    return ParquetFiles(uri, layouts.schema, tuple(groups), tuple(footers), layouts, origin)


def _files(system: Any, root: str, uri: str) -> list[str]:
    info = system.get_file_info(root)
    if info.type == pa.fs.FileType.NotFound:
        advice = (
            f": name one file or folder; for a pattern, use fit(spark.read.parquet({uri!r}))"
            if set(uri) & set("*?[{,")
            else ""
        )
        raise FileNotFoundError(f"There is no {uri!r}{advice}")
    table = table_of(uri)
    if info.type == pa.fs.FileType.File:
        found = {root: info}
    else:
        listed = system.get_file_info(pa.fs.FileSelector(root, recursive=True))
        found = {each.path: each for each in listed if each.type == pa.fs.FileType.File}
        names = [path[len(root) :] for path in found]
        table = table or table_below(uri.rstrip("/"), names)
    if table is not None:
        raise ValueError(table.refusal(uri))
    paths = sorted(
        path
        for path, each in found.items()
        if each.size and not any(map(_is_hidden, path[len(root) :].split("/")))
    )
    if not paths:
        raise ValueError(f"There are no Parquet files in {uri!r}")
    own = read_by_spark(root, paths)
    if not own:
        raise ValueError(
            f"There are no Parquet files in {uri!r} itself. {paths[0]} and the like are in folders "
            "that are not named column=value, which Spark ignores, too: name such a folder, or use "
            "fit(spark.read.option('recursiveFileLookup', True).parquet(...))"
        )
    if len(own) < len(paths):
        ignored = next(path for path in paths if path not in own)
        _log.warning(
            "%d files in folders below %s are not read, as in Spark, because these are not named "
            "column=value, such as %s",
            len(paths) - len(own),
            uri,
            ignored,
        )
    return own


def _is_hidden(name: str) -> bool:
    """Returns whether Spark ignores files and directories of this name.

    A directory of a partition column (`_day=3`) is not hidden.
    """
    return (
        name.startswith(".")
        or (name.startswith("_") and "=" not in name)
        or name.endswith("._COPYING_")
    )
