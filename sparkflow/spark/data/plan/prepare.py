"""Prepares the training rows of a DataFrame: checks, selects, counts and caches them.

The schema is checked before any job; then one job examines the rows (see `profile`).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, functions as F

from sparkflow.spark.data.plan.invalid import (
    ERROR,
    FILL,
    SKIP,
    filled,
    find_faults,
    is_invalid,
    require_none,
)
from sparkflow.spark.data.plan.profile import (
    RowProfile,
    is_uneven,
    profile_rows,
    refuse_lengths,
    resolve,
)
from sparkflow.spark.data.plan.selection import element_type, final, held
from sparkflow.spark.data.plan.sources import (
    Source,
    feature_sources,
    free_name,
    label_source,
    weight_source,
)
from sparkflow.spark.data.plan.validation_split import (
    drawn,
    indicator,
    require_one_way,
    require_same,
    require_some,
)
from sparkflow.spark.data.plan.weights import BALANCED, class_factors, require_classes, weight
from sparkflow.spark.data.schema.frame import MICROSECONDS, Schema, quoted, unit_of
from sparkflow.spark.data.schema.row_format import DENSE, VALIDATES, Input, RowFormat
from sparkflow.spark.data.schema.row_schema import FEATURES, LABEL, WEIGHT
from sparkflow.spark.errors import NoRowsError
from sparkflow.spark.params.config import FitConfig

_log = logging.getLogger(__name__)

Statistics: TypeAlias = Callable[[RowFormat, bool], Mapping[str, Column]]
"""Returns the requested aggregates for a row format and whether there are validation rows."""


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """The rows of a fit.

    Attributes:
        rows: A column per input of `format`, with its name; and the boolean `validates` if there
            are validation rows.
        format: The format of the rows.
        partition_rows: Rows per partition of `rows`, including validation rows; empty partitions
            are left out.
        num_rows: The number of training rows.
        num_validation_rows: The number of validation rows.
        skipped: Rows left out because of invalid values, by column; a row counts for each column
            with an invalid value.
        filled: Rows in which invalid values were replaced, by column.
        num_classes: One more than the largest label if labels are integers from 0.
        class_factors: The factors of row weights by label.
        content: A hash of the content of the rows, see `fingerprint.RowsPrint`; "" if not
            requested.
        observed: The aggregates of `Statistics` if a job that read all rows computed them;
            otherwise None.
    """

    rows: DataFrame
    format: RowFormat
    partition_rows: Mapping[int, int]
    num_rows: int
    num_validation_rows: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    filled: Mapping[str, int] = field(default_factory=dict)
    num_classes: int | None = None
    class_factors: Mapping[float, float] = field(default_factory=dict)
    content: str = ""
    observed: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The information from the schema, which is all that is known before the first job.

    Attributes:
        sources: The sources of the inputs.
        named: Whether the features have names.
        selected: The held columns and possibly `validates`; not yet computed.
        validates: Whether there are validation rows.
    """

    sources: tuple[Source, ...]
    named: bool
    selected: DataFrame
    validates: bool

    def of_role(self, role: str) -> Source | None:
        """The source of the label or the weight, if there is one."""
        return next((each for each in self.sources if each.role == role), None)


def plan_rows(
    dataset: DataFrame,
    config: FitConfig,
    validation: DataFrame | None = None,
) -> Plan:
    """Checks the schema and selects the columns. Starts no Spark job.

    Args:
        dataset: The rows to train on.
        config: Columns and policies.
        validation: Validation rows, with the same columns.

    Raises:
        ValueError: A column does not exist or exists twice, or parameters contradict each other.
        TypeError: A column's type cannot be converted to a tensor, or differs in `validation`.
    """
    _require_batch(dataset, validation)
    require_one_way(config, validation)
    _require_use_of_weights(config)
    schema = Schema.of(dataset)
    sources, named = _sources(schema, config)
    _require_fill(config, sources)
    label = next((each for each in sources if each.role == LABEL), None)
    require_classes(label, config.class_weights)
    _warn_of_moments(sources)
    columns = [held(each).alias(each.name) for each in sources]
    if column := config.validation_indicator_col:
        columns.append(indicator(schema, column))
    selected = dataset.select(*columns)
    if fraction := config.validation_fraction:
        how = config.validation_draw
        share = drawn([each.name for each in sources], fraction, config.seed, how, label)
        selected = selected.withColumn(VALIDATES, share)
    if validation is not None:
        theirs, _ = _sources(Schema.of(validation, "the validation DataFrame"), config)
        require_same(sources, theirs)
        others = validation.select(*(held(each).alias(each.name) for each in theirs))
        selected = selected.withColumn(VALIDATES, F.lit(False)).unionByName(
            others.withColumn(VALIDATES, F.lit(True))
        )
    return Plan(sources, named, selected, VALIDATES in selected.columns)


