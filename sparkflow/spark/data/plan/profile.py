"""Profiles the rows before training: one Spark job finds what the schema does not state.

It counts rows by partition (for placement), finds sizes of arrays and vectors, counts invalid rows,
and counts classes if they are weighted. The rows it reads stay cached. Further jobs run only if
there are invalid rows, to find out what exactly is wrong. If checkpoints are written, it also
computes a hash of each row, and of all rows independently of their order.

Other aggregates of all rows are computed by a job that reads them anyway, or by an additional one
with a single stage: `DataFrame.agg` exchanges its partial sums, which is a separate Spark job under
adaptive query execution, whereas observed metrics are added up by the driver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Observation, Row, functions as F

from sparkflow.spark.data.plan.invalid import is_invalid
from sparkflow.spark.data.plan.selection import STORED, THIN, is_struct, is_thin, measure
from sparkflow.spark.data.plan.sources import SCALAR, Source
from sparkflow.spark.data.schema.frame import quoted
from sparkflow.spark.data.schema.row_format import DENSE, RAGGED, SPARSE, VALIDATES, Input
from sparkflow.spark.data.schema.row_schema import ARRAY, LABEL, SCALARS, VECTOR

_SHOWN_LENGTHS: Final = 5
_PARTITION: Final = "partition"
_CLASS: Final = "class"
_FOUND: Final = "found"
MOST_CLASSES: Final = 10_000
"""Maximum number of distinct labels that count as classes."""
CONTENT_SUMS: Final = ("content_high", "content_low")

_HALF: Final = 32
_MASK: Final = (1 << _HALF) - 1


@dataclass(frozen=True, slots=True)
class SourceProfile:
    """The profile of one input's rows.

    Attributes:
        invalid: Number of rows that cannot be trained on.
        least, greatest: Minimum and maximum of the measure, see `selection.measure`; None if there
            is none.
        stored, elements: Stored elements and all elements of a vector column, over all rows.
        thin: Number of rows of a vector column that are held in sparse form.
    """

    invalid: int = 0
    least: Any = None
    greatest: Any = None
    stored: int = 0
    elements: int = 0
    thin: int = 0


@dataclass(frozen=True, slots=True)
class RowProfile:
    """The profile of the rows.

    Attributes:
        partition_rows: Number of used rows per partition; partitions without any are left out.
        num_rows, num_validation_rows: The numbers of training and validation rows.
        total: The number of all rows, including skipped ones.
        sources: The profiles by name of the input.
        labels: Minimum and maximum of integer labels; None for other labels.
        class_rows: Number of training rows by label, if requested.
        content: A hash of all rows if requested; otherwise "".
    """

    partition_rows: Mapping[int, int]
    num_rows: int
    num_validation_rows: int
    total: int
    sources: Mapping[str, SourceProfile]
    labels: tuple[int, int] | None
    class_rows: Mapping[Any, int]
    content: str = ""


def profile_rows(
    rows: DataFrame,
    sources: Sequence[Source],
    *,
    skip: bool = False,
    count_classes: bool = False,
    hashes: bool = False,
) -> RowProfile:
    """Profiles the rows. Blocks for one Spark job.

    Args:
        rows: Held columns, named after their inputs, and possibly `validates`.
        sources: The sources of the inputs.
        skip: Whether rows that cannot be trained on are left out.
        count_classes: Whether the rows of each label are counted.
        hashes: Whether to hash the content of the rows.
    """
    validates = quoted(VALIDATES) if VALIDATES in rows.columns else F.lit(False)
    keys = [F.spark_partition_id().alias(_PARTITION), validates.alias(VALIDATES)]
    label = next((each for each in sources if each.role == LABEL), None)
    if count_classes and label is not None:
        keys.append(quoted(label.name).alias(_CLASS))
    # Shared by several aggregates.
    flags = [is_invalid(each, quoted(each.name)) for each in sources]
    usable = ~reduce(lambda one, other: one | other, flags) if skip else F.lit(True)
    checks: dict[str, Column] = {
        "total": F.count(F.lit(1)),
        "rows": F.count_if(usable) if skip else F.count(F.lit(1)),
    }
    for index, (source, flag) in enumerate(zip(sources, flags, strict=True)):
        checks |= _checks(index, source, flag)
    if label is not None and _is_class(label):
        checks |= {"least_label": F.min(quoted(label.name))}
        checks |= {"greatest_label": F.max(quoted(label.name))}
    if hashes:
        checks |= content_sums(content_hash(rows, 0))
    found = rows.groupBy(*keys).agg(*(each.alias(name) for name, each in checks.items())).collect()
    return _profile(found, sources, checks)


def resolve(source: Source, profile: SourceProfile) -> Input:
    """Returns the input, given the profile of its rows.

    Raises:
        ValueError: The number of elements in the rows differs from `inputShapes` or is 0.
    """
    kind = source.kind
    if not kind:
        kind = SPARSE if profile.stored * THIN < profile.elements else DENSE
    if kind == RAGGED or source.form in (SCALAR, SCALARS):
        return Input(source.name, kind, source.dtype, source.shape or ())
    found = profile.greatest
    shape = tuple(found) if isinstance(found, list | tuple) else (int(found or 0),)
    if _product(shape) == 0:
        what = "vectors" if source.form == VECTOR else "arrays"
        raise ValueError(f"The {what} of the {source.describe()} are empty")
    if source.shape is not None:
        if _product(source.shape) != _product(shape):
            raise ValueError(
                f"inputShapes says {list(source.shape)} for {source.name!r}, which has "
                f"{_product(source.shape)} elements, but the {source.describe()} holds "
                f"{_product(shape)} in each row"
            )
        shape = source.shape
    return Input(source.name, kind, source.dtype, shape)


def refuse_lengths(rows: DataFrame, source: Source, total: int) -> None:
    """Raises an error with the different lengths of rows that should all have the same length.

    Raises:
        ValueError: Always.
    """
    size = measure(source, quoted(source.name))
    if size is None:
        raise AssertionError(f"{source.name!r} cannot be measured")
    lengths = (
        rows.where(quoted(source.name).isNotNull())
        .groupBy(size.alias("length"))
        .agg(F.count(F.lit(1)).alias("rows"))
        .orderBy(F.desc("rows"), "length")
        .collect()
    )
    expected, *others = lengths
    wrong = sum(row["rows"] for row in others)
    shown = ", ".join(f"{_length(row)} ({row['rows']} rows)" for row in others[:_SHOWN_LENGTHS])
    more = ", ..." if len(others) > _SHOWN_LENGTHS else ""
    what = "vectors" if source.form == VECTOR else "arrays"
    advice = ""
    if source.form == ARRAY and source.role != LABEL and source.depth == 1:
        advice = (
            f". Pad them to one length, or pass lists of any length to model_fn as a "
            f"tf.SparseTensor: inputShapes={{{source.name!r}: [None]}}"
        )
    raise ValueError(
        f"The {source.describe()} holds {what} of different lengths: expected "
        f"{_length(expected)}, as {expected['rows']} of {total} rows have, but {wrong} rows have "
        f"a different length: {shown}{more}{advice}"
    )


def is_uneven(source: Source, profile: SourceProfile) -> bool:
    """Whether rows differ in size although all must have the same."""
    ragged_inside = isinstance(profile.least, list) and -1 in profile.least
    return bool(profile.least != profile.greatest) or ragged_inside


def _checks(index: int, source: Source, flag: Column) -> dict[str, Column]:
    column = quoted(source.name)
    found = {f"invalid_{index}": F.count_if(flag)}
    size = measure(source, column)
    if size is not None:
        found |= {f"least_{index}": F.min(size), f"greatest_{index}": F.max(size)}
    if source.form == VECTOR and is_struct(source):
        found |= {
            f"stored_{index}": F.sum(column.getField(STORED).cast("bigint")),
            f"elements_{index}": F.sum(size.cast("bigint")) if size is not None else F.lit(0),
            f"thin_{index}": F.count_if(is_thin(column)),
        }
    return found


def _profile(found: list[Row], sources: Sequence[Source], names: Mapping[str, Any]) -> RowProfile:
    partitions: dict[int, int] = {}
    classes: dict[Any, int] = {}
    train = validation = total = 0
    for row in found:
        partitions[row[_PARTITION]] = partitions.get(row[_PARTITION], 0) + row["rows"]
        total += row["total"]
        if row[VALIDATES]:
            validation += row["rows"]
            continue
        train += row["rows"]
        if _CLASS in row and row["rows"]:
            classes[row[_CLASS]] = classes.get(row[_CLASS], 0) + row["rows"]
    by_name = {
        source.name: SourceProfile(
            invalid=_sum(found, f"invalid_{index}"),
            least=_extreme(min, found, f"least_{index}", names),
            greatest=_extreme(max, found, f"greatest_{index}", names),
            stored=_sum(found, f"stored_{index}", names),
            elements=_sum(found, f"elements_{index}", names),
            thin=_sum(found, f"thin_{index}", names),
        )
        for index, source in enumerate(sources)
    }
    least = _extreme(min, found, "least_label", names)
    greatest = _extreme(max, found, "greatest_label", names)
    return RowProfile(
        partition_rows={key: rows for key, rows in partitions.items() if rows},
        num_rows=train,
        num_validation_rows=validation,
        total=total,
        sources=by_name,
        labels=None if least is None else (least, greatest),
        class_rows=classes,
        content=content_text("held", *(_sum(found, name, names) for name in CONTENT_SUMS)),
    )


def _sum(found: list[Row], name: str, names: Mapping[str, Any] | None = None) -> int:
    if names is not None and name not in names:
        return 0
    return sum(row[name] or 0 for row in found)


def _extreme(which: Any, found: list[Row], name: str, names: Mapping[str, Any]) -> Any:
    if name not in names:
        return None
    return which((row[name] for row in found if row[name] is not None), default=None)


def _is_class(label: Source) -> bool:
    return label.form == SCALAR and label.dtype == "int64"


def _length(row: Row) -> str:
    length = row["length"]
    if isinstance(length, list):
        return "x".join("different" if size < 0 else str(size) for size in length)
    return str(length)


def _product(shape: Sequence[int]) -> int:
    return reduce(lambda one, other: one * other, shape, 1)


def content_hash(rows: DataFrame, seed: int) -> Column:
    """Returns a bigint that depends on the content of the row and on the seed."""
    return F.xxhash64(F.lit(seed), *(quoted(name) for name in sorted(rows.columns)))


def content_sums(hashed: Column) -> dict[str, Column]:
    """Returns sums over the hashes of rows, split into halves so that no sum overflows."""
    high, low = CONTENT_SUMS
    return {
        high: F.sum(F.shiftright(hashed, _HALF)),
        low: F.sum(hashed.bitwiseAND(F.lit(_MASK))),
    }


def content_text(way: str, high: int, low: int) -> str:
    """Returns the hash of all rows for the sums over their parts; "" if nothing was added.

    Args:
        way: What was hashed; only hashes of the same kind can be compared.
        high: The sum over the upper halves.
        low: The sum over the lower ones.
    """
    if not high and not low:
        return ""
    return f"{way}:{((high << _HALF) + low) % (1 << 2 * _HALF):016x}"


def observing(
    rows: DataFrame, wanted: Mapping[str, Column]
) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    """Returns the same rows, and a function that returns the aggregates once a job has read them.

    The stage that reads the rows must be the job's last, whose repeated tasks count once.

    Args:
        rows: Rows of a classic (not Connect) session.
        wanted: Aggregates by name, of types that JSON supports.
    """
    observation = Observation()
    columns = [column.alias(name) for name, column in wanted.items()]
    # As a string, because Py4J does not transfer nested values.
    text = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    taken = rows.observe(observation, text.alias(_FOUND))
    return taken, lambda: dict(json.loads(observation.get[_FOUND]))


def aggregated(rows: DataFrame, wanted: Mapping[str, Column]) -> dict[str, Any]:
    """Computes aggregates of at least one row. Blocks for one Spark job.

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
