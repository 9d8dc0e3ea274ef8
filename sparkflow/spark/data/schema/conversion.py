"""From the Arrow batches that Spark sends to the columns of a `RowFormat`; checks every row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sparkflow.spark.data.schema.row_format import DENSE, SPARSE, Input, RowFormat
from sparkflow_runtime.errors import DataLossError

VALIDATES = "validates"
"""The boolean column that says which rows validate; absent where none do."""


def convert(batch: pa.RecordBatch, row_format: RowFormat) -> pa.RecordBatch:
    """The columns of the format, of its types, in its order; no values are copied.

    Args:
        batch: Columns of the inputs' names, and `row_number` int64. Dense inputs are scalars or
            lists of `size` elements, sparse ones structs of `indices` and `values`, ragged ones
            lists.
        row_format: What they have to be.

    Raises:
        DataLossError: A null or a list of another length, although the driver saw none: the
            DataFrame changed between two of its evaluations.
        KeyError: A column is not there.
    """
    schema = row_format.schema
    columns = [
        *(_column(batch.column(each.name), each, batch.num_rows) for each in row_format.inputs),
        batch.column(schema.names[-1]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(given: pa.Array, wanted: Input, rows: int) -> pa.Array:
    kind = wanted.column_type
    if wanted.kind == SPARSE:
        return _sparse(given, wanted, rows)
    if wanted.kind == DENSE and wanted.shape != ():
        return _fixed_size(given, wanted, rows)
    values = given.flatten() if wanted.kind != DENSE else given
    _refuse(
        wanted, rows, nulls=given.null_count + (values.null_count if values is not given else 0)
    )
    return given if given.type == kind else given.cast(kind)


def _fixed_size(given: pa.Array, wanted: Input, rows: int) -> pa.Array:
    kind = wanted.column_type
    values = given.flatten()
    if pa.types.is_fixed_size_list(given.type):
        wrong = 0 if given.type.list_size == wanted.size else rows
    else:
        wrong = int(np.count_nonzero(_lengths(given) != wanted.size))
    _refuse(wanted, rows, given.null_count + values.null_count, wrong)
    if values.type != kind.value_type:
        values = values.cast(kind.value_type)
    return pa.FixedSizeListArray.from_arrays(values, type=kind)


def _sparse(given: pa.Array, wanted: Input, rows: int) -> pa.Array:
    indices, values = given.field("indices"), given.field("values")
    nulls = given.null_count + indices.null_count + values.null_count
    _refuse(wanted, rows, nulls)
    counts = _lengths(indices)
    wrong = int(np.count_nonzero(counts != _lengths(values)))
    places = indices.flatten()
    nulls = places.null_count + values.flatten().null_count
    _refuse(wanted, rows, nulls, wrong)
    found = places.to_numpy()
    outside = int(np.count_nonzero((found < 0) | (found >= wanted.shape[0])))
    if outside:
        raise DataLossError(
            message=f"{outside} indices of the sparse vectors in {wanted.name!r} are outside of "
            f"0 to {wanted.shape[0] - 1}, the size that the driver saw. {_CHANGED}"
        )
    parts = [
        part if part.type == field.type else part.cast(field.type)
        for part, field in zip((indices, values), wanted.column_type, strict=True)
    ]
    return pa.StructArray.from_arrays(parts, fields=list(wanted.column_type))


def _lengths(lists: Any) -> Any:
    return np.diff(lists.offsets.to_numpy())


_CHANGED = (
    "The DataFrame gives other rows each time it is evaluated: cache it (the parameter cache does) "
    "or write it to a file first"
)


def _refuse(wanted: Input, rows: int, nulls: int, wrong: int = 0) -> None:
    if nulls or wrong:
        raise DataLossError(
            message=f"Of {rows} rows, {nulls} hold nulls in {wanted.name!r} and {wrong} have "
            f"another number of elements than {wanted.size}, although none did when the driver "
            f"looked. {_CHANGED}"
        )


def all_finite(values: Any) -> bool:
    """Whether there are neither NaNs nor infinities; reads the values once if there are none."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.add.reduce(values)):
            return True
    return bool(np.isfinite(values).all())
