"""The readable columns of a table, their types, and how files store them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from sparkflow.spark.data.parquet.file_layout import FileLayout

_VECTOR: Final = ("type", "size", "indices", "values")
_FIELD_ID: Final = b"PARQUET:field_id"


def readable(schema: pa.Schema, *, vectors: bool) -> pa.Schema:
    """Returns the columns that can be inputs: all but structs and maps, except Spark ML vectors.

    Args:
        schema: The table's schema.
        vectors: Whether vectors are recognised by the names of their fields.
    """
    fields = [
        pa.field(each.name, _plain(each.type))
        for each in schema
        if not _holds_fields(each.type)
        or (vectors and pa.types.is_struct(each.type) and _names(each.type) == _VECTOR)
    ]
    return pa.schema(fields)


def layout_of(
    footer: Any, stored: Mapping[str, str | None], constants: Mapping[str, str | None], deleted: str
) -> FileLayout:
    """Returns how a file stores the columns of a table.

    Args:
        footer: The file's footer.
        stored: The name in the file of each table column; None if the file lacks it.
        constants: The values of columns that may be missing in the file.
        deleted: The deleted rows, see `FileLayout`.
    """
    there = set(footer.schema.to_arrow_schema().names)
    renamed: dict[str, str] = {}
    known: dict[str, str | None] = dict(constants)
    for name, given in stored.items():
        if name in known:
            continue
        if given is None or given not in there:
            known[name] = None
        elif given != name:
            renamed[name] = given
    return FileLayout(renamed, known, deleted, converts=True)


def names_by_id(footer: Any) -> dict[int, str]:
    """Returns the file's columns by field id; empty if its writer assigned none."""
    found: dict[int, str] = {}
    for each in footer.schema.to_arrow_schema():
        number = (each.metadata or {}).get(_FIELD_ID)
        if number is not None:
            found[int(number)] = each.name
    return found


def _plain(kind: pa.DataType) -> pa.DataType:
    """Returns the type without "large", which only concerns the capacity of an array."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


def _holds_fields(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _holds_fields(kind.value_type)
    return bool(pa.types.is_nested(kind))


def _names(kind: pa.DataType) -> tuple[str, ...]:
    return tuple(field.name for field in kind)
