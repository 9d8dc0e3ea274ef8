"""Bad rows: every kind of input with everything that can be wrong with it, and the outcome.

`table` is the table of `docs/reliability.md`; `tests/sparkflow/spark/data/test_bad_rows.py` tries
each of its cells through every door.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from sparkflow.spark.data.feed.worker_feed import WorkerFeed
from sparkflow.spark.data.feed_plan import FeedPlan
from sparkflow.spark.data.plan.arrange import arranged_rows
from sparkflow.spark.data.plan.parquet_rows import parquet_rows
from sparkflow.spark.data.plan.prepare import PreparedRows, prepare_rows
from sparkflow.spark.data.spool.spool import MESSAGE_COLUMN
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.trainer_params import TrainerParams
from sparkflow_runtime.errors import OpError

NAN, INFINITY, TOO_LARGE = float("nan"), float("inf"), 1e300
FAULTS: Final = {
    "null": "null",
    "hole": "a null inside",
    "nan": "NaN",
    "infinity": "infinity",
    "large": "too large for its dtype",
    "negative": "negative",
    "length": "another length",
}
"""The names of what can be wrong, and the table's names for it."""
POLICIES: Final = ("error", "skip", "fill")
GOOD_ROWS: Final = 12
NAMED: Final = 9
"""The minimum number of columns that an error names."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of input.

    Attributes:
        name: The name of its column, and in the table.
        shown: Its name as printed in the table.
        ddl: The column's type; `vector` for Spark ML's.
        good: A valid value.
        bad: Invalid values by fault.
        shape: Its value in `inputShapes`.
        role: `features`, `label` or `weight`.
    """

    name: str
    shown: str
    ddl: str
    good: Any
    bad: Mapping[str, Any]
    shape: list[int | None] | None = None
    role: str = "features"


def _floats(make: Any) -> dict[str, Any]:
    """What can be wrong with numbers: null, NaN, infinity."""
    return {"nan": make(NAN), "infinity": make(-INFINITY), "large": make(TOO_LARGE)}


KINDS: Final = (
    Kind("double", "number", "double", 1.5, {"null": None, **_floats(lambda x: x)}),
    Kind("real", "float", "float", 1.5, {"null": None, "nan": NAN, "infinity": INFINITY}),
    Kind("long", "whole number", "bigint", 3, {"null": None}),
    Kind("bool", "boolean", "boolean", True, {"null": None}),
    Kind("huge", "decimal without places", "decimal(38,0)", Decimal(3),
         {"null": None, "large": Decimal(2) ** 70}),
    Kind("money", "decimal", "decimal(10,2)", Decimal("1.25"), {"null": None}),
    Kind("day", "date", "date", date(2026, 11, 27), {"null": None}),
    Kind("word", "string", "string", "a", {"null": None}),
    Kind("bytes", "binary", "binary", b"a", {"null": None}),
    Kind("pair", "array of floats", "array<double>", [1.0, 2.0],
         {"null": None, "hole": [None, 1.0], **_floats(lambda x: [1.0, x]), "length": [1.0]}),
    Kind("ids", "array of whole numbers, any length", "array<bigint>", [1, 2],
         {"null": None, "hole": [None, 1]}),
    Kind("three", "array of whole numbers, `inputShapes`", "array<bigint>", [1, 2, 3],
         {"null": None, "hole": [None, 1, 2], "length": [1, 2]}, [3]),
    Kind("words", "array of strings", "array<string>", ["a"], {"null": None, "hole": [None]}),
    Kind("prices", "array of floats, any length", "array<double>", [1.0],
         {"null": None, "hole": [None, 1.0], **_floats(lambda x: [x])}, [None]),
    Kind("image", "array of arrays", "array<array<double>>", [[1.0, 2.0], [3.0, 4.0]],
         {"null": None, "hole": [[1.0, None], [3.0, 4.0]],
          **_floats(lambda x: [[1.0, 2.0], [x, 4.0]]), "length": [[1.0, 2.0], [3.0]]}, [2, 2]),
    Kind("dense", "vector", "vector", Vectors.dense([1.0, 2.0]),
         {"null": None, **_floats(lambda x: Vectors.dense([1.0, x])),
          "length": Vectors.dense([1.0])}),
    Kind("sparse", "sparse vector", "vector", Vectors.sparse(100, [(3, 1.0)]),
         {"null": None, **_floats(lambda x: Vectors.sparse(100, [(3, x)])),
          "length": Vectors.sparse(99, [(3, 1.0)])}),
    Kind("label", "label", "double", 1.0, {"null": None, **_floats(lambda x: x)}, role="label"),
    Kind("weight", "weight", "double", 1.0,
         {"null": None, **_floats(lambda x: x), "negative": -1.0}, role="weight"),
)  # fmt: skip


