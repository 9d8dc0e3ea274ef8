"""The readable columns of a table, their types, and their form in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from sparkflow.spark.data.parquet.file_layout import FileLayout

_VECTOR: Final = ("type", "size", "indices", "values")
_FIELD_ID: Final = b"PARQUET:field_id"


def readable(schema: pa.Schema, *, vectors: bool) -> pa.Schema:
    """The columns that can be inputs; structs and maps cannot, unless they are Spark ML's vectors.

    Args:
        schema: The table's.
        vectors: Whether vectors are told by the names of their fields.
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
    """How a file has the columns of a table.

    Args:
        footer: The file's.
        stored: By the table's column its name in the file; None where it has none.
        constants: What is known of columns that need not be in the file.
        deleted: See `FileLayout`.
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
    """The file's columns by the number that its writer gave them; none where it gave none."""
    found: dict[int, str] = {}
    for each in footer.schema.to_arrow_schema():
        number = (each.metadata or {}).get(_FIELD_ID)
        if number is not None:
            found[int(number)] = each.name
    return found


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without "large", which says how much one array may hold."""
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
