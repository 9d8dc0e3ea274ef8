"""Rows prepared and placed, on whichever way is shortest for them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.plan.partitioning import PlacedRows, place_rows
from sparkflow.spark.data.plan.prepare import PreparedRows, prepare_rows
from sparkflow.spark.data.plan.spooled import spooled_rows
from sparkflow.spark.params.trainer_params import TrainerParams

Placed = tuple[ClusterLayout, PlacedRows]
"""The tasks of the job, and which of them gets which rows."""


@dataclass(frozen=True, slots=True)
class ArrangedRows:
    """Rows on their way.

    Attributes:
        prepared: The rows.
        place: Places them for a number of workers; None for as many as the parameters say.
        is_elastic: Whether it may be asked again, for another number.
    """

    prepared: PreparedRows
    place: Callable[[int | None], Placed]
    is_elastic: bool = False


@contextlib.contextmanager
def arranged_rows(
    dataset: DataFrame, params: TrainerParams, validation: DataFrame | None, messengers: int = 0
) -> Iterator[ArrangedRows]:
    """The rows, and what places them.

    Blocks for the Spark jobs of `prepare` and `placement`, or of `spooled` in a local session.

    Args:
        dataset: The rows to train on.
        params: Columns and policies.
        validation: Validation rows, with the same columns.
        messengers: See `ClusterLayout`.

    Raises:
        ValueError, TypeError: See `prepare.prepare_rows`.
        ResourceExhaustedError: The disk is full.
    """
    mode, stages = params.getSyncMode(), params.getModelParallel()
    in_step = mode in ("sync", "allreduce")
    # Without shuffling, what counts is the order of the DataFrame.
    by_content = in_step and params.getShuffle()
    is_elastic = bool(params.getMinWorkers())
    with contextlib.ExitStack() as stack:
        # Files of a local session are written for one number of workers.
        spooled = None
        if not is_elastic:
            spooled = stack.enter_context(
                spooled_rows(dataset, params, validation, by_content=by_content)
            )
        if spooled is not None:
            layout = ClusterLayout.of(params.getNumPs(), params.getNumWorkers(), mode, stages)
            layout = replace(layout, messengers=messengers)
            placed = layout, spooled.place(layout)
            yield ArrangedRows(spooled.prepared, lambda workers: placed)
            return
        prepared = stack.enter_context(prepare_rows(dataset, params, validation))
        # A worker without rows would have nothing to do.
        most = min(params.getNumWorkers(), prepared.num_rows)
        shards = most if is_elastic and in_step else 0

        def place(workers: int | None) -> Placed:
            count = min(workers or most, most)
            layout = ClusterLayout.of(params.getNumPs(), count, mode, stages)
            layout = replace(layout, messengers=messengers)
            return layout, place_rows(prepared, layout, params.getSeed(), by_content, shards)

        yield ArrangedRows(prepared, place, is_elastic)