def expected(kind: Kind, fault: str, policy: str) -> str:
    """Returns the outcome of bad rows: `error`, `skipped` or `filled`."""
    if policy == "error" or fault == "length":
        return "error"
    if policy == "skip":
        return "skipped"
    return "filled" if kind.role == "features" else "error"


@dataclass(frozen=True, slots=True)
class Try:
    """Kinds that are tried together, each with one bad row.

    Attributes:
        fault: What is wrong.
        policy: `handleInvalid`.
        kinds: At most as many as an error names.
    """

    fault: str
    policy: str
    kinds: tuple[Kind, ...]

    def __str__(self) -> str:
        return f"{self.fault}, {self.policy}: {', '.join(each.name for each in self.kinds)}"


def tries(most: int = NAMED) -> Iterator[Try]:
    """Yields all cells of the table; kinds with rows of a different length separately.

    Args:
        most: The maximum number of kinds at once; workers name only the first bad column of a file.
    """
    for fault in FAULTS:
        bad = [each for each in KINDS if fault in each.bad]
        if fault == "length":
            groups: list[tuple[Kind, ...]] = [(each,) for each in bad]
        else:
            features = [each for each in bad if each.role == "features"]
            others = [each for each in bad if each.role != "features"]
            groups = [
                tuple(kinds[at : at + most])
                for kinds in (features, others)
                for at in range(0, len(kinds), most)
            ]
        for kinds in groups:
            for policy in POLICIES if fault != "length" else ("skip",):
                yield Try(fault, policy, kinds)


