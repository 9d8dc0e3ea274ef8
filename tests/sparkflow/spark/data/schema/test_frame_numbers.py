"""Times and decimals as numbers in SQL, whatever the session's time zone, and the same in Arrow."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, DecimalType, LongType, TimestampNTZType, TimestampType

from sparkflow.spark.data.schema.frame import as_numbers, needs_more_than_cast, quoted, unit_of
from sparkflow_runtime.resources.datasets.arrow_columns import plain, whole

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def berlin(spark: SparkSession) -> Iterator[SparkSession]:
    """A session in a time zone with daylight saving time."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def test_units_are_told() -> None:
    assert [unit_of(kind) for kind in (DateType(), TimestampType(), TimestampNTZType())] == [
        "days",
        "microseconds",
        "microseconds",
    ]
    assert unit_of(LongType()) == unit_of(DecimalType(9, 2)) == ""
    assert not needs_more_than_cast(LongType())


def test_the_zone_of_the_session_moves_nothing(berlin: SparkSession) -> None:
    steps = random.Random(3)
    moments = [_EPOCH + timedelta(microseconds=steps.randrange(-(2**55), 2**55)) for _ in range(50)]
    # 2:30 does not exist on the first of these days, and occurs twice on the second one.
    moments += [datetime(2026, m, d, 2, 30, tzinfo=timezone.utc) for m, d in ((3, 29), (10, 25))]
    moments += [datetime(1, 1, 2, tzinfo=timezone.utc), datetime(9999, 12, 30, tzinfo=timezone.utc)]
    counts = [(each - _EPOCH) // timedelta(microseconds=1) for each in moments]
    texts = [each.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0") for each in moments]
    df = berlin.createDataFrame([(text,) for text in texts], "t string").selectExpr(
        "timestamp(t || 'Z') as moment", "cast(t as timestamp_ntz) as clock", "date(t) as day"
    )
    kinds = {field.name: field.dataType for field in df.schema}
    table = df.select(
        "*",
        *(as_numbers(quoted(n), kind, "bigint").alias(f"{n} number") for n, kind in kinds.items()),
    ).toArrow()
    for name in kinds:
        expected = [count // 86_400_000_000 for count in counts] if name == "day" else counts
        assert table.column(f"{name} number").to_pylist() == expected, name
        assert plain(whole(table.column(name))).to_pylist() == expected, name


def test_decimals_are_rounded_alike(spark: SparkSession) -> None:
    steps = random.Random(7)
    values = [Decimal(steps.randrange(-(10**38) + 1, 10**38)).scaleb(-9) for _ in range(200)]
    values += [Decimal("0.1"), Decimal(2**24 + 1), Decimal(2**24 + 3), Decimal(10) ** 28, None]
    wholes = [None if value is None else Decimal(int(value)) for value in values]
    wholes[:3] = [Decimal(2**63), Decimal(-(2**63)), Decimal(2**63 - 1)]
    df = spark.createDataFrame(
        list(zip(values, wholes, strict=True)), "d decimal(38,9), w decimal(38,0)"
    )
    table = df.select(
        "*",
        as_numbers(quoted("d"), DecimalType(38, 9), "float").alias("float"),
        as_numbers(quoted("w"), DecimalType(38, 0), "bigint").alias("long"),
    ).toArrow()
    theirs = plain(whole(table.column("d"))).to_numpy(zero_copy_only=False).astype(np.float32)
    floats = np.array([np.nan if v is None else np.float32(float(v)) for v in values], np.float32)
    np.testing.assert_array_equal(theirs, floats)
    found = table.column("float").to_numpy(zero_copy_only=False).astype(np.float32)
    np.testing.assert_array_equal(found, floats)
    longs = [int(v) if v is not None and -(2**63) <= v < 2**63 else None for v in wholes]
    assert table.column("long").to_pylist() == longs
    assert plain(whole(table.column("w")), as_whole=True).to_pylist() == longs
