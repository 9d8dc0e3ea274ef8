"""From a DataFrame to the rows that are trained on: checked, selected, counted and cached."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from sparkflow.spark.feed.inputs import DENSE, Input, RowFormat
from sparkflow.spark.params.trainer import TrainerParams
from sparkflow.spark.rows.columns import FEATURES, LABEL, find_features, find_label, select_rows
from sparkflow.spark.rows.profile import profile_rows

_log = logging.getLogger(__name__)

VALIDATES = "validates"
"""The boolean column that says which rows validate; only there if some may."""


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """The rows of a fit.

    Attributes:
        rows: A column per input of `format`, by its name; and `validates` where rows validate.
        format: What a row consists of.
        partition_rows: Rows per partition of `rows`, those that validate included; partitions
            without rows are left out.
        num_rows: The rows that train.
        num_validation_rows: The rows that validate.
        skipped: Rows that were left out because of nulls or NaNs, by column.
        filled: Rows in which nulls or NaNs were replaced, by column.
        num_classes: One more than the greatest label, where labels are integers from 0.
    """

    rows: DataFrame
    format: RowFormat
    partition_rows: Mapping[int, int]
    num_rows: int
    num_validation_rows: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    filled: Mapping[str, int] = field(default_factory=dict)
    num_classes: int | None = None


@contextlib.contextmanager
def prepare_rows(
    dataset: DataFrame, params: TrainerParams, validation: DataFrame | None = None
) -> Iterator[PreparedRows]:
    """Checks, selects and counts the rows, which stay cached inside the `with` block.

    Args:
        dataset: The rows to train on.
        params: Columns and policies.
        validation: Rows of the same columns that validate.
    """
    features = find_features(dataset.schema, params.getFeaturesCol())
    label = find_label(dataset.schema, params.getLabelCol())
    with _cached(dataset, select_rows(dataset, features, label)) as rows:
        started = time.monotonic()
        profile = profile_rows(rows, features, label)
        _log.info("looked at %d rows in %.1f s", profile.rows, time.monotonic() - started)
        dtype = "int64" if label.is_integer else "float32"
        yield PreparedRows(
            rows=rows,
            format=RowFormat(
                (Input(FEATURES, DENSE, "float32", (profile.dim,)),),
                Input(LABEL, DENSE, dtype, ()),
                None,
                named=False,
            ),
            partition_rows=profile.partition_rows,
            num_rows=profile.rows,
        )


@contextlib.contextmanager
def _cached(dataset: DataFrame, rows: DataFrame) -> Iterator[DataFrame]:
    """The rows, cached unless the DataFrame is, so that two passes cost one and agree."""
    level = dataset.storageLevel
    if level.useMemory or level.useDisk or level.useOffHeap:
        yield rows
        return
    rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield rows
    finally:
        rows.unpersist()
