"""From the Arrow batches that Spark's SQL selected to the columns of a `RowFormat`."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa

from sparkflow.spark.data.schema.row_format import DENSE, SPARSE, Input, RowFormat
from sparkflow.spark.data.schema.row_schema import (
    ARRAY,
    NOTHING,
    PAIRS,
    SCALARS,
    InputColumns,
    RowSchema,
)
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError


def convert(batch: pa.RecordBatch, row_format: RowFormat, refuses: str = NOTHING) -> pa.RecordBatch:
    """The columns of the format, of its types, in its order; values are copied only for a cast.

    Args:
        batch: Columns of the inputs' names, and `row_number` int64. Dense inputs are scalars or
            lists of `size` elements, sparse ones structs of `indices` and `values`, ragged ones
            lists.
        row_format: What they have to be.
        refuses: Which numbers are wrong, see `row_schema`; nothing where all were looked at before.

    Raises:
        DataLossError: What no network can be trained on, although the driver saw none: the
            DataFrame changed between two of its evaluations.
        KeyError: A column is not there.
    """
    schema = row_format.schema
    try:
        found = _schema(row_format, refuses).decode(
            [batch.column(each.name) for each in row_format.inputs]
        )
    except InvalidArgumentError as error:
        raise DataLossError(message=f"{error.message}, although none did. {CHANGED}") from None
    columns = []
    for each, rows in zip(row_format.inputs, found, strict=True):
        if rows.invalid is not None:
            count = int(rows.invalid.sum())
            raise DataLossError(
                message=f"{count} of {rows.count} rows hold nulls, NaNs or infinities in "
                f"{each.name!r}, although none did when the driver looked. {CHANGED}"
            )
        columns.append(rows.column())
    return pa.RecordBatch.from_arrays([*columns, batch.column(schema.names[-1])], schema=schema)


@functools.lru_cache(maxsize=8)
def _schema(row_format: RowFormat, refuses: str) -> RowSchema:
    return RowSchema(
        tuple(InputColumns(each, _form(each), (each.name,)) for each in row_format.inputs), refuses
    )


def _form(wanted: Input) -> str:
    if wanted.kind == SPARSE:
        return PAIRS
    return SCALARS if wanted.kind == DENSE and wanted.shape == () else ARRAY


CHANGED: Any = (
    "The DataFrame gives other rows each time it is evaluated: cache it (the parameter cache does) "
    "or write it to a file first"
)
