"""Prepares and places rows by the fastest applicable method."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.plan.partitioning import PlacedRows, place_rows
from sparkflow.spark.data.plan.prepare import PreparedRows, Statistics, prepare_rows
from sparkflow.spark.data.plan.spooled import spooled_rows
from sparkflow.spark.params.config import FitConfig

Placed = tuple[ClusterLayout, PlacedRows]
"""The tasks of the job, and the distribution of rows to them."""


@dataclass(frozen=True, slots=True)
class ArrangedRows:
    """Prepared rows, not yet placed.

    Attributes:
        prepared: The rows.
        place: Places them for a number of workers; None for the number that the parameters set.
        is_elastic: Whether `place` may be called again with another number.
    """

    prepared: PreparedRows
    place: Callable[[int | None], Placed]
    is_elastic: bool = False


@contextlib.contextmanager
def arranged_rows(
    dataset: DataFrame,
    config: FitConfig,
    validation: DataFrame | None,
    wanted: ClusterLayout | None = None,
    statistics: Statistics | None = None,
) -> Iterator[ArrangedRows]:
    """Yields the prepared rows and the function that places them.

    Blocks for the Spark jobs of `prepare` and `placement`, or of `spooled` in a local session.

    Args:
        dataset: The rows to train on.
        config: Columns and policies.
        validation: Validation rows, with the same columns.
        wanted: The tasks, whose number of workers the rows may reduce; None for those that the
            parameters set.
        statistics: Aggregates to compute over all rows if that needs no additional job.

    Raises:
        ValueError, TypeError: See `prepare.prepare_rows`.
        ResourceExhaustedError: The disk is full.
    """
    # Without shuffling, the order of the DataFrame matters.
    by_content = config.in_step and config.shuffle
    tasks = wanted or config.layout()
    with contextlib.ExitStack() as stack:
        # Files of a local session are written for a fixed number of workers.
        spooled = None
        if not config.is_elastic:
            spooled = stack.enter_context(
                spooled_rows(
                    dataset, config, validation, by_content=by_content, statistics=statistics
                )
            )
        if spooled is not None:
            layout = tasks.of_workers(config.num_workers)
            placed = layout, spooled.place(layout)
            yield ArrangedRows(spooled.prepared, lambda workers: placed)
            return
        prepared = stack.enter_context(prepare_rows(dataset, config, validation))
        # A worker without rows would have nothing to do.
        most = min(config.num_workers, prepared.num_rows)
        shards = most if config.is_elastic and config.in_step else 0

        def place(workers: int | None) -> Placed:
            layout = tasks.of_workers(min(workers or most, most))
            return layout, place_rows(prepared, layout, config.seed, by_content, shards)

        yield ArrangedRows(prepared, place, config.is_elastic)
