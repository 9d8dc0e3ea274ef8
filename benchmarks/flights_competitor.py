"""One competitor of `flights.py`, as a process: `flights_competitor.py NAME FOLDER`.

Fits on `FOLDER/train`, evaluates on `FOLDER/test`, and prints the results as a line of JSON. It
runs in environments without sparkflow.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

TEXTS = ["carrier", "origin", "dest"]
INTEGERS = ["day", "hour"]
NUMBERS = ["distance", "departure"]
NUMBERS += ["temp", "humid", "visib", "precip", "wind_speed", "pressure"]
WORKERS = 2


def wide_deep(tuned: bool) -> Any:
    """Returns sparkflow's estimator, which takes strings and integers unchanged."""
    from sparkflow.spark import SparkWideDeepClassifier

    categories = [*TEXTS, *INTEGERS]
    estimator = SparkWideDeepClassifier(
        labelCol="late",
        wideCols=categories,
        deepCols=[*categories, *NUMBERS],
        categoricalCols=INTEGERS,
        numWorkers=WORKERS,
        progress=False,
    )
    if tuned:  # as in examples/wide_deep.py
        estimator.setParams(
            crossCols=[["day", "hour"], ["origin", "day"], ["carrier", "dest"]],
            embeddingDim={"carrier": 6, "origin": 2, "dest": 10, "day": 12, "hour": 4},
            hashBuckets={"day_x_hour": 20_000, "origin_x_day": 4_000, "carrier_x_dest": 2_000},
            learningRate=0.002,
            batchSize=512,
            epochs=5,
        )
    return estimator


def xgboost(tuned: bool) -> Any:
    """Returns xgboost's estimator after an indexer of the strings."""
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import StringIndexer
    from xgboost.spark import SparkXGBClassifier  # type: ignore[import-not-found]

    indexed = [f"{name}_index" for name in TEXTS]
    indexer = StringIndexer(inputCols=TEXTS, outputCols=indexed, handleInvalid="keep")
    chosen: dict[str, Any] = {}
    if tuned:
        chosen = {"n_estimators": 500, "max_depth": 8, "learning_rate": 0.1}
    classifier = SparkXGBClassifier(
        features_col=[*indexed, *INTEGERS, *NUMBERS],
        label_col="late",
        num_workers=WORKERS,
        **chosen,
    )
    return Pipeline(stages=[indexer, classifier])


COMPETITORS = {
    "wide_deep": ("sparkflow", lambda: wide_deep(False)),
    "wide_deep_tuned": ("sparkflow", lambda: wide_deep(True)),
    "xgboost": ("xgboost", lambda: xgboost(False)),
    "xgboost_tuned": ("xgboost", lambda: xgboost(True)),
}


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    package, make = COMPETITORS[name]
    if importlib.util.find_spec(package) is None:
        print(json.dumps({"skip": f"the package {package} is not installed"}))
        return
    from pyspark.ml.evaluation import BinaryClassificationEvaluator
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(f"local[{WORKERS + 1}]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    training, test = (spark.read.parquet(str(folder / each)) for each in ("train", "test"))
    training.count()  # the JVM has read Parquet once
    with memory() as peaks:
        began = time.perf_counter()
        model = make().fit(training)
        fitted = time.perf_counter()
        auc = BinaryClassificationEvaluator(labelCol="late").evaluate(model.transform(test))
        evaluated = time.perf_counter()
    spark.stop()
    found = {
        "auc": float(auc),
        "fit_s": fitted - began,
        "evaluate_s": evaluated - fitted,
        "peak_bytes": peaks["all"],
        "peak_python_bytes": peaks["python"],
        "software": software(),
    }
    print(json.dumps(found))


def software() -> str:
    """The packages whose versions matter."""
    names = ("sparkflow-ml", "xgboost-cpu", "xgboost", "pyspark")
    installed = {item.metadata["Name"].lower(): item.version for item in metadata.distributions()}
    return ", ".join(f"{name} {installed[name]}" for name in names if name in installed)


@contextmanager
def memory() -> Iterator[dict[str, int]]:
    """Samples this process and its descendants; reports the peaks in bytes at the end."""
    peaks = {"all": 0, "python": 0}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            sizes = [(name, _pss_bytes(process)) for process, name in _tree()]
            now = {
                "all": sum(size for _, size in sizes),
                "python": sum(size for name, size in sizes if name != "java"),
            }
            for key, value in now.items():
                peaks[key] = max(peaks[key], value)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peaks
    finally:
        over.set()
        watcher.join()


def _tree() -> list[tuple[int, str]]:
    """Returns process ids and names of this process and its descendants."""
    parents: dict[int, tuple[int, str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        parents[int(path.parent.name)] = int(rest.split()[1]), name
    ours = {os.getpid()}
    while True:
        more = {each for each, (parent, _) in parents.items() if parent in ours} - ours
        if not more:
            return [(each, parents[each][1]) for each in ours if each in parents]
        ours |= more


def _pss_bytes(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    line = next((each for each in text.splitlines() if each.startswith("Pss:")), "Pss: 0 kB")
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main()