def frame(session: Any, tried: Try) -> DataFrame:
    """Returns rows of these kinds, with a plain column, a label and a weight.

    There are `GOOD_ROWS`, and one more for each kind.
    """
    plain = Kind("plain", "", "double", 1.0, {})
    more = [each for each in KINDS if each.role != "features" and each not in tried.kinds]
    columns = [*tried.kinds, plain, *more]
    fields = [
        StructField(each.name, VectorUDT())
        if each.ddl == "vector"
        else session.createDataFrame([], f"`{each.name}` {each.ddl}").schema.fields[0]
        for each in columns
    ]
    rows = [[each.good for each in columns] for _ in range(GOOD_ROWS + len(tried.kinds))]
    for number, kind in enumerate(tried.kinds):
        rows[GOOD_ROWS // 2 + number][number] = kind.bad[tried.fault]
    made: DataFrame = session.createDataFrame(
        [tuple(row) for row in rows], StructType(fields), verifySchema=False
    )
    return made.coalesce(1)


def config(tried: Try) -> FitConfig:
    """A trainer's parameters for `frame`."""
    made = TrainerParams()
    features = [each for each in tried.kinds if each.role == "features"]
    made.setParams(
        featuresCol={each.name: each.name for each in features} or {"plain": "plain"},
        labelCol="label",
        weightCol="weight",
        inputShapes={each.name: each.shape for each in features if each.shape is not None},
        handleInvalid=tried.policy,
        fillValue=7.0,
        numWorkers=1,
        shuffle=False,
    )
    return made.config()


def by_frame(df: DataFrame, tried: Try) -> dict[str, Any]:
    """Returns the outcome of rows of a DataFrame, in the way that `fit` chooses."""
    with _errors() as found, arranged_rows(df, config(tried), None) as arranged:
        arranged.place(None)
        found |= _said(arranged.prepared)
    return found


def by_exchange(df: DataFrame, tried: Try) -> dict[str, Any]:
    """Returns their outcome if Spark's exchange brings rows to the workers."""
    with _errors() as found, prepare_rows(df, config(tried)) as prepared:
        found |= _said(prepared)
    return found


def by_files(session: Any, path: str, tried: Try) -> dict[str, Any]:
    """Returns the outcome of Parquet files, up to the first batch of a worker."""
    with _errors() as found:
        arranged = parquet_rows(session, path, config(tried))
        prepared, (_, placed) = arranged.prepared, arranged.place(None)
        messages = [row[MESSAGE_COLUMN] for row in placed.df.collect() if row[MESSAGE_COLUMN]]
        rows = GOOD_ROWS + len(tried.kinds)
        plan = FeedPlan(prepared.format, rows, shuffle=False)
        with contextlib.closing(WorkerFeed(plan, 0)) as feed:
            for message in messages:
                feed.take(json.loads(message))
            feed.train.next_batch()
        found |= _said(prepared)
    return found


@contextlib.contextmanager
def _errors() -> Iterator[dict[str, Any]]:
    """Records our errors in the outcome; others are raised."""
    found: dict[str, Any] = {}
    try:
        yield found
    except (ValueError, TypeError, OpError, SparkTrainingError) as error:
        found["error"] = str(error)


def _said(prepared: PreparedRows) -> dict[str, Any]:
    return {
        "rows": prepared.num_rows,
        "skipped": dict(prepared.skipped),
        "filled": dict(prepared.filled),
    }


def wrong(tried: Try, found: dict[str, Any], by_column: bool = True) -> str:
    """Returns what deviates from the table; "" if nothing does.

    Args:
        tried: What was tried.
        found: The outcome.
        by_column: Whether the way counts skipped and filled rows by column; skipped rows of files
            are counted together.
    """
    rows = GOOD_ROWS + len(tried.kinds)
    wanted = {each.name: expected(each, tried.fault, tried.policy) for each in tried.kinds}
    if "error" in wanted.values():
        said = found.get("error", "")
        missing = [
            name
            for name, outcome in wanted.items()
            if outcome == "error"
            and not re.search(
                rf"'{name}'.*\b1 (of {rows} )?rows|\b1 of {rows} rows.*'{name}'", said
            )
        ]
        return f"{tried}: no mention of {missing} in {found}" if missing else ""
    counts = dict.fromkeys(wanted, 1)
    skipped = "skipped" in wanted.values()
    expects = {
        "rows": GOOD_ROWS if skipped else rows,
        "skipped": counts if skipped else {},
        "filled": {} if skipped else counts,
    }
    if not by_column and "error" not in found:
        together = skipped and sum(found["skipped"].values()) == len(counts)
        found = {**found, "skipped": counts if together else {}}
        expects["filled"] = found["filled"]
    return "" if found == expects else f"{tried}: {found}"


def table() -> list[str]:
    """Returns the table of the page, line by line."""
    lines = [
        f"| input | {' | '.join(FAULTS.values())} |",
        f"|---|{'---|' * len(FAULTS)}",
    ]
    for kind in KINDS:
        found = []
        for fault in FAULTS:
            if fault not in kind.bad:
                found.append("")
                continue
            each = [expected(kind, fault, policy) for policy in POLICIES]
            found.append(each[0] if len(set(each)) == 1 else ", ".join(each))
        lines.append(f"| {kind.shown} | {' | '.join(found)} |")
    return lines