@contextlib.contextmanager
def prepare_rows(
    dataset: DataFrame,
    config: FitConfig,
    validation: DataFrame | None = None,
) -> Iterator[PreparedRows]:
    """Checks, selects and counts the rows, which stay cached inside the `with` block.

    Blocks for one Spark job, and for another one if there are invalid rows.

    Args:
        dataset: The rows to train on.
        config: Columns and policies.
        validation: Validation rows, with the same columns.

    Raises:
        ValueError, TypeError: See `plan_rows`.
        NoRowsError: There are no rows to train on.
        ValueError: There are invalid values and `handleInvalid` neither skips nor fills them;
            arrays or vectors differ in length or are empty.
    """
    plan = plan_rows(dataset, config, validation)
    with _cached(dataset, plan.selected, config) as rows:
        started = time.monotonic()
        prepared = _prepared(rows, plan, config)
        _log.info(
            "checked %d training rows and %d validation rows in %.1f s",
            prepared.num_rows,
            prepared.num_validation_rows,
            time.monotonic() - started,
        )
        yield prepared


def _prepared(rows: DataFrame, plan: Plan, config: FitConfig) -> PreparedRows:
    policy, classes = config.handle_invalid, config.class_weights
    skip = policy == SKIP
    profile = profile_rows(
        rows,
        plan.sources,
        skip=skip,
        count_classes=classes == BALANCED,
        hashes=config.saves,
    )
    if not profile.total:
        raise NoRowsError("The DataFrame has no rows: there is nothing to train on")
    invalid = [each for each in plan.sources if profile.sources[each.name].invalid]
    by_column = _treated(rows, invalid, profile, policy)
    if skip and not profile.num_rows and not profile.num_validation_rows:
        raise NoRowsError(
            f"handleInvalid='skip' leaves none of the {profile.total} rows: {dict(by_column)}"
        )
    require_some(profile.num_rows, profile.num_validation_rows, asked=plan.validates)
    for source in plan.sources:
        if is_uneven(source, profile.sources[source.name]):
            refuse_lengths(rows, source, profile.total)
    row_format = format_of(plan, profile, weighted=bool(classes))
    label = row_format.label
    factors = (
        {} if label is None or not classes else class_factors(classes, label, profile.class_rows)
    )
    return PreparedRows(
        rows=treated_rows(
            rows, plan, row_format, profile, factors, config, invalid, marks=plan.validates
        ),
        format=row_format,
        partition_rows=profile.partition_rows,
        num_rows=profile.num_rows,
        num_validation_rows=profile.num_validation_rows,
        skipped=by_column if skip else {},
        filled=by_column if policy == FILL else {},
        num_classes=_num_classes(profile),
        class_factors=factors,
        content=profile.content,
    )


def _sources(schema: Schema, config: FitConfig) -> tuple[tuple[Source, ...], bool]:
    sources, named = feature_sources(
        schema, config.features, config.input_shapes, config.vector_format
    )
    taken = [each.name for each in sources]
    if config.takes_labels:
        sources += (label_source(schema, config.label_col, taken),)
    if column := config.weight_col:
        sources += (weight_source(schema, column, taken),)
    return sources, named


def _require_batch(*frames: DataFrame | None) -> None:
    if any(frame is not None and frame.isStreaming for frame in frames):
        raise ValueError(
            "fit needs a bounded DataFrame, but this one is a stream; train on its batches with "
            "foreachBatch"
        )


def _require_use_of_weights(config: FitConfig) -> None:
    given = "weightCol" if config.weight_col else "classWeights"
    if (config.weight_col or config.class_weights) and not config.takes_weights:
        raise ValueError(
            f"{given} is set, but model_fn has no argument called weights. Add it, "
            "model_fn(features, labels, mode, params, weights), and pass it to the loss, as in "
            f"tf.losses.sparse_softmax_cross_entropy(labels, logits, weights); or clear {given}"
        )


def _require_fill(config: FitConfig, sources: Sequence[Source]) -> None:
    value = config.fill_value
    whole = [each for each in sources if each.role == FEATURES and each.dtype == "int64"]
    if config.handle_invalid == FILL and whole and value != int(value):
        raise ValueError(
            f"fillValue is {value:g}, but the {whole[0].describe()} holds integers; fill with an "
            "integer, or cast the column to double"
        )


