"""Partition columns, whose values are in the names of folders: `day=2026-11-24/`.

This is Hive's layout, which Spark's `partitionBy` writes. Names and values are escaped as in URIs,
and null has a reserved name. Types are inferred from all values as Spark does, except that
timestamps remain strings because their meaning depends on the time zone of Spark's session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

import pyarrow as pa

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder name that Hive and Spark write for null and the empty string."""

_INT: Final = re.compile(r"-?\d+", re.ASCII)
_REAL: Final = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

Values = Mapping[str, str | None]
"""The text in the folder name for each column; None for null."""


def partition_values(root: str, paths: Sequence[str]) -> dict[str, Values]:
    """Returns the partition values of each path, for columns named in the folders of all files."""
    found = {path: _of(path[len(root) :]) for path in paths}
    common = set.intersection(*(set(values) for values in found.values()))
    return {
        path: {name: text for name, text in values.items() if name in common}
        for path, values in found.items()
    }


def read_by_spark(root: str, paths: Sequence[str]) -> list[str]:
    """Returns the files that Spark reads if it is given the folder: all or only its own.

    Files in subfolders belong to it if their folders are named after values. With some files in
    such folders and others not, Spark fails or ignores files of the folder itself.

    Args:
        root: The folder, or a file.
        paths: The files in it and in its subfolders.

    Raises:
        ValueError: Only some of the files are in folders that are named after values.
    """
    named = [path for path in paths if _of(path[len(root) :])]
    if len(named) == len(paths):
        return list(paths)
    if named:
        other = next(path for path in paths if not _of(path[len(root) :]))
        raise ValueError(
            f"{named[0]} is in a folder named after a value, {other} is not: it has no value of "
            "that column. Name the folder of one kind of file, or move the others"
        )
    return [path for path in paths if "/" not in path[len(root) :].strip("/")]


def column_types(values: Iterable[Values]) -> dict[str, pa.DataType]:
    """Returns the type of each column, see `inferred`."""
    texts: dict[str, list[str | None]] = {}
    for each in values:
        for name, text in each.items():
            texts.setdefault(name, []).append(text)
    return {name: inferred(found) for name, found in texts.items()}


def inferred(texts: Iterable[str | None]) -> pa.DataType:
    """Infers the common type of values: integers, floats, dates, otherwise strings."""
    known = {text for text in texts if text is not None}
    for kind, pattern in (
        (pa.int64(), _INT),
        (pa.float64(), _REAL),
        (pa.date32(), _DATE),
    ):
        if known and all(map(pattern.fullmatch, known)) and _are(known, kind):
            return kind
    return pa.string()


def _are(texts: Iterable[str], kind: pa.DataType) -> bool:
    try:
        pa.array(list(texts), pa.string()).cast(kind)
    except pa.ArrowInvalid:  # such as the 31st of February, or an integer beyond int64
        return False
    return True


def _of(path: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals and name:
            found[unquote(name)] = None if value in (NULL, "") else unquote(value)
    return found
