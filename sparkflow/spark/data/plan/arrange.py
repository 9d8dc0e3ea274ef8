"""Rows prepared and placed, on whichever way is shortest for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.sql import DataFrame

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.plan.partitioning import PlacedRows, place_rows
from sparkflow.spark.data.plan.prepare import PreparedRows, prepare_rows
from sparkflow.spark.data.plan.spooled import spooled_rows
from sparkflow.spark.params.trainer_params import TrainerParams


@contextlib.contextmanager
def arranged_rows(
    dataset: DataFrame, params: TrainerParams, validation: DataFrame | None
) -> Iterator[tuple[PreparedRows, ClusterLayout, PlacedRows]]:
    """The rows, the tasks of the job, and which of them gets which rows.

    Blocks for the Spark jobs of `prepare` and `placement`, or of `spooled` in a local session.

    Args:
        dataset: The rows to train on.
        params: Columns and policies.
        validation: Validation rows, with the same columns.

    Raises:
        ValueError, TypeError: See `prepare.prepare_rows`.
        ResourceExhaustedError: The disk is full.
    """
    mode, stages = params.getSyncMode(), params.getModelParallel()
    # Without shuffling, what counts is the order of the DataFrame.
    by_content = mode in ("sync", "allreduce") and params.getShuffle()
    with contextlib.ExitStack() as stack:
        spooled = stack.enter_context(
            spooled_rows(dataset, params, validation, by_content=by_content)
        )
        if spooled is not None:
            layout = ClusterLayout.of(params.getNumPs(), params.getNumWorkers(), mode, stages)
            yield spooled.prepared, layout, spooled.place(layout)
            return
        prepared = stack.enter_context(prepare_rows(dataset, params, validation))
        # A worker without rows would have nothing to do.
        workers = min(params.getNumWorkers(), prepared.num_rows)
        layout = ClusterLayout.of(params.getNumPs(), workers, mode, stages)
        yield prepared, layout, place_rows(prepared, layout, params.getSeed(), by_content)
