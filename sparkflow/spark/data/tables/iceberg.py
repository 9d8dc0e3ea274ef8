"""Iceberg tables: the files of a snapshot, as listed by the library `pyiceberg`."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparkflow.spark.data.parquet.file_layout import FileLayouts, constant_text, packed
from sparkflow.spark.data.parquet.footers import (
    ParquetFiles,
    files_of,
    footers_of,
    open_location,
)
from sparkflow.spark.data.tables.columns import layout_of, names_by_id, readable
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import require_package
from sparkflow_runtime.resources.datasets.arrow_columns import as_objects, column_array

Catalog = str | Mapping[str, str] | None
"""The name of a catalog in pyiceberg's configuration, or the properties of a catalog.

The property `name` is its name ("default" if missing).
"""


def is_iceberg(table: Any) -> bool:
    """Whether it is a pyiceberg table."""
    return type(table).__module__.partition(".")[0] == "pyiceberg"


def iceberg_files(
    table: Any, version: int | str | datetime | None = None, catalog: Catalog = None
) -> ParquetFiles:
    """Returns the files of one snapshot of a table; later writes are not seen.

    Args:
        table: The path or URI of a metadata file (`....metadata.json`), a name in the catalog, or a
            `pyiceberg.table.Table`.
        version: The snapshot's id, the name of a branch or tag, or a time (a `datetime`) for the
            newest snapshot at that time; None for the current one.
        catalog: See `Catalog`.

    Raises:
        ImportError: `pyiceberg` is not installed.
        ValueError: There is no such table or snapshot, it has no rows, or it uses unsupported
            features.
    """
    opened = _opened(table, catalog)
    snapshot = _snapshot(opened, version)
    origin = f"snapshot {snapshot.snapshot_id} of the Iceberg table {opened.metadata_location}"
    # The current snapshot has the table's current schema; an older one that of its time.
    scan = opened.scan() if version is None else opened.scan(snapshot_id=snapshot.snapshot_id)
    tasks = sorted(scan.plan_files(), key=lambda task: str(task.file.file_path))
    if not tasks:
        raise ValueError(f"{origin} has no files: there is nothing to train on")
    _require_readable(tasks, origin)
    fields = scan.projection()
    declared = importlib.import_module("pyiceberg.io.pyarrow").schema_to_pyarrow(fields)
    schema = readable(declared, vectors=False)
    system, _ = open_location(_plain(tasks[0].file.file_path))
    paths = [open_location(_plain(task.file.file_path))[1] for task in tasks]
    deleted = _deleted(opened, tasks)
    names = opened.name_mapping()
    layouts = {}
    footers = footers_of(system, paths)
    for task, (path, footer) in zip(tasks, footers, strict=True):
        by_id = names_by_id(footer) or _mapped(names, footer)
        if not by_id:
            raise ValueError(
                f"The columns of {path} have no field ids, and {origin} has no name mapping "
                "(schema.name-mapping.default): the columns cannot be identified"
            )
        stored = {each.name: by_id.get(each.field_id) for each in fields.fields}
        known = _values(opened, fields, task.file, stored, declared)
        wanted = {name: stored[name] for name in schema.names}
        known = {name: text for name, text in known.items() if name in wanted}
        layouts[path] = layout_of(footer, wanted, known, packed(deleted.get(path, _NO_ROWS)))
    uri = _plain(tasks[0].file.file_path)
    return files_of(uri, footers, FileLayouts(schema, layouts), origin)


_NO_ROWS = np.zeros(0, np.int64)


def _opened(table: Any, catalog: Catalog) -> Any:
    require_package("Reading tables of Iceberg", "pyiceberg", "iceberg")
    if is_iceberg(table):
        return table
    errors = importlib.import_module("pyiceberg.exceptions")
    missing = (errors.NoSuchTableError, errors.NoSuchNamespaceError, FileNotFoundError)
    try:
        if catalog is None:
            return importlib.import_module("pyiceberg.table").StaticTable.from_metadata(str(table))
        load = importlib.import_module("pyiceberg.catalog").load_catalog
        given = {"name": catalog} if isinstance(catalog, str) else {"name": "default", **catalog}
        return load(**given).load_table(str(table))
    except missing as error:
        raise ValueError(f"There is no Iceberg table {str(table)!r}: {error}") from error
    except (errors.ValidationError, LookupError, TypeError, AttributeError, ValueError) as error:
        # The library accesses parts of a damaged file before it validates it.
        raise ValueError(f"The Iceberg table {str(table)!r} cannot be read: {error}") from error


def _snapshot(opened: Any, version: int | str | datetime | None) -> Any:
    if version is None:
        found = opened.current_snapshot()
    elif isinstance(version, datetime):
        aware = version if version.tzinfo else version.replace(tzinfo=timezone.utc)
        found = opened.snapshot_as_of_timestamp(int(aware.timestamp() * 1000))
    elif isinstance(version, str):
        found = opened.snapshot_by_name(version)
    else:
        found = opened.snapshot_by_id(version)
    if found is None:
        asked = "" if version is None else f" at version={version!r}"
        known = ", ".join(str(each.snapshot_id) for each in opened.snapshots()[-5:])
        raise ValueError(
            f"The Iceberg table {opened.metadata_location} has no snapshot{asked}"
            + (f"; the newest are {known}" if known else ": there is nothing to train on")
        )
    return found


def _require_readable(tasks: Sequence[Any], origin: str) -> None:
    """Checks that the files are Parquet files and that deletes are by position."""
    unknown = {f"data files of {_format(t.file)}" for t in tasks if _format(t.file) != "PARQUET"}
    for task in tasks:
        for each in task.delete_files:
            if each.content.name == "EQUALITY_DELETES":
                unknown.add("equality deletes")
            elif _format(each) not in ("PARQUET", "PUFFIN"):
                unknown.add(f"position deletes in {_format(each)}")
    if unknown:
        raise ValueError(
            f"{origin} uses features that sparkflow does not support: "
            f"{', '.join(sorted(unknown))}. Compact the table (rewrite_data_files), or read it "
            "with Spark: fit(spark.table(...))"
        )


def _format(file: Any) -> str:
    return str(file.file_format.name)


def _deleted(opened: Any, tasks: Sequence[Any]) -> dict[str, Any]:
    """Returns the positions of deleted rows by path, ascending."""
    found: dict[str, list[Any]] = defaultdict(list)
    wanted = {task.file.file_path for task in tasks}
    for file in {each.file_path: each for task in tasks for each in task.delete_files}.values():
        for path, places in _places(opened, file).items():
            if path in wanted:
                found[open_location(_plain(path))[1]].append(places)
    return {path: np.unique(np.concatenate(places)) for path, places in found.items()}


def _places(opened: Any, file: Any) -> dict[str, Any]:
    """Reads a delete file and returns the positions by path of the data file."""
    if _format(file) == "PUFFIN":
        read = importlib.import_module("pyiceberg.io.pyarrow")._read_deletes
        vectors: Mapping[str, Any] = read(opened.io, file)
        return {path: _whole_numbers(each) for path, each in vectors.items()}
    system, path = open_location(_plain(file.file_path))
    with system.open_input_file(path) as source:
        table = pq.read_table(source, columns=["file_path", "pos"])
    found: dict[str, list[int]] = defaultdict(list)
    places = _whole_numbers(table.column("pos")).tolist()
    for data, place in zip(as_objects(table.column("file_path")), places, strict=True):
        found[data].append(place)
    return {data: np.array(at, np.int64) for data, at in found.items()}


def _whole_numbers(column: Any) -> Any:
    return column_array(column.cast(pa.int64()), "pos", dtypes.int64)


def _mapped(names: Any, footer: Any) -> dict[int, str]:
    """Returns the file's columns by field id, by the table's name mapping for files without ids."""
    if names is None:
        return {}
    there = set(footer.schema.to_arrow_schema().names)
    return {each.field_id: name for each in names.root for name in each.names if name in there}


def _values(
    opened: Any,
    fields: Any,
    file: Any,
    stored: Mapping[str, str | None],
    declared: pa.Schema,
) -> dict[str, str | None]:
    """Returns the values of columns that a file lacks: partition values and initial defaults."""
    known: dict[str, Any] = {}
    spec = opened.specs()[file.spec_id]
    by_source = {
        part.source_id: file.partition[place]
        for place, part in enumerate(spec.fields)
        if str(part.transform) == "identity"
    }
    for each in fields.fields:
        if stored[each.name] is not None:
            continue
        if each.field_id in by_source:
            known[each.name] = by_source[each.field_id]
        elif getattr(each, "initial_default", None) is not None:
            known[each.name] = each.initial_default
    found = {}
    for name, value in known.items():
        kind = declared.field(name).type
        if isinstance(value, int) and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            counts = pa.int32() if pa.types.is_date32(kind) else pa.int64()
            found[name] = constant_text(pa.scalar(value, counts).cast(kind))
        else:
            found[name] = constant_text(pa.scalar(value, kind))
    return found


def _plain(uri: str) -> str:
    """Returns a location for `open_location`; Iceberg's locations are not escaped."""
    if uri.startswith("file:"):
        return uri.removeprefix("file:").replace("///", "/", 1)
    scheme, separator, place = uri.partition("://")
    return f"{scheme}://{quote(place, safe='/@:')}" if separator else uri
