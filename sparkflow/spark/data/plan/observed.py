"""Aggregates of all rows that come with a job that reads them, or cost one of a single stage.

`DataFrame.agg` has its partial sums exchanged, which is a Spark job of its own where queries adapt
themselves. What is observed is added up by the driver instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, functions as F

_FOUND = "found"


def observing(
    rows: DataFrame, wanted: Mapping[str, Column]
) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    """The same rows, and a function that says what was found once a job has read them all.

    The job's last stage has to be the one that reads them: what it does again counts once.

    Args:
        rows: Of a classic session.
        wanted: Aggregates by name; of types that JSON can hold.
    """
    observation = Observation()
    columns = [column.alias(name) for name, column in wanted.items()]
    # As a text, because Py4J brings nothing that is nested.
    text = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    taken = rows.observe(observation, text.alias(_FOUND))
    return taken, lambda: dict(json.loads(observation.get[_FOUND]))


def aggregated(rows: DataFrame, wanted: Mapping[str, Column]) -> dict[str, Any]:
    """Aggregates of rows, of which there are some. Blocks for one Spark job.

    Args:
        rows: The rows.
        wanted: See `observing`.
    """
    if not wanted:
        return {}
    if not hasattr(rows.sparkSession, "_jsparkSession"):  # a client of Connect
        columns = [column.alias(name) for name, column in wanted.items()]
        return dict(rows.agg(*columns).collect()[0].asDict())
    taken, found = observing(rows, wanted)
    taken.select(F.lit(1).alias(_FOUND)).write.format("noop").mode("overwrite").save()
    return found()
