"""Mapping of a table's columns to those of one of its files, which may lack some.

A file may lack columns that are in its folder's name (`day=2026-11-24/`) or were added to the table
later, have columns under former names or of former types, and contain rows that were deleted since.
"""

from __future__ import annotations

import base64
import functools
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The content of one file of a table.

    Attributes:
        stored: The name in the file of each table column whose name there differs.
        constants: For columns that the file lacks: the value of all rows as text, None for null.
        deleted: The deleted rows, see `packed`; empty for none.
        converts: Whether columns may be stored in earlier types of the table's columns.
    """

    stored: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str | None] = field(default_factory=dict)
    deleted: str = ""
    converts: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the file is read unchanged."""
        return not (self.stored or self.constants or self.deleted or self.converts)

    def positions(self) -> Positions:
        """Returns [n], ascending: the rows of the file that were deleted."""
        return unpacked(self.deleted)

    def columns(self, names: Collection[str]) -> list[str]:
        """Returns the file's columns for these columns of the table."""
        return [self.stored.get(name, name) for name in names if name not in self.constants]

    def table(
        self, schema: pa.Schema, names: Collection[str], read: Any, first: int, rows: int
    ) -> pa.Table:
        """Returns these columns of the rows that were not deleted.

        Args:
            schema: The types of the table's columns.
            names: The table's columns.
            read: The file's columns, a table or a batch; without rows if none of them is in the
                file.
            first: The number of the first row within the file.
            rows: The number of rows.
        """
        columns: list[Any] = []
        for name in names:
            kind = schema.field(name).type
            if name in self.constants:
                columns.append(pa.repeat(constant_value(self.constants[name], kind), rows))
                continue
            column = read.column(self.stored.get(name, name))
            if self.converts and column.type != kind:
                column = _converted(column, kind)
            columns.append(column)
        found = pa.Table.from_arrays(columns, names=list(names))
        if not self.deleted:
            return found
        positions = self.positions()
        begin, end = np.searchsorted(positions, [first, first + rows])
        kept = np.ones(rows, bool)
        kept[positions[begin:end] - first] = False
        return found.filter(pa.array(kept))

    def to_json(self) -> dict[str, Any]:
        """Returns the object as JSON types."""
        return {
            "stored": dict(self.stored),
            "constants": dict(self.constants),
            "deleted": self.deleted,
            "converts": self.converts,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FileLayout:
        """Creates the object from the result of `to_json`."""
        return cls(**value)


PLAIN: Final = FileLayout()
"""The layout of a file that is read as it is."""


@dataclass(frozen=True, slots=True)
class FileLayouts:
    """Mapping of a table's columns to those of several of its files.

    Attributes:
        schema: The table's columns.
        files: The layouts by path; other files are read as they are.
    """

    schema: pa.Schema
    files: Mapping[str, FileLayout] = field(default_factory=dict)

    def of(self, path: str) -> FileLayout:
        """Returns the layout of a file."""
        return self.files.get(path, PLAIN)

    def of_pieces(self, pieces: Iterable[Any], names: Collection[str]) -> FileLayouts:
        """Returns the layouts of the files of these pieces, restricted to these columns."""
        return self.restricted({piece.file for piece in pieces}, names)

    def restricted(self, paths: Collection[str], names: Collection[str]) -> FileLayouts:
        """Returns the layouts of some of the files, restricted to these columns."""
        wanted = set(names)
        files = {
            path: FileLayout(
                {name: given for name, given in layout.stored.items() if name in wanted},
                {name: given for name, given in layout.constants.items() if name in wanted},
                layout.deleted,
                layout.converts,
            )
            for path, layout in self.files.items()
            if path in paths
        }
        schema = pa.schema([each for each in self.schema if each.name in wanted])
        return FileLayouts(
            schema, {path: each for path, each in files.items() if not each.is_plain}
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the object as JSON types."""
        schema = base64.b64encode(self.schema.remove_metadata().serialize().to_pybytes()).decode()
        return {"schema": schema, "files": {k: v.to_json() for k, v in self.files.items()}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FileLayouts:
        """Creates the object from the result of `to_json`."""
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value["schema"])))
        files = {path: FileLayout.from_json(each) for path, each in value["files"].items()}
        return cls(schema, files)


NO_LAYOUTS: Final = FileLayouts(pa.schema([]))
"""The layouts of files that are read as they are."""


def open_parquet(source: Any) -> Any:
    """Returns a reader of an open file. Reads 96-bit timestamps as microseconds, so any fits."""
    return pq.ParquetFile(source, pre_buffer=True, coerce_int96_timestamp_unit="us")


def group_table(
    file: Any,
    path: str,
    group: int,
    names: Collection[str],
    layouts: FileLayouts,
    by_column: bool = False,
) -> pa.Table:
    """Returns columns of a row group in the table's schema, without deleted rows.

    Args:
        file: The opened file.
        path: Its path.
        group: The index of the row group.
        names: The columns.
        layouts: The layouts of all files.
        by_column: Whether columns are decoded at the same time, in threads of pyarrow.
    """
    layout = layouts.of(path)
    stored = layout.columns(names)
    read = file.read_row_group(group, stored, use_threads=by_column)
    if layout.is_plain:
        return read
    rows = file.metadata.row_group(group).num_rows
    return layout.table(layouts.schema, names, read, _first_row(file, group), rows)


def group_tables(
    file: Any,
    path: str,
    group: int,
    names: Collection[str],
    layouts: FileLayouts,
    rows: int,
    by_column: bool = False,
) -> Iterator[pa.Table]:
    """Yields the result of `group_table` in pieces of at most `rows` rows of the file."""
    layout = layouts.of(path)
    stored = layout.columns(names)
    if not stored:
        yield group_table(file, path, group, names, layouts)
        return
    first = _first_row(file, group)
    batches = file.iter_batches(rows, row_groups=[group], columns=stored, use_threads=by_column)
    for batch in batches:
        if layout.is_plain:
            yield pa.Table.from_batches([batch])
        else:
            yield layout.table(layouts.schema, names, batch, first, batch.num_rows)
        first += batch.num_rows


def _converted(column: Any, kind: pa.DataType) -> Any:
    """Casts a column to another type, rounding timestamps down to its unit."""
    finer = pa.types.is_timestamp(column.type) and column.type.unit == "ns"
    if finer and pa.types.is_timestamp(kind) and kind.unit != "ns":
        column = pc.floor_temporal(column, unit="microsecond")
    return column.cast(kind)


def _first_row(file: Any, group: int) -> int:
    return sum(file.metadata.row_group(index).num_rows for index in range(group))


def packed(positions: Positions) -> str:
    """Packs ascending row numbers into a short string, which is empty for none."""
    if not len(positions):
        return ""
    steps = np.diff(positions, prepend=0).astype("<i8")
    return base64.b64encode(zlib.compress(steps.tobytes())).decode()


@functools.lru_cache(maxsize=64)
def unpacked(text: str) -> Positions:
    """Returns [n]: the row numbers in a string of `packed`."""
    if not text:
        return np.zeros(0, np.int64)
    return np.cumsum(np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i8"))


def constant_text(value: Any) -> str | None:
    """Returns the text that `FileLayout.constants` holds for an Arrow value; None for null."""
    if not value.is_valid:
        return None
    if pa.types.is_binary(value.type) or pa.types.is_large_binary(value.type):
        return str(value.as_py().decode("latin-1"))
    return str(value.cast(pa.string()).as_py())


def constant_value(text: str | None, kind: pa.DataType) -> Any:
    """Returns the Arrow value for a text of `constant_text`."""
    if text is None:
        return pa.scalar(None, kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.scalar(text.encode("latin-1"), kind)
    return pa.scalar(text).cast(kind)
