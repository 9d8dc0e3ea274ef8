"""What the ready-made networks need to know about the rows: means, deviations, labels.

They are computed in the job that writes the rows to files, if there is one; otherwise one Spark job
reads the rows, which are cached by then. Validation rows are used only to check the labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.ml.stat import Summarizer
from pyspark.sql import Column, DataFrame, functions as F

from sparkflow.spark.data.plan.prepare import PreparedRows
from sparkflow.spark.data.plan.profile import aggregated
from sparkflow.spark.data.schema.row_format import DENSE, SPARSE, VALIDATES, Input, RowFormat

_LEAST_WEIGHT: Final = 1e-100
"""It changes nothing beside other weights, and products of two do not vanish."""
_COUNT_ERROR: Final = 0.02
"""The relative error of the number of distinct values of a column."""

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moments:
    """Means and deviations of an input's elements.

    Attributes:
        mean: [size]; all 0 for sparse inputs, which stay sparse.
        scale: [size], the deviations; 1 for constant elements.
    """

    mean: Vector
    scale: Vector


@dataclass(frozen=True, slots=True)
class LabelRange:
    """The range of the labels of all rows.

    Attributes:
        least, greatest: The smallest and the greatest label.
        fractional: A label that is not an integer; None if all are integers.
    """

    least: float
    greatest: float
    fractional: float | None


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """What is known about the rows.

    Attributes:
        features: The moments of the numeric inputs of fixed size, by name.
        label: The moments of scalar labels; None for others.
        label_range: The range of scalar labels; None for others.
        mean_weight: The mean weight of the rows; 1 without weights.
        num_rows: The number of training rows.
        values: The approximate number of distinct values of scalar integers, by name, if requested;
            exact for small numbers.
    """

    features: Mapping[str, Moments]
    label: Moments | None
    label_range: LabelRange | None
    mean_weight: float
    num_rows: int = 0
    values: Mapping[str, int] = field(default_factory=dict)


def row_statistics(
    prepared: PreparedRows, of_features: bool, counts_values: bool = False
) -> RowStatistics:
    """Computes the statistics of all rows.

    Blocks for one Spark job, unless an earlier one has collected the aggregates, and for one more
    per sparse input.

    Args:
        prepared: The rows.
        of_features: Whether to compute the moments of the features; otherwise there are none.
        counts_values: Whether to count the distinct values of integers.
    """
    rows, given = prepared.rows, prepared.format
    validates = VALIDATES in rows.columns
    found = prepared.observed
    if found is None:
        found = aggregated(rows, wanted_of(given, validates, of_features, counts_values))
    numeric = _numeric(given, of_features)
    mean_weight = float(found.get("mean_weight") or 1.0)
    moments = _dense_moments([each for each in numeric if each.kind == DENSE], found)
    training = rows.where(_trains(validates))
    weights = _Weights(
        _weight(given), prepared.num_rows, mean_weight, float(found.get("square_weight") or 1.0)
    )
    for each in numeric:
        if each.kind == SPARSE:
            moments[each.name] = _sparse_moments(training, each, weights)
    label = _scalar_label(given)
    return RowStatistics(
        features=moments,
        label=None
        if label is None
        else _moments(np.array([found["label_mean"]]), np.array([found["label_deviation"]])),
        label_range=None
        if label is None
        else LabelRange(found["least"], found["greatest"], found["fractional"]),
        mean_weight=mean_weight,
        num_rows=prepared.num_rows,
        values={each.name: found[f"values_{each.name}"] for each in _counted(given, counts_values)},
    )


def wanted_of(
    given: RowFormat, validates: bool, of_features: bool, counts_values: bool = False
) -> dict[str, Column]:
    """Returns the aggregates that the statistics need.

    Args:
        given: The format of a row.
        validates: Whether a column marks validation rows.
        of_features: See `row_statistics`.
        counts_values: See `row_statistics`.
    """
    trains = _trains(validates)
    dense = [each for each in _numeric(given, of_features) if each.kind == DENSE]
    wanted: dict[str, Column] = {}
    if dense:
        weight = F.when(trains, _positive(_weight(given))).otherwise(0.0)
        summary = Summarizer.metrics("mean", "std").summary(_vector(dense), weight)
        wanted |= {each: vector_to_array(summary.getField(each)) for each in ("mean", "std")}
    label = _scalar_label(given)
    if label is not None:
        value = _quoted(label.name).cast("double")
        wanted |= {
            **_label_moments(
                F.when(trains, value), F.when(trains, _positive(_weight(given))), given
            ),
            "least": F.min(value),
            "greatest": F.max(value),
            "fractional": F.max(F.when(value != F.floor(value), value)),
        }
    if given.weight is not None:
        weight = F.when(trains, _weight(given))
        wanted |= {"mean_weight": F.avg(weight), "square_weight": F.avg(weight * weight)}
    for each in _counted(given, counts_values):
        wanted[f"values_{each.name}"] = F.approx_count_distinct(
            F.when(trains, _quoted(each.name)), _COUNT_ERROR
        )
    return wanted


def _weight(given: RowFormat) -> Column:
    """The weight of a row: the moments are those of pyspark.ml, which weighs rows, too."""
    return F.lit(1.0) if given.weight is None else _quoted(given.weight.name).cast("double")


def _positive(weight: Column) -> Column:
    """A weight that the summarizer takes: rows that all weigh nothing have moments, too.

    Weights that cannot be trained on are reported by who counts them.
    """
    return F.greatest(F.nanvl(weight, F.lit(0.0)), F.lit(_LEAST_WEIGHT))


def _label_moments(value: Column, weight: Column, given: RowFormat) -> dict[str, Column]:
    """Mean and deviation as those of pyspark.ml's summarizer, without bias."""
    if given.weight is None:
        mean, deviation = F.avg(value), F.stddev_samp(value)
    else:
        total, squares = F.sum(weight), F.sum(value * value * weight)
        mean = F.sum(value * weight) / total
        freedom = total - F.sum(weight * weight) / total
        freedom = F.when(freedom > 0, freedom)  # null for a single row
        deviation = F.sqrt(F.greatest(squares - mean * mean * total, F.lit(0.0)) / freedom)
    return {"label_mean": mean, "label_deviation": F.coalesce(deviation, F.lit(0.0))}


