"""Folders of Parquet files that are not tables by themselves: a log beside them says which count.

In Delta, Hudi, Iceberg, Paimon and Hive's transactional tables, and in what Spark's streams write,
files stay that were replaced, whose rows were deleted, or that were never committed. Whoever reads
the files without the log reads such rows too. A format is known by what lies beside the files, in
their folder or in one above it. Iceberg may keep its log elsewhere; nothing shows it then.
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
        name: As people know it.
        remedy: How Spark reads it; `{}` stands for the folder.
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
    """A table that a path leads into.

    Attributes:
        format: Its kind.
        folder: Where it is.
    """

    format: TableFormat
    folder: str

    def refusal(self, path: str) -> str:
        """What to tell who wants to read the files of `path`."""
        return (
            f"{path} is of a table of {self.format.name} ({self.folder}): its Parquet files alone "
            "are not its rows, for they hold deleted, replaced or uncommitted ones too, which only "
            f"the table's log tells. Read it with {self.format.remedy.format(self.folder)} and use "
            "fit(df)" + (", or train by fitOnTable" if self.format.has_reader else "")
        )


def table_of(path: str) -> FoundTable | None:
    """The table that a file or folder is of, or is in; None where none shows.

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
    """A table in a folder, by the files in it and in the folders below.

    Args:
        folder: Their folder.
        names: The files' paths from there.
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
    """The format that has a folder of this name, with this file right in it."""
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
    """A path and all folders above it; where links lead elsewhere, those there too."""
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
    """The format of the table that begins in a folder."""
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
    """What is in a folder; nothing where it is none, or is not for us to look into."""
    try:
        return system.list_directory(folder) if system.is_directory(folder) else []
    except (OpError, OSError):
        return []
