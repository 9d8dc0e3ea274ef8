"""Detects Parquet folders of table formats, in which a log determines the valid files.

Delta, Hudi, Iceberg, Paimon and Hive's transactional tables, and outputs of Spark streams, keep
files that were replaced, whose rows were deleted, or that were never committed. Reading the files
without the log returns such rows, too. A format is recognised by its log, in the files' folder or
in one above it. Iceberg may keep its log elsewhere; then it cannot be detected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from sparkflow_runtime.errors import OpError
from sparkflow_runtime.files import system

_AT_ONCE: Final = 16
_HIVE: Final = re.compile(
    r"base_\d{7,}(_v\d+)?|(delete_)?delta_\d{7,}_\d{7,}(_\d{4})?(_v\d+)?", re.ASCII
)
_ICEBERG_LOG: Final = re.compile(r".*\.metadata\.json(\.gz)?|version-hint\.text")


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A kind of table.

    Attributes:
        name: Its common name.
        remedy: How to read it with Spark; `{}` stands for the folder.
        has_reader: Whether `SparkTrainer.fitOnTable` reads it.
    """

    name: str
    remedy: str
    has_reader: bool = False


_LOAD: Final = 'spark.read.format("{}").load("{{}}")'
DELTA: Final = TableFormat("Delta Lake", _LOAD.format("delta"), has_reader=True)
HUDI: Final = TableFormat("Apache Hudi", _LOAD.format("hudi"))
ICEBERG: Final = TableFormat("Apache Iceberg", _LOAD.format("iceberg"), has_reader=True)
PAIMON: Final = TableFormat("Apache Paimon", _LOAD.format("paimon"))
LANCE: Final = TableFormat("Lance", _LOAD.format("lance"))
STREAM: Final = TableFormat("Spark Structured Streaming", 'spark.read.parquet("{}")')
HIVE: Final = TableFormat("Hive ACID", 'spark.table("its name in the metastore")')


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table that contains a path.

    Attributes:
        format: Its format.
        folder: Its folder.
    """

    format: TableFormat
    folder: str

    def refusal(self, path: str) -> str:
        """Returns the advice for a user who wants to read the files of `path`."""
        return (
            f"{path} is of a table of {self.format.name} ({self.folder}): its Parquet files alone "
            "are not its rows, for they hold deleted, replaced or uncommitted ones too, which only "
            f"the table's log tells. Read it with {self.format.remedy.format(self.folder)} and use "
            "fit(df)" + (", or train by fitOnTable" if self.format.has_reader else "")
        )


def table_of(path: str) -> FoundTable | None:
    """Returns the table to which a file or folder belongs; None if none is detected.

    Args:
        path: A path or URI; need not exist.
    """
    folders = list(_folders(path))
    if len(folders) > 1 and system.resolve(path)[0] is not system.LOCAL:
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            formats = list(threads.map(_format_of, folders))
    else:
        formats = [_format_of(folder) for folder in folders]
    for folder, found in zip(folders, formats, strict=True):
        if found is not None:
            return FoundTable(found, folder)
    return None


def table_below(folder: str, names: Iterable[str]) -> FoundTable | None:
    """Returns a table in a folder, by the files in it and in the folders below.

    Args:
        folder: The folder.
        names: The files' paths relative to it.
    """
    paths = [name.strip("/").split("/") for name in names]
    for parts in paths:
        for index, part in enumerate(parts[:-1]):
            found = _format_by_log(part, parts[-1] if index == len(parts) - 2 else "")
            beside = [*parts[:index], "schema"]
            if found is PAIMON and not any(each[: index + 1] == beside for each in paths):
                continue
            if found is not None:
                return FoundTable(found, "/".join([folder, *parts[:index]]))
    return None


def _format_by_log(folder: str, file: str) -> TableFormat | None:
    """Returns the format with a folder of this name that directly contains this file."""
    by_name = {"_delta_log": DELTA, ".hoodie": HUDI, "_spark_metadata": STREAM}.get(folder)
    if by_name is not None:
        return by_name
    if _HIVE.fullmatch(folder):
        return HIVE
    if folder == "metadata" and _ICEBERG_LOG.fullmatch(file):
        return ICEBERG
    if folder == "_versions" and file.endswith(".manifest"):
        return LANCE
    if folder == "snapshot" and re.fullmatch(r"snapshot-\d+|LATEST", file):
        return PAIMON
    return None


def _folders(path: str) -> Iterator[str]:
    """Yields a path and all folders above it, also those of link targets."""
    storage, inner, head = system.resolve(path)
    if storage is system.LOCAL:
        starts = dict.fromkeys([os.path.abspath(inner), os.path.realpath(inner)])
    else:
        starts = {inner.rstrip("/"): None}
    for start in starts:
        folder = start
        while folder.strip("/"):
            yield head + folder
            folder = os.path.dirname(folder)


def _format_of(folder: str) -> TableFormat | None:
    """Returns the format of the table whose root is a folder."""
    if _HIVE.fullmatch(os.path.basename(folder)):
        return HIVE
    if system.exists(system.join(folder, ".hoodie_partition_metadata")):
        return HUDI
    for log in ("_delta_log", ".hoodie", "_spark_metadata"):
        if system.is_directory(system.join(folder, log)):
            return _format_by_log(log, "")
    for log in ("metadata", "_versions", "snapshot"):
        for name in _names(system.join(folder, log)):
            found = _format_by_log(log, name)
            if found is PAIMON and not system.is_directory(system.join(folder, "schema")):
                continue
            if found is not None:
                return found
    return None


def _names(folder: str) -> list[str]:
    """Returns the contents of a folder; nothing if it is not a folder or not readable."""
    try:
        return system.list_directory(folder) if system.is_directory(folder) else []
    except (OpError, OSError):
        return []
