r"""Late flights, by sparkflow and by xgboost.spark: AUC, seconds of `fit`, memory.

    python benchmarks/flights.py [--xgboost-python ~/venvs/xgboost/bin/python] [--record]

Predicts which flights from New York in 2013 arrive more than 15 minutes late, as in
`examples/wide_deep.py`: 262,000 training rows, 65,000 test rows, three columns of strings, two of
integers, eight of floats. Missing weather is filled with means for all competitors. Each competitor
is a process with its own Spark session (`local[3]`, two workers; sparkflow also has a parameter
server); they alternate in each round. xgboost is in another environment with the same pyspark:

    python3 -m venv ~/venvs/xgboost
    ~/venvs/xgboost/bin/pip install xgboost-cpu==3.2.0 scikit-learn pyspark==4.3.0 'pandas<3' \
        pyarrow

Memory is the peak of the proportional set sizes of all processes of a competitor, and of those
except the JVM, sampled five times a second from the start of `fit` to the end of `transform`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import local_spark
import machine
from report import Report, Table, add_options, ratio_text, time_text
from timing import measured

ROOT = Path(__file__).resolve().parents[1]
COMPETITOR = Path(__file__).with_name("flights_competitor.py")
NAMES = {
    "wide_deep": "SparkWideDeepClassifier, as it comes",
    "wide_deep_tuned": "the same, crosses and sizes chosen",
    "xgboost": "SparkXGBClassifier, as it comes",
    "xgboost_tuned": "the same, 500 trees of depth 8, rate 0.1",
}


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=3)
    parser.add_argument("--fraction", type=float, default=1.0, help="of the flights")
    parser.add_argument("--cases", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--xgboost-python", default=sys.executable, help="a Python with xgboost")
    options = parser.parse_args()
    report = Report("flights", local_spark.PACKAGES, options)
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        rows = _prepare(Path(folder), options.fraction)
        for _ in range(options.rounds):
            for name in options.cases:
                python = options.xgboost_python if name.startswith("xgboost") else sys.executable
                answer = _run(python, name, folder)
                if "skip" in answer:
                    print(f"{name} is left out: {answer['skip']}", file=sys.stderr)
                else:
                    found.setdefault(name, []).append(answer)
    first = next(iter(found), None)
    table = [_row(name, found[name], found[str(first)]) for name in found]
    report.finish(
        {
            f"{rows[0]:,} flights to learn from, {rows[1]:,} to test with, median of"
            f" {options.rounds} rounds": Table(_HEADINGS, table)
        }
    )


_HEADINGS = [
    "estimator",
    "test AUC",
    "fit",
    "fit / first row",
    "evaluate",
    "memory, all processes",
    "without the JVM",
    "software",
]


def _row(name: str, answers: list[dict[str, Any]], first: list[dict[str, Any]]) -> list[str]:
    aucs = [each["auc"] for each in answers]
    fits = measured([each["fit_s"] for each in answers])
    return [
        NAMES[name],
        f"{min(aucs):.4f} to {max(aucs):.4f}",
        time_text(fits),
        ratio_text(fits.over(measured([each["fit_s"] for each in first]))),
        time_text(measured([each["evaluate_s"] for each in answers])),
        _gib(max(each["peak_bytes"] for each in answers)),
        _gib(max(each["peak_python_bytes"] for each in answers)),
        answers[0]["software"],
    ]


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / (1 << 30):.2f} GiB"


def _prepare(folder: Path, fraction: float) -> tuple[int, int]:
    """Writes `train` and `test` as Parquet; returns their numbers of rows."""
    from pyspark.ml.feature import Imputer
    from pyspark.sql import functions as F

    spec = importlib.util.spec_from_file_location("wide_deep", ROOT / "examples" / "wide_deep.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(ROOT / "examples" / "wide_deep.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with local_spark.started(folder, 2) as spark:
        flights = example.read_flights(spark, folder, fraction).cache()
        held_out = F.pmod("identity", F.lit(5)) == 0
        imputer = Imputer(inputCols=example.WEATHER, outputCols=example.WEATHER)
        filling = imputer.fit(flights.where(~held_out))
        counts = []
        for name, rows in (("train", flights.where(~held_out)), ("test", flights.where(held_out))):
            filling.transform(rows).drop("identity").repartition(4).write.parquet(
                str(folder / name)
            )
            counts.append(rows.count())
    return counts[0], counts[1]


def _run(python: str, name: str, folder: str) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(COMPETITOR), name, folder],
        env=machine.clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    main()