def _warn_of_moments(sources: Sequence[Source]) -> None:
    lossy = [
        name
        for each in sources
        if each.dtype == "float32"
        for name, kind in zip(each.columns, each.types, strict=False)
        if unit_of(kind) == MICROSECONDS
    ]
    if lossy:
        _log.warning(
            "Timestamps become float32 in %s: times less than two minutes apart may become the "
            "same number. A separate input keeps them as int64, in microseconds: "
            "featuresCol={'name': 'column'}",
            ", ".join(map(repr, lossy)),
        )


def _treated(
    rows: DataFrame, invalid: Sequence[Source], profile: RowProfile, policy: str
) -> dict[str, int]:
    """Counts by column the rows that are skipped or filled; raises if they are neither."""
    if not invalid:
        return {}
    found = find_faults(rows, invalid)
    if policy == ERROR:
        require_none(found, profile.total, policy)
    if policy == FILL:
        require_none([each for each in found if each.role != FEATURES], profile.total, policy)
    by_column = {each.column: each.rows for each in found}
    _log.warning(
        "handleInvalid='%s': of %d rows, nulls, NaNs or infinities by column: %s",
        policy,
        profile.total,
        by_column,
    )
    return by_column


def format_of(plan: Plan, profile: RowProfile, *, weighted: bool) -> RowFormat:
    """Returns the row format; `weighted` says whether classes have weights."""
    inputs = {each.name: resolve(each, profile.sources[each.name]) for each in plan.sources}
    features = tuple(inputs[each.name] for each in plan.sources if each.role == FEATURES)
    label, row_weight = (
        None if source is None else inputs[source.name]
        for source in (plan.of_role(LABEL), plan.of_role(WEIGHT))
    )
    if row_weight is None and weighted:
        row_weight = Input(free_name(WEIGHT, list(inputs)), DENSE, "float32", ())
    return RowFormat(features, label, row_weight, plan.named)


def treated_rows(
    rows: DataFrame,
    plan: Plan,
    row_format: RowFormat,
    profile: RowProfile,
    factors: Mapping[float, float],
    config: FitConfig,
    doubtful: Sequence[Source],
    *,
    marks: bool,
) -> DataFrame:
    """Returns the rows with the columns of a format, and invalid ones skipped or filled.

    Args:
        rows: The held columns and possibly `validates`.
        plan: The plan of these rows.
        row_format: The format of the rows.
        profile: The profile of the examined rows.
        factors: The factors of row weights by label.
        config: How invalid values are handled.
        doubtful: The sources that may have invalid values.
        marks: Whether `validates` is among the columns.
    """
    if config.handle_invalid == SKIP:
        for source in doubtful:
            rows = rows.where(~is_invalid(source, quoted(source.name)))
    fill = config.fill_value if config.handle_invalid == FILL else None
    filled_sources = [each for each in doubtful if each.role == FEATURES]
    columns = final_columns(plan, row_format, profile, factors, filled_sources, fill)
    return rows.select(*columns, *([VALIDATES] if marks else []))


def final_columns(
    plan: Plan,
    row_format: RowFormat,
    profile: RowProfile,
    factors: Mapping[float, float],
    filled_sources: Sequence[Source],
    fill: float | None,
) -> list[Column]:
    """Returns the columns of a format as expressions of the held columns."""
    columns = []
    sources = {each.name: each for each in plan.sources}
    for wanted in row_format.inputs:
        if wanted is row_format.weight:
            column = weight(plan.of_role(WEIGHT), row_format.label, factors)
        else:
            source, found = sources[wanted.name], profile.sources[wanted.name]
            others = found.thin if wanted.kind == DENSE else profile.total - found.thin
            column = final(source, quoted(wanted.name), wanted.kind, has_other_form=others > 0)
            if fill is not None and source in filled_sources:
                column = filled(wanted, column, fill, element_type(source))
        columns.append(column.alias(wanted.name))
    return columns


def _num_classes(profile: RowProfile) -> int | None:
    if profile.labels is None or profile.labels[0] < 0:
        return None
    return profile.labels[1] + 1


@contextlib.contextmanager
def _cached(dataset: DataFrame, rows: DataFrame, config: FitConfig) -> Iterator[DataFrame]:
    """Yields the rows, cached unless the DataFrame is, so that two passes cost one and agree."""
    level = dataset.storageLevel
    if not config.cache or level.useMemory or level.useDisk or level.useOffHeap:
        yield rows
        return
    rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield rows
    finally:
        release(rows)


def release(rows: DataFrame) -> None:
    """Removes rows from Spark's cache. Never raises, to avoid hiding another error."""
    try:
        rows.unpersist()
    except Exception as error:  # such as a session that has been stopped, with all its rows
        _log.warning("cached rows were not released: %s", str(error).split("\n", 1)[0])
