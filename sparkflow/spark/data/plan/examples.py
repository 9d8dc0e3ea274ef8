"""A few rows of a fit on the driver, in the form of a batch."""

from __future__ import annotations

from typing import Any

from sparkflow.spark.data.plan.prepare import PreparedRows
from sparkflow.spark.data.spool.spool import row_schema


def example_rows(prepared: PreparedRows, count: int) -> list[Any]:
    """Returns the first rows that Spark finds, in a separate job that reads no more than it needs.

    Args:
        prepared: The rows.
        count: The number of rows; all if there are fewer.

    Returns:
        One array per component of each input of `prepared.format`, in that order.
    """
    names = [each.name for each in prepared.format.inputs]
    table = prepared.rows.limit(count).toArrow()
    columns = [table.column(name).combine_chunks() for name in names]
    decoded = row_schema(prepared.format).decode(columns)
    return [part for each in decoded for part in each.components()]
