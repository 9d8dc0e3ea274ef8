"""Delta Lake tables: the files of a version, as listed by the library `deltalake`."""

from __future__ import annotations

import importlib
import posixpath
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

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

_MODE: Final = "delta.columnMapping.mode"
_ID, _NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"
_KNOWN: Final = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""The Delta reader features that are supported."""


def is_delta(table: Any) -> bool:
    """Whether it is a `deltalake.DeltaTable`."""
    return type(table).__module__.partition(".")[0] == "deltalake"


def delta_files(table: Any, version: int | str | datetime | None = None) -> ParquetFiles:
    """Returns the files of one version of a table; later writes are not seen.

    Args:
        table: The path or URI of its folder, or a `DeltaTable`.
        version: A number, or a time (a `datetime` or ISO 8601 string) for the newest version at
            that time; None for the newest version.

    Raises:
        ImportError: `deltalake` is not installed.
        ValueError: There is no such table or version, it has no files, or it uses unsupported
            features.
    """
    opened = _opened(table, version)
    origin = f"version {opened.version()} of the Delta table {opened.table_uri}"
    mode = _require_known(opened, origin)
    declared = pa.schema(opened.schema().to_arrow())
    schema = readable(declared, vectors=mode == "none")
    actions = pa.table(opened.get_add_actions(flatten=False))
    system, root = open_location(_plain_uri(opened.table_uri))
    paths = [_path(root, given) for given in as_objects(actions.column("path"))]
    if not paths:
        raise ValueError(f"{origin} has no files: there is nothing to train on")
    deleted = _deleted(opened, paths, origin)
    constants = _partition_values(actions)
    footers = footers_of(system, paths)
    layouts = {}
    for place, (path, footer) in enumerate(footers):
        stored = _stored(declared, mode, footer)
        names = {name: stored[name] for name in schema.names}
        layouts[path] = layout_of(footer, names, constants[place], deleted.get(path, ""))
    return files_of(
        _plain_uri(opened.table_uri), sorted(footers), FileLayouts(schema, layouts), origin
    )


def _opened(table: Any, version: int | str | datetime | None) -> Any:
    require_package("Reading tables of Delta Lake", "deltalake", "delta")
    deltalake = importlib.import_module("deltalake")
    if is_delta(table):
        if version is not None:
            raise ValueError(
                f"version={version!r} needs a table given by its path, but this is a DeltaTable at "
                f"version {table.version()}: open another version with "
                "DeltaTable(path, version=...)"
            )
        return table
    uri = str(table)
    if uri.startswith("file:"):
        uri = open_location(uri)[1]
    errors = importlib.import_module("deltalake.exceptions")
    asked = "" if version is None else f" at version={version!r}"
    number = isinstance(version, int)
    try:
        opened = deltalake.DeltaTable(uri, version=version if number else None)
        if version is not None and not number:
            opened.load_as_version(version)
    except (errors.DeltaError, ValueError) as error:  # raised for strings that are not times
        raise ValueError(f"The Delta table {uri!r} cannot be read{asked}: {error}") from error
    return opened


def _require_known(opened: Any, origin: str) -> str:
    """Checks that all reader features are supported; returns the mode of column mapping."""
    unknown = sorted(set(opened.protocol().reader_features or ()) - _KNOWN)
    mode = opened.metadata().configuration.get(_MODE, "none")
    if mode not in ("none", "name", "id"):
        unknown.append(f"columnMapping in mode {mode!r}")
    if unknown:
        raise ValueError(
            f"{origin} uses features that sparkflow does not support: {', '.join(unknown)}. Read "
            "it with Spark: fit(spark.read.format('delta').load(...))"
        )
    return str(mode)


def _stored(declared: pa.Schema, mode: str, footer: Any) -> dict[str, str | None]:
    """Returns the name of each column in a file; None if the file lacks it."""
    if mode == "none":
        return {each.name: each.name for each in declared}
    facts = {each.name: each.metadata or {} for each in declared}
    if mode == "name":
        return {name: given[_NAME.encode()].decode() for name, given in facts.items()}
    by_id = names_by_id(footer)
    return {name: by_id.get(int(given[_ID.encode()])) for name, given in facts.items()}


def _partition_values(actions: pa.Table) -> list[Mapping[str, str | None]]:
    """Returns for each file the values of the partition columns."""
    if "partition" not in actions.column_names:
        return [{}] * actions.num_rows
    parts = actions.column("partition").combine_chunks()
    if isinstance(parts, pa.ChunkedArray):
        parts = parts.chunk(0)
    columns: Sequence[Any] = [parts.field(index) for index in range(parts.type.num_fields)]
    names = [field.name for field in parts.type]
    return [
        {name: constant_text(column[row]) for name, column in zip(names, columns, strict=True)}
        for row in range(actions.num_rows)
    ]


def _deleted(opened: Any, paths: Sequence[str], origin: str) -> dict[str, str]:
    """Returns the deleted rows by path, in the form of `FileLayout`."""
    if "deletionVectors" not in (opened.protocol().reader_features or ()):
        return {}
    # The library escapes URIs in its own way and prefixes the scheme. In tables converted from
    # Hive, files in different folders may have the same name.
    by_name: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        by_name[posixpath.basename(path)].append(path)
    found: dict[str, str] = {}
    for batch in pa.RecordBatchReader.from_stream(opened.deletion_vectors()):
        uris, kept = as_objects(batch.column(0)), batch.column(1)
        for row, uri in enumerate(uris):
            mask = column_array(kept[row].values, "selection_vector", dtypes.bool_)
            plain = unquote(uri)
            named = by_name.get(posixpath.basename(plain), [])
            if len(named) > 1:
                named = [path for path in named if plain.endswith(f"/{path.lstrip('/')}")]
            if len(named) != 1:
                raise ValueError(
                    f"{origin} lists deleted rows of {uri}, which is not one of its files"
                )
            found[named[0]] = packed(np.flatnonzero(~mask))
    return found


def _path(root: str, given: str) -> str:
    """Returns the location of a file for its log path, which is escaped, and relative or a URI."""
    if "://" in given or given.startswith("file:"):
        return open_location(given)[1]
    return f"{root.rstrip('/')}/{unquote(given)}"


def _plain_uri(uri: str) -> str:
    """Returns local files as paths without escapes."""
    return open_location(uri)[1] if uri.startswith("file:") else uri
