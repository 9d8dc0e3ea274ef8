"""Every kind of input × everything that can be wrong × every way in: an error or a count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.bad_rows import (
    FAULTS,
    KINDS,
    POLICIES,
    Try,
    by_exchange,
    by_files,
    by_frame,
    expected,
    frame,
    table,
    tries,
    wrong,
)

PAGE = Path(__file__).parents[4] / "docs/reliability.md"


def test_the_page_has_the_table() -> None:
    assert "\n".join(table()) in PAGE.read_text("utf-8")


def test_every_cell_is_tried() -> None:
    tried = {(each.name, one.fault, one.policy) for one in tries() for each in one.kinds}
    wanted = {
        (kind.name, fault, policy if fault != "length" else "skip")
        for kind in KINDS
        for fault in kind.bad
        for policy in POLICIES
    }
    assert tried == wanted
    assert {fault for kind in KINDS for fault in kind.bad} == set(FAULTS)


def test_the_three_outcomes() -> None:
    label, pair = KINDS[-2], next(each for each in KINDS if each.name == "pair")
    assert [expected(pair, "nan", each) for each in POLICIES] == ["error", "skipped", "filled"]
    assert [expected(label, "nan", each) for each in POLICIES] == ["error", "skipped", "error"]
    assert expected(pair, "length", "fill") == "error"


@pytest.mark.parametrize(("fault", "door"), [("hole", by_exchange), ("negative", by_frame)])
def test_one_of_each_outcome(
    spark: SparkSession, fault: str, door: Callable[[DataFrame, Try], dict[str, Any]]
) -> None:
    chosen = [one for one in tries() if one.fault == fault]
    assert [one.policy for one in chosen] == list(POLICIES)
    for one in chosen:
        assert wrong(one, door(frame(spark, one), one)) == ""


Door = Callable[[SparkSession, Path, Try], dict[str, Any]]


def classic(spark: SparkSession, folder: Path, tried: Try) -> dict[str, Any]:
    return by_frame(frame(spark, tried), tried)


def exchange(spark: SparkSession, folder: Path, tried: Try) -> dict[str, Any]:
    return by_exchange(frame(spark, tried), tried)


def parquet(spark: SparkSession, folder: Path, tried: Try) -> dict[str, Any]:
    frame(spark, tried).write.parquet(str(folder / "rows"))
    return by_files(spark, str(folder / "rows"), tried)


def stream(spark: SparkSession, folder: Path, tried: Try) -> dict[str, Any]:
    rows = frame(spark, tried)
    rows.write.parquet(str(folder / "rows"))
    found: dict[str, Any] = {}
    query = (
        spark.readStream.schema(rows.schema)
        .parquet(str(folder / "rows"))
        .writeStream.foreachBatch(lambda df, number: found.update(by_frame(df, tried)))
        .option("checkpointLocation", str(folder / "state"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("door", [classic, exchange, parquet, stream])
def test_every_cell(
    spark: SparkSession,
    tmp_path: Path,
    door: Door,
    record_property: Callable[[str, object], None],
) -> None:
    problems, count = [], 0
    for number, tried in enumerate(tries(1) if door is parquet else tries()):
        folder = tmp_path / str(number)
        folder.mkdir()
        problems.append(wrong(tried, door(spark, folder, tried), by_column=door is not parquet))
        count += len(tried.kinds)
    assert list(filter(None, problems)) == []
    record_property(f"cells through {door.__name__}", count)