def _trains(validates: bool) -> Column:
    return ~F.col(VALIDATES) if validates else F.lit(True)


def _numeric(given: RowFormat, of_features: bool) -> list[Input]:
    return [each for each in given.features if of_features and each.dtype != "string"]


def _scalar_label(given: RowFormat) -> Input | None:
    return given.label if given.label is not None and given.label.shape == () else None


def _counted(given: RowFormat, counts_values: bool) -> list[Input]:
    """Returns the scalar integers, if their distinct values are counted."""
    return [
        each
        for each in given.features
        if counts_values and each.dtype == "int64" and each.kind == DENSE and each.shape == ()
    ]


def _vector(inputs: list[Input]) -> Column:
    """Returns all elements of the inputs, one after another.

    Rows may not have been checked yet. The summarizer fails on nulls and on other lengths, so what
    cannot be trained on counts as zeros; whoever checks the rows discards or reports it.
    """
    arrays = [_elements(each) for each in inputs]
    return array_to_vector(arrays[0] if len(arrays) == 1 else F.concat(*arrays))


def _elements(given: Input) -> Column:
    column, zero = _quoted(given.name), F.lit(0.0)
    if given.shape == ():
        return F.array(F.coalesce(column.cast("double"), zero))
    elements = column.cast("array<double>")
    # `array_contains` is null if it met a null, see `invalid.is_invalid`.
    holds_nothing = F.array_contains(elements, F.lit(math.nan))
    is_fine = (F.array_size(elements) == given.size) & ~holds_nothing
    return F.when(is_fine, elements).otherwise(F.array_repeat(zero, given.size))


def _dense_moments(inputs: list[Input], found: Mapping[str, Any]) -> dict[str, Moments]:
    moments = {}
    start = 0
    for each in inputs:
        part = slice(start, start + each.size)
        moments[each.name] = _moments(
            *(np.asarray(found[of][part], float) for of in ("mean", "std"))
        )
        start += each.size
    return moments


@dataclass(frozen=True)
class _Weights:
    """The weights of training rows.

    Attributes:
        weight: Of a row.
        rows: The number of rows.
        mean: Of their weights.
        mean_square: Of the weights' squares.
    """

    weight: Column
    rows: int
    mean: float
    mean_square: float

    @property
    def unbiased(self) -> float:
        """What makes the mean square of differences from a mean the variance without bias."""
        freedom = 1.0 - self.mean_square / (self.rows * self.mean**2)
        return 1.0 / freedom if freedom > 0 else 1.0


def _sparse_moments(rows: DataFrame, given: Input, weights: _Weights) -> Moments:
    """The moments of a sparse input, of training rows."""
    total = weights.rows * weights.mean
    indices, values = (_quoted(given.name)[part] for part in ("indices", "values"))
    pairs = F.zip_with(
        indices, values, lambda index, value: F.struct(index.alias("index"), value.alias("value"))
    )
    entries = rows.select(F.explode(pairs).alias("entry"), weights.weight.alias("weight")).select(
        F.col("entry.index").alias("index"),
        F.col("entry.value").cast("double").alias("value"),
        "weight",
    )
    weighted = F.col("value") * F.col("weight")
    sums = (
        entries.groupBy("index")
        .agg(F.sum(weighted).alias("sum"), F.sum(weighted * F.col("value")).alias("squares"))
        .collect()
    )
    mean = np.zeros(given.size)
    square = np.zeros(given.size)
    for row in sums:
        mean[row["index"]] = row["sum"] / total
        square[row["index"]] = row["squares"] / total
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0) * weights.unbiased)
    return _moments(np.zeros(given.size), deviation)


def _moments(mean: npt.NDArray[Any], deviation: npt.NDArray[Any]) -> Moments:
    # Elements that are constant except for rounding would become noise.
    changes = deviation > 1e-6 * np.abs(mean)
    changes &= deviation > 0
    return Moments(mean.astype(np.float64), np.where(changes, deviation, 1.0).astype(np.float64))


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")
